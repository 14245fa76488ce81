"""Checks of a pipeline before it runs: missing keys, lost answers, wrong types, unreachable steps and so on.

`check.check_all` is the entry: it computes the facts (`analysis`), runs every check on them, and returns a
report. `checks` holds one module per topic, `findings` and `reasons` the findings that several checks make
and their wording, `issues` one class per kind of finding, and `refusals` and `tree_rules` the rules for which
compiling raises an error, too. The package may import `analysis`, `cost`, `middleware` and the layers below
them, but no backend. Read `check.check_all` first, then `checks/control_flow.py` as an example.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
