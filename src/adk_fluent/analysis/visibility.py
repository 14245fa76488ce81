"""Who sees what a step says: the user, only the other agents, or nobody because it says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from adk_fluent.ir import execution
from adk_fluent.ir.annotations import NO_ANNOTATIONS, Visibility
from adk_fluent.ir.base import Node, root_of, walk
from adk_fluent.ir.node_names import NameGiver, named_nodes

VISIBILITY: Final = "adk_fluent.visibility"
"""Metadata of an event: who sees it."""

USER_FACING: Final = "adk_fluent.is_user_facing"
"""Metadata of an event: whether the user sees it."""

STANDS_IN: Final = "adk_fluent.stands_in"
"""Metadata of an internal event: it is the answer if what follows is skipped and nobody visible speaks."""


@dataclass(frozen=True, slots=True)
class StepVisibility:
    """Who sees what one step says.

    Attributes:
        visibility: who.
        blanked: whether a policy blanks its words for the caller.
        stands_in: whether it has the last word when everything that may speak after it is skipped.
        marks: the metadata that says so.
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


SEEN: Final = StepVisibility("user")
"""What the user sees."""

_sight_of = cache(StepVisibility)


@dataclass(frozen=True, slots=True)
class Outlet:
    """What a tree's events are where they leave a run: a look-up by author, made once.

    Attributes:
        sights: author → who sees what it says.
        others: the same for authors that are not in the tree, which a native agent may run without having
            them below itself.
        inside: the same for what runs inside a tool, whoever it is.
    """

    sights: Mapping[str, StepVisibility]
    others: StepVisibility = SEEN
    inside: StepVisibility = StepVisibility("internal")

    def sight(self, author: str) -> StepVisibility:
        """Who sees what `author` says."""
        return self.sights.get(author, self.others)


def outlet_of(root: Node) -> Outlet:
    """The outlet of a tree with unique names."""
    inference = _Inference(root)
    sights = inference.run()
    # ADK says "model" where a plugin ends a run with an answer, and may give back what the user said.
    inside = {voice: sight for node in walk(root) for voice, sight in _native_voices(node, sights)}
    sights = {"user": SEEN, "model": SEEN, **inside, **sights}
    if not inference.places[0].speaks:
        return Outlet(sights)  # a native agent of which nothing is known
    unseen = StepVisibility("internal", any(place.filtered for place in inference.places))
    natives = {sights[node.name] for node in walk(root) if node.opaque}
    # Whichever native agent runs the author, this is who sees it.
    others = natives.pop() if len(natives) == 1 else unseen
    return Outlet(sights, others, unseen)


def _native_voices(node: Node, sights: Mapping[str, StepVisibility]) -> Iterable[tuple[str, StepVisibility]]:
    """Who else speaks where a native agent or workflow runs as it was given."""
    if node.opaque:
        return [(voice, sights[node.name]) for voice in node.voices]
    return [(node.as_given.name, SEEN)] if node.as_given else []


