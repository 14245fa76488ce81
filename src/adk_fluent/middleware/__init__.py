"""What happens around runs, agents, models and tools: write your own, or take one that is here."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
