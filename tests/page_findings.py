"""Findings about the expressions on a page, and those of them that the page shows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from adk_fluent.contracts import ContractIssue, check, check_all
from adk_fluent.expr.base import Expr
from adk_fluent.ir import Node, walk
from adk_fluent.ir.base import root_of
from adk_fluent.ir.execution import InOrder
from tests.samples import TERSE


@dataclass
class Shown:
    """The contents of a page.

    Attributes:
        text: its whole output.
        named: the expressions that it gives a name.
        states: the expressions that it runs, each with its state.
    """

    text: str = ""
    named: dict[Node, None] = field(default_factory=dict[Node, None])
    states: dict[Node, dict[str, Any]] = field(default_factory=dict[Node, dict[str, Any]])

    def name(self, values: Iterable[object]) -> None:
        """Add the expressions among some values that have a name on the page."""
        found = (cast("Expr[Any]", value) for value in values if isinstance(value, Expr))
        self.named |= dict.fromkeys(one.node for one in found)

    def wholes(self) -> Iterator[Node]:
        """The named expressions that are part of no other one."""
        names = {node.name for whole in self.named for node in walk(whole) if node is not whole and node.name}
        within = {
            whole: {node for node in walk(whole) if node is not whole}
            for whole in (*self.named, *self.states)
        }
        for whole in self.named:
            parts = (
                whole.children if isinstance(whole.runs, InOrder) else (whole,)
            )  # one in another is flattened
            others = (nodes for other, nodes in within.items() if other != whole)
            if whole.name not in names and not any(nodes.issuperset(parts) for nodes in others):
                yield whole

    def findings(self, page: str) -> list[str]:
        """The findings about them that the page does not show."""
        reports = [check_all(whole, state=self.states.get(whole)) for whole in self.wholes()]
        found = [issue for one in reports for issue in (*one.errors, *one.warnings, *one.infos)]
        found = [issue for issue in found if issue.code not in TERSE]
        return list(dict.fromkeys(str(issue) for issue in found if not self._shows(issue, page)))

    def _shows(self, issue: ContractIssue, page: str) -> bool:
        """True if a page shows a finding, or the use of a key that no step reads."""
        used = (f"'{issue.key}'", f'Did you mean "{issue.key}"?')
        return bool(
            issue.message in self.text
            or (issue.hint and issue.hint in self.text)
            or (issue.code == "dead-state" and any(text in self.text for text in used))
            or (issue.code == "dead-state" and f'state["{issue.key}"]' in page)
        )


@contextlib.contextmanager
def noting_runs(shown: Shown) -> Generator[None]:
    """Note each expression that is run, or checked in a state, with that state."""

    def noting(check: Callable[..., Any]) -> Callable[..., Any]:
        def noted(of: object, *, state: Mapping[str, Any] | None = None, **more: Any) -> Any:
            shown.states.setdefault(root_of(of), {}).update(state or {})
            return check(of, state=state, **more)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for name in ("check_on_build", "check_all"):
            patch.setattr(check, name, noting(getattr(check, name)))
        yield
