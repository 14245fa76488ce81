"""How fast adk-fluent is, against plain ADK written by hand: `./dev bench`."""
