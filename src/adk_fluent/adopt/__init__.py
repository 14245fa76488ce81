"""Projects in plain ADK: their agents as expressions, and expressions as source."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
