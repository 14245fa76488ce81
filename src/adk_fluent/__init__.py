"""adk-fluent: a fluent, typed expression layer over Google's Agent Development Kit."""

__version__ = "0.1.0"
