"""`FluentJudge`: a function that scores an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from adk_fluent.errors import EvalError

Verdict: TypeAlias = Callable[[str, "str | None", "list[str]"], "float | Awaitable[float]"]
"""`(actual_response, reference, tool_trajectory) -> score` from 0 to 1."""


@dataclass(frozen=True)
class FluentJudge:
    """A function that scores the answers of a case; a metric of its own in ADK's registry.

    Args:
        name: what the metric is called.
        fn: `(actual_response, reference, tool_trajectory) -> float`, from 0 to 1: the answer of a turn, the
            reference of the turn or `None`, and the names of the tools that were called in it. It is called
            once per turn, and the score of a case is the mean. It may be async. One that raises, or gives
            anything but a number from 0 to 1, fails its case, which says so.
        threshold: the least score with which a case passes.
        description: what it looks at, in a sentence.

    Raises:
        EvalError: there is no name, nothing that can be called, or the threshold is no number from 0 to 1.

    Example:
        >>> def is_short(response: str, reference: str | None, tools: list[str]) -> float:
        ...     return 1.0 if len(response) < 200 else 0.0
        >>> FluentJudge("brevity", is_short, threshold=1.0).name
        'brevity'
    """

    name: str
    fn: Verdict
    threshold: float = 0.5
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise EvalError(f"A FluentJudge has a name, not {self.name!r}.")
        if not callable(self.fn):
            raise EvalError(f"FluentJudge({self.name!r}): fn is a function, not {self.fn!r:.40}.")
        check_score("threshold", self.name, self.threshold)
        if not isinstance(self.description, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
            raise EvalError(f"FluentJudge({self.name!r}): description is text, not {self.description!r:.40}.")


def check_score(what: str, name: str, value: object) -> None:
    """Refuse what is no score.

    Raises:
        EvalError: it is no number from 0 to 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise EvalError(f"The {what} of {name!r} is a number from 0 to 1, not {value!r:.40}.")
