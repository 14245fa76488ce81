"""One module per check; each check is a plain function from a tree to what it finds."""
