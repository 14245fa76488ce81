"""These tests are for the newest ADK alone; elsewhere the engine is not installed, and not even imported."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = [] if find_spec("temporalio") else ["test_*.py"]
