"""What can be said of a context spec before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, cast

from adk_fluent.context.entries import USER
from adk_fluent.context.spec import NEUTRAL, SHOWN, Context
from adk_fluent.ir.template import all_keys


@dataclass(frozen=True, slots=True)
class View:
    """What a spec lets an agent see.

    The current user message, and the agent's own tool use of the turn, are always seen and not meant here.

    Attributes:
        history: the whole conversation, nothing of it, or some.
        authors: only these agents' texts may be seen; `None` for no such limit.
        excluded: these agents' texts are not seen.
        user: whether the user's earlier messages may be seen.
        files: whether images and files of the conversation are seen as such.
        keys: the state keys whose values are shown.
        as_contents: whether what is selected arrives as real messages.
        unknown: whether what may be seen by the other fields may also be missing or altered, because a
            condition, a limit or a model decides.
        turns: how many turns are seen, the current one included; `None` for no limit.
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

    def may_see(self, agent: str) -> bool:
        """Whether a text of `agent`, said in the current turn, may be seen."""
        allowed = self.authors is None or agent in self.authors
        return self.history != "none" and allowed and agent not in self.excluded


ALL: Final = View()
NOTHING: Final = View(history="none", authors=frozenset(), user=False, files=False)
MAKING: Final = frozenset({"extract", "distill"})
"""Operations that write what they make of the conversation."""

_SAFE: Final = NEUTRAL | {"default", "compact"}
"""Filters through which every text still passes as it is."""


def view(spec: Context) -> View:
    """What a spec lets an agent see, as far as that is known before it runs.

    >>> from adk_fluent import C
    >>> view(C.from_agents("critic")).may_see("writer")
    False
    """
    seen = _through(spec, ALL)
    whole = seen.history == "all" and is_untouched(spec)
    return replace(seen, files=seen.history != "none" and (whole or spec.contents), as_contents=spec.contents)


def is_untouched(spec: Context) -> bool:
    """Whether the conversation always stays as ADK assembles it."""
    if spec.op == "sum":
        sources = [part for part in spec.parts if part.is_selection]
        filters = [part for part in spec.parts if not part.is_selection]
        certain = any(part.op != "when" and is_untouched(part) for part in sources)
        whole = certain or all(is_untouched(part) for part in sources)
        return whole and all(is_untouched(part) for part in filters)
    if spec.parts:
        return all(is_untouched(part) for part in spec.parts if part.op not in SHOWN)
    return spec.op == "default" or spec.op in NEUTRAL


def made_by(spec: Context) -> frozenset[str]:
    """The state keys that a spec may write before its agent is asked: what it makes of the conversation."""
    if not spec.access.writes:
        return frozenset()
    own = spec.access.writes if spec.op in MAKING else frozenset[str]()
    return own.union(*map(made_by, spec.parts))


def surely_written(spec: Context, *, anything: bool) -> frozenset[str]:
    """The state keys that a spec writes whenever its agent answers.

    Args:
        anything: whether there is something in the conversation; of nothing, nothing is extracted.

    >>> from adk_fluent import C
    >>> surely_written(C.write_notes("pad") + C.distill(into="facts"), anything=False)
    frozenset({'pad'})
    """
    if spec.op == "write_notes":
        return spec.access.writes
    if spec.op in MAKING:
        return spec.access.writes if anything else frozenset()
    if spec.op == "when":
        return frozenset()
    whole = all(is_untouched(part) for part in spec.parts if part.op not in MAKING)
    return frozenset[str]().union(*(surely_written(part, anything=anything and whole) for part in spec.parts))


def _through(spec: Context, given: View) -> View:
    match spec.op:
        case "pipe":
            given = _through(spec.parts[0], given)
            for part in spec.parts[1:]:
                shown = _keys(part) if part.op in SHOWN else None
                given = _through(part, given) if shown is None else replace(given, keys=(*given.keys, *shown))
            return given
        case "sum":
            sources = [part for part in spec.parts if part.is_selection]
            if sources:
                seen = [_in_sum(part, given) for part in sources]
                if all(part.op == "when" for part in sources):  # then none of them may be there
                    seen.append(replace(given, unknown=True))
                given = _either(seen)
            for part in spec.parts:
                if not part.is_selection:
                    given = _through(part, given)
            return given
        case "when":
            inner = _through(spec.parts[0], given)
            return replace(_either([inner, given]), unknown=True)
        case op if op in SHOWN:
            return replace(NOTHING, keys=_keys(spec))
        case _:
            return _one(spec, given)


def _in_sum(part: Context, given: View) -> View:
    """What a part of a sum adds: a condition that does not hold adds nothing."""
    if part.op != "when":
        return _through(part, given)
    return replace(_through(part.parts[0], given), unknown=True)


def _one(spec: Context, given: View) -> View:
    some = replace(given, history="none" if given.history == "none" else "some")
    match spec.op, spec.param:
        case op, _ if op in _SAFE:
            return given if op in NEUTRAL or op == "default" else some
        case "none", _:
            return replace(NOTHING, keys=given.keys)
        case ("user_only" | "user") as op, params:
            return replace(
                some, authors=frozenset(), unknown=given.unknown or params.get("strategy", "all") != "all"
            )
        case "from_agents", {"names": names}:
            return replace(some, authors=_both(given.authors, frozenset(names)))
        case "from_agents_windowed", {"pairs": pairs}:
            names = frozenset(name for name, _ in pairs)
            return replace(some, authors=_both(given.authors, names), unknown=True)
        case "exclude_agents", {"names": names}:
            return replace(some, excluded=given.excluded | frozenset(names))
        case "window", {"n": n}:
            return replace(some, turns=n if given.turns is None else min(n, given.turns))
        case "select", {"author": author} if author is not None:
            names = frozenset(author) - {USER}
            user = given.user and USER in author
            return replace(some, authors=_both(given.authors, names), user=user, unknown=True)
        case (("extract" | "distill"), {"into": into}):
            return replace(some, keys=(*given.keys, into), unknown=True)
        case _:
            return replace(some, unknown=True)


def _keys(spec: Context) -> tuple[str, ...]:
    if spec.op == "template":
        return tuple(sorted(all_keys(spec.param["text"])))
    return cast("tuple[str, ...]", spec.param["keys"])


def _both(one: frozenset[str] | None, other: frozenset[str]) -> frozenset[str]:
    return other if one is None else one & other


def _either(views: list[View]) -> View:
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
    return first


def _never(one: View, other: View) -> frozenset[str]:
    """Agents that `one` excludes, and those `other` excludes which `one` does not name either."""
    return one.excluded | frozenset(name for name in other.excluded if not one.may_see(name))
