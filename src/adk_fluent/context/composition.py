"""Composition of specs: `a + b` is a union, and `a | b` is a pipe.

A sum first joins what its sources select, then applies its filters to the whole. Each property of a sum or
pipe, such as `sees`, follows from its parts in the same way as `applied`, so that the analysis before a run
agrees with the run. A part under a condition (`C.when`) may be absent; the properties hold with and without
it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from adk_fluent.context.entries import Entries, Scene, Selection
from adk_fluent.context.spec import Context
from adk_fluent.context.view import ContextView, any_of
from adk_fluent.ir.frozen import frozen

if TYPE_CHECKING:
    from adk_fluent.context.entries import Selecting


@frozen
class _Joined(Context):
    """Base of the specs that join others with an operator."""

    sign: ClassVar[str] = ""
    wraps: ClassVar[bool] = True

    @property
    def may_vanish(self) -> bool:
        return all(part.may_vanish for part in self.parts)

    def __repr__(self) -> str:
        inner = self.sign.join(self._inside(part) for part in self.parts)
        return f"({inner}).as_contents()" if self.contents else inner

    def _inside(self, part: Context) -> str:
        return repr(part)


@frozen
class Sum(_Joined):
    """The union of what its sources select, filtered by its filters (`a + b`)."""

    op: ClassVar[str] = "sum"
    sign: ClassVar[str] = " + "

    @property
    def ways(self) -> frozenset[bool]:
        found = frozenset[bool]().union(*(part.ways for part in self.parts))
        only_filters = all(False in part.ways or part.may_vanish for part in self.parts)
        return found if only_filters else found - {False}

    @property
    def is_untouched(self) -> bool:
        sources = [part for part in self.parts if part.is_selection]
        certain = any(part.always_selects and part.is_untouched for part in sources)
        whole = certain or all(part.is_untouched for part in sources)
        others = (part for part in self.parts if False in part.ways)
        return whole and all(part.is_untouched for part in others)

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        sources = [part for part in self.parts if part.is_selection]
        if sources:
            chosen = replace(given, entries=(), untouched=False)
            for part in sources:
                found = yield from part.applied(replace(given, pinned=chosen.pinned), scene)
                chosen = replace(
                    found,
                    entries=_union(chosen.entries, found.entries),
                    untouched=chosen.untouched or found.untouched,
                    writes=chosen.writes + found.writes,
                    files=tuple(dict.fromkeys((*chosen.files, *found.files))),
                )
            given = chosen
        for part in self.parts:
            if not part.is_selection:
                given = yield from part.applied(given, scene)
        return given

    def view_after(self, given: ContextView) -> ContextView:
        sources = [part for part in self.parts if part.is_selection]
        if sources:
            views = [part.view_in_sum(given) for part in sources]
            if not any(part.always_selects for part in sources):  # then all of them may be absent
                views.append(given.perhaps())
            given = any_of(views)
            if any(False in part.ways for part in sources):  # without its source, a part filters the whole
                given = given.perhaps()
        for part in self.parts:
            if not part.is_selection:
                given = given.through(part.view_after(given))
        return given

    def _inside(self, part: Context) -> str:
        return f"({part!r})" if isinstance(part, Pipe) and not part.contents else repr(part)


def _union(first: Entries, second: Entries) -> Entries:
    """The entries of both, each once; of two versions of an entry the first stays."""
    have = {entry.identity for entry in first}
    return first + tuple(entry for entry in second if entry.identity not in have)


@frozen
class Pipe(_Joined):
    """The selection of its first part, passed through the other parts in order (`a | b`)."""

    op: ClassVar[str] = "pipe"
    sign: ClassVar[str] = " | "

    @property
    def ways(self) -> frozenset[bool]:
        found = frozenset[bool]()
        for part in self.parts:
            found |= part.ways
            if not part.may_vanish:
                break
        return found

    @property
    def is_untouched(self) -> bool:
        first = True  # True if this part may be the first, because all parts before it may be absent
        for part in self.parts:
            if not part.is_untouched and (first or not part.only_adds):
                return False
            first = first and part.may_vanish
        return True

    @property
    def drops_calls(self) -> bool:
        calls_are_text = False
        for part in self.parts:
            if part.drops_calls and not calls_are_text:
                return True
            calls_are_text = calls_are_text or part.writes_calls_as_text
        return False

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        first, *others = self.parts
        given = yield from first.applied(given, scene)
        for part in others:
            given = yield from part.piped(given, scene)
        return given

    def view_after(self, given: ContextView) -> ContextView:
        first, *others = self.parts
        given = first.view_after(given)
        for part in others:
            given = given.through(part.view_when_piped(given))
        return given


def added(left: Context, right: Context) -> Context:
    """Return `left + right`; equal parts count once."""
    parts: list[Context] = []
    for part in (*_parts(Sum, left), *_parts(Sum, right)):
        if part not in parts:
            parts.append(part)
    return _joined(Sum, left, right, tuple(parts))


def piped(left: Context, right: Context) -> Context:
    """Return `left | right`."""
    return _joined(Pipe, left, right, (*_parts(Pipe, left), *_parts(Pipe, right)))


def _parts(cls: type[_Joined], side: Context) -> tuple[Context, ...]:
    return side.parts if isinstance(side, cls) else (side,)


def _joined(cls: type[_Joined], left: Context, right: Context, parts: tuple[Context, ...]) -> Context:
    if len(parts) == 1:
        return parts[0]
    return cls(parts=parts, contents=left.contents or right.contents)
