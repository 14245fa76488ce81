"""What happened in a run: recorded, replayed, compared, and gone back to."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
