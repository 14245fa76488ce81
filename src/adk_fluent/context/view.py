"""The facts about a spec before a run: the part of a conversation that it shows, and its helper requests.

A `ContextView` is a safe bound: it may show more than a run does, never less. `any_of` joins the views of
several sources and keeps that invariant; an exclusion counts only if no source shows the agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple


@dataclass(frozen=True, slots=True)
class ContextView:
    """The part of a conversation that a spec shows to an agent.

    The agent always sees the current user message and its own tool use of the turn; only `message` is about
    them.

    Attributes:
        history: `all` of the conversation, `none` of it, or `some`.
        authors: the agents whose texts may be visible; `None` for all agents.
        excluded: agents whose texts are not visible.
        user: True if the user's earlier messages may be visible.
        files: True if images and files of the conversation are sent as such.
        keys: the state keys whose values are shown.
        as_contents: True if the selection arrives as real messages.
        unknown: True if entries that the other fields allow may be missing or changed, because a condition, a
            limit or a model decides. For a sum this is about the current turn.
        turns: the number of visible turns, the current one included; `None` for no limit.
        message: True if the current user message is visible as it was written.
        holds_model_text: True if a state value may hold texts from a model, which later filters do not reach.
    """

    history: Literal["all", "none", "some"] = "all"
    authors: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    user: bool = True
    files: bool = True
    keys: tuple[str, ...] = ()
    as_contents: bool = False
    unknown: bool = False
    turns: int | None = None
    message: bool = True
    holds_model_text: bool = False

    def may_see(self, agent: str) -> bool:
        """True if a text that `agent` wrote in the current turn may be visible."""
        allowed = self.authors is None or agent in self.authors
        return self.history != "none" and allowed and agent not in self.excluded

    def some(self, *, unknown: bool = False) -> ContextView:
        """The view of a part of this; `unknown=True` if it is not known which part."""
        history = "none" if self.history == "none" else "some"
        return replace(self, history=history, unknown=self.unknown or unknown)

    def nothing(self) -> ContextView:
        """The view without the conversation; state values stay."""
        return replace(NOTHING, keys=self.keys, message=self.message, holds_model_text=self.holds_model_text)

    def by(self, agents: frozenset[str], *, unknown: bool = False) -> ContextView:
        """The view of only those texts that these agents wrote."""
        authors = agents if self.authors is None else self.authors & agents
        return replace(self.some(unknown=unknown), authors=authors)

    def beside(self, keys: Sequence[str]) -> ContextView:
        """The view with the values of more state keys."""
        return replace(self, keys=(*self.keys, *keys))

    def through(self, later: ContextView) -> ContextView:
        """The view after a filter that leaves `later` of this view.

        A filter does not reach texts in a value that a model made, so those stay visible.
        """
        if not self.holds_model_text:
            return later
        return replace(any_of([later, self]), keys=later.keys, unknown=True)

    def perhaps(self) -> ContextView:
        """The view under a condition, which is decided during the run."""
        return replace(self, unknown=True)


ALL: Final = ContextView()
NOTHING: Final = ContextView(history="none", authors=frozenset(), user=False, files=False)


def any_of(views: Sequence[ContextView]) -> ContextView:
    """The union of views: everything that at least one of them shows."""
    first, *others = views
    for other in others:
        seeing = [v for v in (first, other) if v.history != "none"]
        keys = tuple(dict.fromkeys((*first.keys, *other.keys)))
        if len(seeing) < 2:
            first = replace(seeing[0] if seeing else first, keys=keys)
            continue
        if whole := [v for v in seeing if v.history == "all"]:
            first = replace(ALL, keys=keys, unknown=all(v.unknown for v in whole))
            continue
        first = ContextView(
            history="some",
            authors=None if first.authors is None or other.authors is None else first.authors | other.authors,
            excluded=_never(first, other) & _never(other, first),
            user=first.user or other.user,
            keys=keys,
            unknown=first.unknown or other.unknown,
            turns=None if first.turns is None or other.turns is None else max(first.turns, other.turns),
        )
    return replace(
        first, message=all(v.message for v in views), holds_model_text=any(v.holds_model_text for v in views)
    )


def _never(one: ContextView, other: ContextView) -> frozenset[str]:
    """Agents that `one` never shows: those that it excludes, and those of `other.excluded` that it omits."""
    return one.excluded | frozenset(name for name in other.excluded if not one.may_see(name))


# --- requests to helper models --------------------------------------------------------------------


class Volume(NamedTuple):
    """The average size of the conversation that an operation receives.

    Attributes:
        tokens: all its tokens.
        messages: the number of its messages.
        earlier: its tokens of earlier turns; a part of `tokens`.
        turns: the number of earlier turns.
        question: tokens of the user's current message, which `tokens` does not include.
    """

    tokens: float
    messages: float = 0.0
    earlier: float = 0.0
    turns: float = 0.0
    question: float = 0.0


class ExpectedRequest(NamedTuple):
    """A request to a helper model that a run will probably send.

    Attributes:
        of: the operation that asks, such as `C.summarize`.
        model: the model; `None` is the agent's own model.
        tokens: tokens of the request.
        answer: tokens of the answer; `None` for an embedding model, whose answer has none.
    """

    of: str
    model: Any
    tokens: float
    answer: float | None


Expected = tuple[tuple[ExpectedRequest, ...], Volume]
"""The expected requests, and the size of the remaining conversation."""
