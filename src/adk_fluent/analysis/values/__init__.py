"""The knowledge about state keys: `Fact` for one key, `Knowledge` for all, and how operations change them."""
