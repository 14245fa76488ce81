"""Reads the installed google-adk and writes the parts of adk-fluent that mirror it.

`python -m codegen write` regenerates `src/adk_fluent/ir/_generated.py`, `src/adk_fluent/expr/_generated.py`
and the scan they were made from, `src/adk_fluent/tide/reference.json`; `check` fails when they are stale;
`scan` stores what an ADK release looks like; `diff` says what changed between two stored scans. Scanning and
comparing is `adk_fluent.tide`, which users have too.
"""
