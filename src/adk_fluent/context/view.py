"""What can be said of a context spec before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from adk_fluent.context.spec import Context


@dataclass(frozen=True, slots=True)
class View:
    """What a spec lets an agent see.

    The current user message, and the agent's own tool use of the turn, are always seen; only `message` speaks
    of them.

    Attributes:
        history: the whole conversation, nothing of it, or some.
        authors: only these agents' texts may be seen; `None` for no such limit.
        excluded: these agents' texts are not seen.
        user: whether the user's earlier messages may be seen.
        files: whether images and files of the conversation are seen as such.
        keys: the state keys whose values are shown.
        as_contents: whether what is selected arrives as real messages.
        unknown: whether what may be seen by the other fields may also be missing or altered, because a
            condition, a limit or a model decides. Of a sum it speaks for the current turn.
        turns: how many turns are seen, the current one included; `None` for no limit.
        message: whether the current user message is seen as it was written.
        made: whether words may stand in a value that a model made of them, out of the reach of later filters.
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
    made: bool = False

    def may_see(self, agent: str) -> bool:
        """Whether a text of `agent`, said in the current turn, may be seen."""
        allowed = self.authors is None or agent in self.authors
        return self.history != "none" and allowed and agent not in self.excluded

    def some(self, *, unknown: bool = False) -> View:
        """The same view of no more than a part of it; `unknown`, of what part is not known."""
        history = "none" if self.history == "none" else "some"
        return replace(self, history=history, unknown=self.unknown or unknown)

    def nothing(self) -> View:
        """The same view of nothing of the conversation."""
        return replace(NOTHING, keys=self.keys, message=self.message, made=self.made)

    def by(self, agents: frozenset[str], *, unknown: bool = False) -> View:
        """A part of it: what these agents said."""
        authors = agents if self.authors is None else self.authors & agents
        return replace(self.some(unknown=unknown), authors=authors)

    def beside(self, keys: Sequence[str]) -> View:
        """The same, with the values of some state keys beside it."""
        return replace(self, keys=(*self.keys, *keys))

    def through(self, later: View) -> View:
        """What is seen of this view through a filter that leaves `later` of it."""
        if not self.made:
            return later
        return replace(either([later, self]), keys=later.keys, unknown=True)

    def perhaps(self) -> View:
        """The same, where a condition decides whether it is seen."""
        return replace(self, unknown=True)


ALL: Final = View()
NOTHING: Final = View(history="none", authors=frozenset(), user=False, files=False)


def view(spec: Context) -> View:
    """What a spec lets an agent see, as far as that is known before it runs.

    >>> from adk_fluent import C
    >>> view(C.from_agents("critic")).may_see("writer")
    False
    """
    seen = spec.sees(ALL)
    whole = seen.history == "all" and spec.is_untouched
    return replace(seen, files=seen.history != "none" and (whole or spec.contents), as_contents=spec.contents)


def either(views: Sequence[View]) -> View:
    """What is seen where all of these are."""
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
        first = View(
            history="some",
            authors=None if first.authors is None or other.authors is None else first.authors | other.authors,
            excluded=_never(first, other) & _never(other, first),
            user=first.user or other.user,
            keys=keys,
            unknown=first.unknown or other.unknown,
            turns=None if first.turns is None or other.turns is None else max(first.turns, other.turns),
        )
    return replace(first, message=all(v.message for v in views), made=any(v.made for v in views))


def _never(one: View, other: View) -> frozenset[str]:
    """Agents that `one` excludes, and those `other` excludes which `one` does not name either."""
    return one.excluded | frozenset(name for name in other.excluded if not one.may_see(name))
