"""adk-fluent: a fluent, typed expression layer over Google's Agent Development Kit."""