def infer_visibility(x: object) -> Mapping[str, Visibility]:
    """For every step of a tree, by its unique name, who sees what it says.

    An agent is `user` if nothing that speaks runs after it, else `internal`. Of the last loop or map, the
    agent that speaks last is `user`, so that somebody always speaks. Steps that say nothing, and composites,
    which say nothing themselves, are `zero_cost`; a gate is `user`, since it asks a person. `.show()`,
    `.hide()` and `.transparent()` win over the place in the tree.

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
    """`infer_visibility` of a tree.

    Args:
        names: the unique names of its nodes, parents first, if they have been found already.
    """
    return {name: sight.visibility for name, sight in _Inference(root, names).run().items()}


class _Place:
    """Where one node stands: what is around it and inside it."""

    __slots__ = (
        *("answers", "children", "filtered", "follows", "follows_surely"),
        *("heard", "name", "node", "parent", "said", "speaks"),
    )

    def __init__(self, node: Node, name: str, parent: _Place | None) -> None:
        self.node: Any = node
        self.name = name
        self.parent = parent
        self.children: list[_Place] = []
        self.speaks = _speaks(node)
        self.heard = False
        """Whether something in it speaks that takes the last word from what is before it."""
        self.answers = False
        """Whether something in it is sure to speak, and not hidden; see `_answers`."""
        self.follows = self.follows_surely = False
        """Whether something that speaks may run after it, and whether something that `answers` does."""
        self.filtered = False
        """Whether the policy around it is `.filtered()`."""
        self.said: Visibility | None = None
        """What `.show()`, `.hide()` or `.transparent()` of this node or one around it says."""


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
            place.heard = place.speaks and place.said != "zero_cost"
            if place.children:
                place.heard = place.heard or any(child.heard for child in place.children)
                place.speaks = place.speaks or any(child.speaks for child in place.children)
                place.answers = _answers(place)
            elif place.speaks:
                place.answers = place.said in (None, "user")
        for place in self.places:
            self._order(place)
        final = {place.node.runs.target for place in self.places if _hands_over_last(place)}
        return {place.name: self._sight(place, final) for place in self.places}

    def _inherit(self, place: _Place) -> None:
        """What is said about the place itself, or else about what is around it."""
        annotations, parent = place.node.annotations, place.parent
        if annotations is NO_ANNOTATIONS:
            if parent is not None:
                place.said, place.filtered = parent.said, parent.filtered
            return
        outer = parent.said if parent else None
        place.said = outer if place.node.says is not None else _override(place.node) or outer
        if annotations.policy is not None:
            place.filtered = annotations.policy == "filtered"
        elif parent is not None:
            place.filtered = parent.filtered

    def _order(self, place: _Place) -> None:
        """What follows those inside the place."""
        in_order = isinstance(place.node.runs, execution.STEP_BY_STEP)
        follows, surely = place.follows, place.follows_surely
        for child in reversed(place.children):
            child.follows, child.follows_surely = follows, surely
            follows = follows or (in_order and child.heard)
            surely = surely or (in_order and child.answers)

    def _sight(self, place: _Place, final: set[str]) -> StepVisibility:
        seen = self._seen(place, final)
        if seen == "user":
            return SEEN
        by_place = seen == "internal" and place.said is None
        return _sight_of(seen, place.filtered, by_place and not place.follows_surely)

    def _seen(self, place: _Place, final: set[str]) -> Visibility:
        if not _speaks(place.node):
            return "user" if place.node.asks else "zero_cost"
        if place.said is not None:
            return place.said
        if not place.follows or (final and _is_last_in(place, final)):
            return "user"
        return "internal"


def _answers(place: _Place) -> bool:
    """Whether it says something to the user, or to agents that do, whenever it runs and does not fail."""
    inside = [child.answers for child in place.children]
    if place.node.speaks:
        return place.said in (None, "user") or any(inside)
    if isinstance(place.node.runs, execution.UNTIL_SUCCESS):
        return bool(inside) and all(inside)
    return any(inside) and not place.node.may_be_skipped


def _speaks(node: Node) -> bool:
    """Whether a node says something itself: what a model answers, or the value of a key."""
    return node.speaks or node.says is not None


def _override(node: Node) -> Visibility | None:
    annotations = node.annotations
    if annotations.visibility is not None:
        return annotations.visibility
    return "user" if annotations.policy == "transparent" else None


def _hands_over_last(place: _Place) -> bool:
    """Whether a transfer's target is the last to speak: nothing speaks after the sequence it leaves."""
    if not isinstance(place.node.runs, execution.HandOver):
        return False
    left = place
    for outer in _outwards(place):
        left = outer
        if isinstance(outer.node.runs, execution.InOrder):
            break
    return not left.follows


def _outwards(place: _Place) -> list[_Place]:
    found = [place]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


def _is_last_in(place: _Place, final: set[str]) -> bool:
    """Whether `place` is in a transfer's target, and nothing in that speaks after it."""
    for outer in _outwards(place):
        if outer.name in final:
            return True
        parent = outer.parent
        if parent is not None and isinstance(parent.node.runs, execution.STEP_BY_STEP):
            later = parent.children[parent.children.index(outer) + 1 :]
            if any(child.speaks for child in later):
                return False
    return False
