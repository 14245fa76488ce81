"""The words that pictures use for tests and branches."""

from __future__ import annotations

from adk_fluent.ir.functions import access, function_name
from adk_fluent.ir.matching import Match, Predicate


def condition(test: Predicate, key: str | None = None) -> str:
    """A predicate in a few words; a comparison with `key`, which is named elsewhere, shows its value alone.

    >>> condition(Match("intent", "eq", "billing"), "intent")
    'billing'
    >>> condition(Match("score", "gte", 8))
    'score >= 8'
    """
    if isinstance(test, Match):
        if test.key == key:
            return str(test.value) if test.op == "eq" else str(test).removeprefix(f"{key} ")
        if test.op == "truthy":
            return test.key if test.value else f"not {test.key}"
        return str(test)
    name = function_name(test, "a test")
    reads = sorted(access(test).reads)
    return f"{name}({', '.join(reads)})" if reads else name
