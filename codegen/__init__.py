"""Reads the installed google-adk and writes the parts of adk-fluent that mirror it.

`python -m codegen write` regenerates `src/adk_fluent/ir/_generated.py` and
`src/adk_fluent/expr/_generated.py`; `check` fails when they are stale; `scan` stores what an ADK
release looks like; `diff` says what changed between two stored scans.
"""
