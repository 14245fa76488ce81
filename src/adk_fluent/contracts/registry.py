"""The registry of the checks that `check_all` runs: the built-in ones, and those that users add."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final
from weakref import WeakKeyDictionary

from adk_fluent.analysis.facts import Facts
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node
from adk_fluent.ir.predicates import plain

Checker = Callable[[Node], Iterable[ContractIssue]]
"""A check that a user adds."""
Check = Callable[[object], list[ContractIssue]]
"""A built-in check. It takes anything that `check_all` takes, or the facts about it."""

_CHECKS: Final = "adk_fluent.contracts.checks"
_places: Final[dict[Check, int]] = {}
_registered: Final[list[Checker]] = []
_found: Final = WeakKeyDictionary[Facts, tuple[ContractIssue, ...]]()


def check(*, place: int) -> Callable[[Check], Check]:
    """Make a function in `contracts/checks` one of the built-in checks.

    Args:
        place: its position among the others. A report lists findings of one severity in this order, and
            of two equal findings it keeps the first.
    """

    def register(fn: Check) -> Check:
        _places[fn] = place
        return fn

    return register


@cache
def built_in_checks() -> tuple[Check, ...]:
    """The built-in checks in their order. To find them, import every module of `contracts/checks`."""
    for module in iter_modules(import_module(_CHECKS).__path__, f"{_CHECKS}."):
        import_module(module.name)
    return tuple(sorted(_places, key=_places.__getitem__))


def register_checker(fn: Checker) -> Checker:
    """Add your own check to every `check_all` and to the log of every build; also usable as a decorator.

    Args:
        fn: a function from the root node to `ContractIssue`s. Registering it twice has no effect.

    Raises:
        ArgumentError: `fn` is not callable.

    Example:
        >>> from adk_fluent import Agent
        >>> from adk_fluent.contracts import ContractIssue, Severity, check_all
        >>> from adk_fluent.ir import walk
        >>> def no_test_agents(root):
        ...     for node in walk(root):
        ...         if node.name.startswith("test_"):
        ...             yield ContractIssue(
        ...                 severity=Severity.WARN, code="test-agent", agent=node.name,
        ...                 message=f"{node.name} is a test agent",
        ...             )
        >>> _ = register_checker(no_test_agents)
        >>> print(check_all(Agent("test_a").instruct("Help.")))
        ⚠ test_a is a test agent: WARN
        >>> unregister_checker(no_test_agents)
    """
    if not callable(fn):
        raise ArgumentError(f"register_checker() takes a function of the root node, not {fn!r:.40}.")
    plain(fn, "register_checker()")
    if fn not in _registered:
        _registered.append(fn)
    return fn


def unregister_checker(fn: Checker) -> None:
    """Remove a check that `register_checker` added. Without such a check, do nothing."""
    if fn in _registered:
        _registered.remove(fn)


def run_checkers(facts: Facts) -> list[ContractIssue]:
    """The findings of all checks. Those of the built-in checks are cached per facts, which never change."""
    known = _found.get(facts)
    if known is None:
        known = _found[facts] = tuple(issue for find in built_in_checks() for issue in find(facts))
    own = (issue for find in tuple(_registered) for issue in find(facts.root))
    return [*known, *own]
