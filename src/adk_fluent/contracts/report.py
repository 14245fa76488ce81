"""Findings, the report that holds them, and the registry of the checks that make them.

`check` registers a built-in check, `register_checker` one of a user, and `run_checkers` runs all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final, TypeVar, dataclass_transform
from weakref import WeakKeyDictionary

from adk_fluent import _html as html
from adk_fluent.errors import ArgumentError, ContractError
from adk_fluent.ir.base import Node
from adk_fluent.ir.frozen import Frozen, freeze, frozen
from adk_fluent.ir.predicates import plain

if TYPE_CHECKING:
    from adk_fluent.analysis.facts import Facts

C = TypeVar("C", bound=type)


class Severity(Enum):
    """The severity of a finding; `OK` confirms that a key is in state when it is read."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"
    OK = "ok"


@dataclass_transform(frozen_default=True, kw_only_default=True)
def issue(cls: C) -> C:
    """Make a class a kind of finding: a frozen dataclass with keyword arguments."""
    return freeze(cls, kw_only=True)


@issue
class ContractIssue(Frozen):
    """One finding.

    Attributes:
        severity: the severity; `WARN` by default.
        code: the kind of finding, stable over versions; `docs/reference/contracts.md` has a section on each.
        agent: the unique name of the agent or step.
        key: the state key with its scope prefix; `None` if the finding is not about a key.
        message: the problem in one line.
        hint: the reason, and what to write instead.
    """

    severity: Severity = Severity.WARN
    code: str = "custom"
    agent: str = ""
    key: str | None = None
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """The finding as the report prints it."""
        lines = [f"{_MARKS[self.severity]} {self.message}: {self.severity.name}"]
        lines += [f"  {line}" for line in self.hint.splitlines()]
        return "\n".join(lines)


_MARKS: Final = {Severity.OK: "✓", Severity.INFO: "⚠", Severity.WARN: "⚠", Severity.ERROR: "✗"}


@frozen
class ContractReport(Frozen):
    """All findings of the checks, errors first.

    Attributes:
        issues: all findings, including those with severity `OK`.
    """

    issues: tuple[ContractIssue, ...] = ()

    @classmethod
    def of(cls, issues: Iterable[ContractIssue], *, strict: bool = False) -> ContractReport:
        """A report of these findings, errors first, each once; `strict` makes warnings and notes errors."""
        found = {(i.code, i.agent, i.key, i.message, i.hint): i for i in issues}.values()
        if strict:
            found = map(_promoted, found)
        return cls(tuple(sorted(found, key=lambda issue: _ORDER[issue.severity])))

    def _of(self, severity: Severity) -> tuple[ContractIssue, ...]:
        return tuple(issue for issue in self.issues if issue.severity is severity)

    @property
    def errors(self) -> tuple[ContractIssue, ...]:
        """The errors: a run fails there, or gives a wrong result."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[ContractIssue, ...]:
        """The warnings: a run may fail there."""
        return self._of(Severity.WARN)

    @property
    def infos(self) -> tuple[ContractIssue, ...]:
        """The notes: a run works, but perhaps not as intended."""
        return self._of(Severity.INFO)

    @property
    def oks(self) -> tuple[ContractIssue, ...]:
        """The confirmations: each says that a key is in state when it is read."""
        return self._of(Severity.OK)

    @property
    def ok(self) -> bool:
        """True if there are no errors."""
        return not self.errors

    def __str__(self) -> str:
        """One paragraph per finding; one sentence if there are no findings."""
        return "\n".join(map(str, self.issues)) or "✓ Nothing to report."

    def to_json(self) -> str:
        """The report as JSON, in a stable layout whose number is in `version`."""
        rows = [
            {
                "severity": issue.severity.value,
                "code": issue.code,
                "agent": issue.agent,
                "key": issue.key,
                "message": issue.message,
                "hint": issue.hint,
            }
            for issue in self.issues
        ]
        counts = {severity.value: len(self._of(severity)) for severity in Severity}
        return json.dumps({"version": 1, "ok": self.ok, "counts": counts, "issues": rows}, indent=2)

    def to_markdown(self) -> str:
        """The report as a Markdown table."""
        if not self.issues:
            return "Nothing to report.\n"
        head = ["| severity | code | agent | key | finding |", "| --- | --- | --- | --- | --- |"]
        rows = [
            f"| {issue.severity.name} | `{issue.code}` | {_cell(issue.agent)} | {_cell(issue.key or '')} "
            f"| {_cell(issue.message)}{'<br>' * bool(issue.hint)}{_cell(issue.hint)} |"
            for issue in self.issues
        ]
        return "\n".join([*head, *rows, ""])

    def _repr_html_(self) -> str:
        """The report as HTML for a notebook: counts, and a table of findings, errors first."""
        found = [issue for issue in self.issues if issue.severity is not Severity.OK]
        if not found:
            promises = f"; promises that hold: {len(self.oks)}" * bool(self.oks)
            return html.title(f"✓ No problems found{promises}")
        counts = [(self.errors, "error"), (self.warnings, "warning"), (self.infos, "note")]
        shown = [f"{len(some)} {word}{'s' * (len(some) != 1)}" for some, word in counts if some]
        rows = [(_MARKS[i.severity], i.agent, i.key or "", i.message, i.hint) for i in found]
        return html.title(", ".join(shown)) + html.table(["", "agent", "key", "finding", "what to do"], rows)

    def raise_if_errors(self) -> None:
        """Raise an error if the report has errors.

        Raises:
            ContractError: the report has errors; the message holds all of them.
        """
        if self.errors:
            raise ContractError("\n".join(map(str, self.errors)))


_ORDER: Final = {severity: index for index, severity in enumerate(Severity)}


def _promoted(found: ContractIssue) -> ContractIssue:
    promote = found.severity in (Severity.WARN, Severity.INFO)
    return found.replace(severity=Severity.ERROR) if promote else found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")


# --- the checks -----------------------------------------------------------------------------------


Checker = Callable[[Node], Iterable[ContractIssue]]
"""A check that a user adds."""
Check = Callable[[object], list[ContractIssue]]
"""A built-in check. It takes anything that `check_all` takes, or the facts about it."""

_CHECKS: Final = "adk_fluent.contracts.checks"
_places: Final[dict[Check, int]] = {}
_registered: Final[list[Checker]] = []
_found: Final[WeakKeyDictionary[Facts, tuple[ContractIssue, ...]]] = WeakKeyDictionary()


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
