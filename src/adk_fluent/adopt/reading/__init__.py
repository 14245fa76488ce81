"""Native agents, apps and workflows read as nodes."""
