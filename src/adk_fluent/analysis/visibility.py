"""The visibility of each step's answers: for the user, for other agents only, or none without an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from adk_fluent.ir import execution
from adk_fluent.ir.annotations import NO_ANNOTATIONS, Visibility
from adk_fluent.ir.base import Node, root_of, walk
from adk_fluent.ir.graph import NameGiver, named_nodes

VISIBILITY: Final = "adk_fluent.visibility"
"""Metadata of an event: its visibility."""

USER_FACING: Final = "adk_fluent.is_user_facing"
"""Metadata of an event: true if the user sees it."""

STANDS_IN: Final = "adk_fluent.stands_in"
"""Metadata of an internal event: it becomes the answer if all later steps are skipped or stay internal."""


@dataclass(frozen=True, slots=True)
class StepVisibility:
    """The visibility of one step's answers.

    Attributes:
        visibility: `user`, `internal` or `zero_cost`.
        blanked: true if a policy removes its text for the caller.
        stands_in: true if its text is the answer when all speaking steps after it are skipped.
        marks: the metadata of its events.
    """

    visibility: Visibility
    blanked: bool = False
    stands_in: bool = False
    marks: Mapping[str, Any] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        marks: dict[str, Any] = {VISIBILITY: self.visibility, USER_FACING: self.visibility == "user"}
        if self.stands_in:
            marks[STANDS_IN] = True
        object.__setattr__(self, "marks", MappingProxyType(marks))


USER_VISIBLE: Final = StepVisibility("user")
"""The visibility of steps whose answers the user sees."""

_step_visibility = cache(StepVisibility)


@dataclass(frozen=True, slots=True)
class Outlet:
    """The visibility of a tree's events by author, computed once per tree.

    Attributes:
        by_author: author → the visibility of its answers.
        others: the visibility of authors that are not in the tree; a native agent may run such agents.
        inside: the visibility of all agents inside a tool.
    """

    by_author: Mapping[str, StepVisibility]
    others: StepVisibility = USER_VISIBLE
    inside: StepVisibility = StepVisibility("internal")

    def visibility_of(self, author: str) -> StepVisibility:
        """The visibility of an author's answers."""
        return self.by_author.get(author, self.others)


def outlet_of(root: Node) -> Outlet:
    """The outlet of a tree with unique names."""
    inference = _Inference(root)
    by_author = inference.run()
    # A plugin may end a run with an answer (author "model") or repeat the user's message (author "user").
    inside = {
        voice: visibility for node in walk(root) for voice, visibility in _native_voices(node, by_author)
    }
    by_author = {"user": USER_VISIBLE, "model": USER_VISIBLE, **inside, **by_author}
    if not inference.places[0].speaks:
        return Outlet(by_author)  # a native agent with unknown steps
    unseen = StepVisibility("internal", any(place.filtered for place in inference.places))
    natives = {by_author[node.name] for node in walk(root) if node.opaque}
    # All native agents of the tree have the same visibility, so their inner agents have it, too.
    others = natives.pop() if len(natives) == 1 else unseen
    return Outlet(by_author, others, unseen)


def _native_voices(
    node: Node, by_author: Mapping[str, StepVisibility]
) -> Iterable[tuple[str, StepVisibility]]:
    """The authors inside a native agent or workflow, with their visibility."""
    if node.opaque:
        return [(voice, by_author[node.name]) for voice in node.voices]
    return [(node.as_given.name, USER_VISIBLE)] if node.as_given else []


def infer_visibility(x: object) -> Mapping[str, Visibility]:
    """The visibility of every step of a tree, by its unique name.

    An agent is `user` if no step that speaks runs after it, otherwise `internal`. In the last loop or map,
    the agent that speaks last is `user`, so the user always gets an answer. Composites and other steps
    without an answer are `zero_cost`. A gate is `user`, because it asks a person. `.show()`, `.hide()` and
    `.transparent()` override the place in the tree.

    Args:
        x: an expression, an IR node, or a native agent or app that adk-fluent built.

    Example:
        >>> from adk_fluent import Agent, Route
        >>> pipeline = Agent("c").writes("intent") >> Route("intent").eq("book", Agent("booker"))
        >>> seen = infer_visibility(pipeline)
        >>> seen["c"], seen["route"], seen["booker"]
        ('internal', 'zero_cost', 'user')
    """
    return visibility_of(root_of(x))


def visibility_of(root: Node, names: Iterable[str] | None = None) -> Mapping[str, Visibility]:
    """`infer_visibility` for a tree.

    Args:
        names: the unique names of its nodes, parents first, if they are known already.
    """
    return {name: found.visibility for name, found in _Inference(root, names).run().items()}


