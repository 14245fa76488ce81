"""`assert_contracts`: nothing is wrong with an expression."""

from __future__ import annotations

from typing import Any

from adk_fluent.contracts import check_contracts


def assert_contracts(subject: Any, *, schema: type | None = None) -> None:
    """Fail the test if the contract checks find an error or a warning; each is shown with what to do.

    Args:
        subject: an expression, a node, or what was built of one.
        schema: a `StateSchema` that the keys must be declared in.

    Raises:
        AssertionError: something was found.

    Example:
        >>> from adk_fluent import Agent
        >>> assert_contracts(Agent("a").writes("x") >> Agent("b").instruct("Use {x}."))
    """
    __tracebackhide__ = True
    if issues := check_contracts(subject, schema=schema):
        found = "\n".join(str(issue) for issue in issues)
        raise AssertionError(f"{len(issues)} contract finding{'s' * (len(issues) != 1)}:\n{found}")
