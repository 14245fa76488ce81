"""The command `adk-fluent`, also `python -m adk_fluent`."""

from adk_fluent.cli.main import main

__all__ = ["main"]