class _Place:
    """One node at one place of the tree, with the facts from around and inside it."""

    __slots__ = (
        *("always_answers", "children", "filtered", "speaker_follows", "answer_follows"),
        *("has_speaker", "name", "node", "parent", "override", "speaks"),
    )

    def __init__(self, node: Node, name: str, parent: _Place | None) -> None:
        self.node: Any = node
        self.name = name
        self.parent = parent
        self.children: list[_Place] = []
        self.speaks = _speaks(node)
        self.has_speaker = False
        """True if a step in it speaks, so that earlier steps are not the last to speak."""
        self.always_answers = False
        """True if a step in it certainly speaks and is not hidden; see `_always_answers`."""
        self.speaker_follows = self.answer_follows = False
        """True if a step that speaks may run after it; and if a step that certainly `always_answers` does."""
        self.filtered = False
        """True if the policy around it is `.filtered()`."""
        self.override: Visibility | None = None
        """The visibility that `.show()`, `.hide()` or `.transparent()` sets here or around it."""


class _Inference:
    def __init__(self, root: Node, names: Iterable[str] | None = None) -> None:
        known = None if names is None else iter(names)
        giver = NameGiver(named_nodes(root)[0] if known is None else ())
        self.places: list[_Place] = []
        stack: list[tuple[Node, _Place | None]] = [(root, None)]
        while stack:
            node, parent = stack.pop()
            place = _Place(node, giver.name(node) if known is None else next(known), parent)
            self.places.append(place)
            if parent is not None:
                parent.children.append(place)
            stack.extend((child, place) for child in reversed(node.children))

    def run(self) -> dict[str, StepVisibility]:
        for place in self.places:
            self._inherit(place)
        for place in reversed(self.places):
            place.has_speaker = place.speaks and place.override != "zero_cost"
            if place.children:
                place.has_speaker = place.has_speaker or any(child.has_speaker for child in place.children)
                place.speaks = place.speaks or any(child.speaks for child in place.children)
                place.always_answers = _always_answers(place)
            elif place.speaks:
                place.always_answers = place.override in (None, "user")
        for place in self.places:
            self._order(place)
        final = {place.node.runs.target for place in self.places if _hands_over_last(place)}
        return {place.name: self._conclude(place, final) for place in self.places}

    def _inherit(self, place: _Place) -> None:
        """Set the options of a place: its own, or those of the nearest place around it."""
        annotations, parent = place.node.annotations, place.parent
        if annotations is NO_ANNOTATIONS:
            if parent is not None:
                place.override, place.filtered = parent.override, parent.filtered
            return
        outer = parent.override if parent else None
        place.override = outer if place.node.says is not None else _override(place.node) or outer
        if annotations.policy is not None:
            place.filtered = annotations.policy == "filtered"
        elif parent is not None:
            place.filtered = parent.filtered

    def _order(self, place: _Place) -> None:
        """Set for each child whether a later step speaks."""
        in_order = isinstance(place.node.runs, execution.STEP_BY_STEP)
        follows, surely = place.speaker_follows, place.answer_follows
        for child in reversed(place.children):
            child.speaker_follows, child.answer_follows = follows, surely
            follows = follows or (in_order and child.has_speaker)
            surely = surely or (in_order and child.always_answers)

    def _conclude(self, place: _Place, final: set[str]) -> StepVisibility:
        seen = self._visibility(place, final)
        if seen == "user":
            return USER_VISIBLE
        by_place = seen == "internal" and place.override is None
        return _step_visibility(seen, place.filtered, by_place and not place.answer_follows)

    def _visibility(self, place: _Place, final: set[str]) -> Visibility:
        if not _speaks(place.node):
            return "user" if place.node.asks else "zero_cost"
        if place.override is not None:
            return place.override
        if not place.speaker_follows or (final and _is_last_in(place, final)):
            return "user"
        return "internal"


def _always_answers(place: _Place) -> bool:
    """True if it always gives an answer to the user, or to agents that do, unless it fails."""
    inside = [child.always_answers for child in place.children]
    if place.node.speaks:
        return place.override in (None, "user") or any(inside)
    if isinstance(place.node.runs, execution.UNTIL_SUCCESS):
        return bool(inside) and all(inside)
    return any(inside) and not place.node.may_be_skipped


def _speaks(node: Node) -> bool:
    """True if a node itself gives an answer: that of a model, or the value of a key."""
    return node.speaks or node.says is not None


def _override(node: Node) -> Visibility | None:
    annotations = node.annotations
    if annotations.visibility is not None:
        return annotations.visibility
    return "user" if annotations.policy == "transparent" else None


def _hands_over_last(place: _Place) -> bool:
    """True if a transfer's target is the last to speak: no step speaks after the sequence that it leaves."""
    if not isinstance(place.node.runs, execution.HandOver):
        return False
    left = place
    for outer in _outwards(place):
        left = outer
        if isinstance(outer.node.runs, execution.InOrder):
            break
    return not left.speaker_follows


def _outwards(place: _Place) -> list[_Place]:
    found = [place]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


def _is_last_in(place: _Place, final: set[str]) -> bool:
    """True if `place` is in a transfer's target, and no step in that target speaks after it."""
    for outer in _outwards(place):
        if outer.name in final:
            return True
        parent = outer.parent
        if parent is not None and isinstance(parent.node.runs, execution.STEP_BY_STEP):
            later = parent.children[parent.children.index(outer) + 1 :]
            if any(child.speaks for child in later):
                return False
    return False
