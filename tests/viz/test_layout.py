"""The layout of a picture: no overlaps, no cut parts, and lines that arrive at their targets."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, FanOut, RemoteAgent, Route, loop_until, transfer
from adk_fluent.analysis.facts import Facts
from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import ModelSelectorNode, Node, SequenceNode, TransferNode, resolve_names, walk
from adk_fluent.ir.graph import predecessors
from adk_fluent.viz.edge_routing import data_edges
from adk_fluent.viz.layout import MOST_ACROSS, to_drawing
from adk_fluent.viz.shapes import SMALL, TITLE, Box, Drawing, Frame, text_width, wrapped
from adk_fluent.viz.styles import style_of
from tests.properties.strategies import EXPRESSIONS
from tests.sampling import examples
from tests.viz.pipelines import BY_SIZE, good_enough

pytestmark = pytest.mark.newest  # the same on every release

a, b, c = Agent("a").writes("x"), Agent("b").writes("x"), Agent("c").instruct("Use {x}.")


def apart(one: Box | Frame, other: Box | Frame) -> bool:
    """True if two rectangles share no inner point."""
    return (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )


def inside(one: Box | Frame, other: Box | Frame | Drawing) -> bool:
    """True if a rectangle lies within another."""
    left, top = (other.left, other.top) if isinstance(other, Drawing) else (other.x, other.y)
    return (
        left <= one.x
        and top <= one.y
        and one.x + one.width <= left + other.width + 0.01
        and one.y + one.height <= top + other.height + 0.01
    )


def arrivals(drawing: Drawing) -> set[str]:
    """The boxes that an arrow of control reaches from above."""
    ends = [
        tuple(float(part) for part in line.path.split("L")[-1].split(","))
        for line in drawing.lines
        if line.arrow and line.kind == "control"
    ]
    return {
        box.name
        for box in drawing.boxes
        for x, y in ends
        if abs(y - box.y) < 0.2 and box.x < x < box.x + box.width
    }


def test_a_node_that_is_no_step_is_refused() -> None:
    """A node that only another holds is not drawn by itself."""
    with pytest.raises(UnsupportedNodeError, match="is no step"):
        to_drawing(ModelSelectorNode(name="chooser"))


@given(EXPRESSIONS)
@settings(max_examples=examples(150))
def test_nothing_overlaps_and_nothing_is_cut(expression: Expr[Any]) -> None:
    """In any picture boxes are apart, frames nest, all lies within the image, and text within its box."""
    drawing = to_drawing(expression.node)
    for one, other in combinations(drawing.boxes, 2):
        assert apart(one, other), f"{one.name} meets {other.name}"
    for one, other in combinations(drawing.frames, 2):
        assert apart(one, other) or inside(one, other) or inside(other, one)
    for box in drawing.boxes:
        assert inside(box, drawing)
        assert all(apart(box, frame) or inside(box, frame) for frame in drawing.frames)
        assert all(text_width(line, TITLE, bold=True) < box.width for line in box.title)
        assert all(text_width(line, SMALL) < box.width for line in box.captions)
    assert cut_off(drawing) == []


def cut_off(drawing: Drawing) -> list[str]:
    """The lines and words of a drawing that its edges cut off, were it only by the width of a line."""
    points = [
        (line.path, float(x), float(y))
        for line in drawing.lines
        for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", line.path)
    ]
    for label in drawing.labels:
        half = text_width(label.text, SMALL) / 2
        points += [(label.text, label.x - half, label.y - SMALL), (label.text, label.x + half, label.y)]
    right, bottom = drawing.left + drawing.width - 2, drawing.top + drawing.height - 2
    return [
        what for what, x, y in points if not (drawing.left + 2 < x < right and drawing.top + 2 < y < bottom)
    ]


LAST: dict[str, Expr[Any]] = {
    "delegates": a >> c.delegate(*[Agent(f"helper{n}") for n in range(3)]),
    "many": a >> c.delegate(*[Agent(f"helper_number_{n}") for n in range(9)]),
    "alone": c.delegate(a, b, Agent("d")),
    "within": loop_until(good_enough, c.delegate(a, b)),
    "labels": Route("k").eq("a long label of a branch which is wrapped", a).eq("WWWWWWWWWWWWWWWWWWWWWW", b),
    "remote": RemoteAgent("far", endpoint="http://127.0.0.1:1", fallback=a),
    "branches": FanOut(*[Agent(f"branch_number_{n}") for n in range(40)]),
}


@pytest.mark.parametrize("name", LAST)
def test_lines_and_words_at_the_edge_are_not_cut(name: str) -> None:
    """Lines and labels outside the boxes, such as those around the last agents, lie within the image."""
    assert cut_off(to_drawing(LAST[name].node)) == []


@given(EXPRESSIONS)
@settings(max_examples=examples(150))
def test_every_step_is_there_and_is_reached(expression: Expr[Any]) -> None:
    """Each step has one box; where something runs before it, control arrives; each data edge has its line."""
    tree = resolve_names(expression.node).root
    drawing = to_drawing(expression.node)
    names = [box.name for box in drawing.boxes]
    nodes = {node.name: node for node in walk(tree)}
    assert len(names) == len(set(names))
    assert set(names) >= {name for name, node in nodes.items() if not isinstance(node, SequenceNode)}
    lines = {(line.source, line.target, line.keys) for line in drawing.lines if line.kind == "data"}
    assert lines == {(edge.source, edge.target, edge.keys) for edge in data_edges(Facts(expression.node))}
    assume(not any(isinstance(node, TransferNode) for node in nodes.values()))
    before = {name: [found.name for found in predecessors(tree, node)] for name, node in nodes.items()}
    reached = {name for name in names if before[name] and is_box(nodes[name])}
    loops = {name for name in reached if all(source == name for source in before[name])}
    assert reached - loops <= arrivals(drawing) | _first(tree)


def is_box(node: Node) -> bool:
    """True if a node is drawn as a box."""
    return style_of(node).shape != "header"


def _first(node: Node) -> set[str]:
    """The step that control enters first, which only a loop can lead back to."""
    while node.children and not is_box(node):
        node = node.children[0]
    return {node.name}


@pytest.mark.parametrize("size", BY_SIZE)
def test_data_lines_run_clear_of_boxes(size: str) -> None:
    """A data line's long upright piece passes through no box."""
    drawing = to_drawing(BY_SIZE[size].node)
    for line in drawing.lines:
        if line.kind != "data" or "L" not in line.path:
            continue
        before, after = line.path.split("L")
        x, top = (float(part) for part in before.split(" ")[-1].split(","))
        bottom = float(after.split("C")[0].split(",")[1])
        top, bottom = sorted((top, bottom))
        for box in drawing.boxes:
            meets = box.x < x < box.x + box.width and box.y < bottom and box.y + box.height > top
            assert not meets or box.name in (line.source, line.target), (line, box.name)


def test_wide_forks_become_rows() -> None:
    """Forty branches stand in rows that fit a page, each below the one before."""
    drawing = to_drawing(FanOut(*[Agent(f"branch_number_{n}") for n in range(40)]).node)
    tops = {box.y for box in drawing.boxes if box.shape == "round"}
    assert len(tops) > 3
    assert drawing.width < MOST_ACROSS + 150
    assert {box.name for box in drawing.boxes if box.shape == "round"} <= arrivals(drawing)


def test_a_transfer_has_a_line_to_its_target_and_nothing_below() -> None:
    """An unconditional transfer leads to its target alone; what it skips gets no line from it."""
    drawing = to_drawing((Agent("first") >> transfer("target") >> Agent("skipped") >> Agent("target")).node)
    assert [(line.source, line.target) for line in drawing.lines if line.kind == "transfer"] == [
        ("to_target", "target")
    ]
    assert arrivals(drawing) == {"to_target", "target"}


def leaves(drawing: Drawing) -> set[str]:
    """The frames at whose bottom a line of control leads out."""
    lines = [line for line in drawing.lines if line.kind == "control" and not line.arrow]
    ends = [tuple(float(part) for part in line.path.split("L")[-1].split(",")) for line in lines]
    return {
        frame.name
        for frame in drawing.frames
        for x, y in ends
        if abs(y - frame.y - frame.height) < 0.2 and frame.x < x < frame.x + frame.width
    }


AWAY, PERHAPS = transfer("t"), transfer("t", condition=good_enough)
LEFT: dict[str, tuple[Expr[Any], bool]] = {
    "always": (AWAY, True),
    "perhaps": (PERHAPS, False),
    "in time": (AWAY.timeout(3), True),
    "perhaps in time": (PERHAPS.timeout(3), False),
    "on both branches": (Route("k").eq(1, AWAY).otherwise(AWAY), True),
    "on one branch": (Route("k").eq(1, AWAY).otherwise(b), False),
    "on the only branch": (Route("k").eq(1, AWAY), False),
    "in all parallel branches": (FanOut(AWAY, AWAY), True),
    "in one parallel branch": (FanOut(AWAY, b), False),
    "whatever fails": (AWAY // AWAY, True),
    "instead of a failure": (a // AWAY, False),
    "of an inner sequence": ((a >> AWAY).named("inner"), False),
    "of a loop": (loop_until(good_enough, AWAY), False),
}
"""What stands before a step `next`, and whether it always hands over to another one."""


@pytest.mark.parametrize("kind", LEFT)
def test_what_is_skipped_for_certain_gets_no_arrow(kind: str) -> None:
    """A step gets an arrow unless what stands before it hands over whatever happens; frames likewise."""
    expression, away = LEFT[kind]
    drawing = to_drawing((Agent("first") >> expression >> Agent("next") >> Agent("t")).node)
    assert ("next" in arrivals(drawing)) == (not away)
    inside_alone = kind in ("of an inner sequence", "of a loop")  # what it leaves is inside the frame
    stays = away or inside_alone
    assert leaves(drawing) == (set[str]() if stays else {frame.name for frame in drawing.frames})


def test_what_follows_a_sequence_with_a_transfer_is_reached() -> None:
    """A transfer leaves its own sequence only: a step after the frame of that sequence has its arrow."""
    left = (Agent("x") >> transfer("t") >> Agent("t")).named("inner")
    assert "y" in arrivals(to_drawing((left >> Agent("y")).node))


def test_a_route_without_otherwise_has_a_way_around() -> None:
    """Words on the lines say which branch is taken, and that there is a way past all of them."""
    route = Route("x").eq("yes", a).eq("no", b)
    assert [label.text for label in to_drawing(route.node).labels] == ["yes", "no", "else"]
    assert [label.text for label in to_drawing(route.otherwise(c).node).labels] == ["yes", "no", "otherwise"]


def test_captions_name_keys_and_visibility() -> None:
    """Below its name a step has its keys; the one the user hears says so."""
    boxes = {box.name: box for box in to_drawing((a >> c).node).boxes}
    assert boxes["a"].captions == ("writes x",)
    assert boxes["c"].captions == ("reads x", "to the user")
    assert (boxes["a"].visibility, boxes["c"].visibility) == ("internal", "user")


def test_a_line_back_up_runs_at_the_side() -> None:
    """In a loop, state from a late step to an early one has its line too."""
    loop = loop_until(good_enough, Agent("early").instruct("{note?}") >> Agent("late").writes("note"))
    drawing = to_drawing(loop.node)
    (line,) = [line for line in drawing.lines if line.kind == "data"]
    boxes = {box.name: box for box in drawing.boxes}
    late = boxes["late"]
    assert line.path.startswith(f"M{late.x + late.width:.1f},{late.y + late.height / 2:.1f}")


@pytest.mark.parametrize("depth", [60])
def test_deep_nesting_and_long_names(depth: int) -> None:
    """Sixty frames in each other, and names and messages of any length, stay whole."""
    tree = Agent("a_name_that_goes_on_and_on_" * 4)
    nested: Expr[Any] = tree
    for number in range(depth):
        nested = nested.timeout(number + 1)
    drawing = to_drawing(nested.node)
    assert len(drawing.frames) == depth
    assert all(inside(box, drawing) for box in drawing.boxes)
    assert "".join(drawing.boxes[-1].title) == tree.name


@given(st.text(max_size=80))
def test_text_is_wrapped_and_its_end_marked(text: str) -> None:
    """No line is longer than asked for, and what does not fit ends in an ellipsis."""
    lines = wrapped(text, 12, 3)
    assert 1 <= len(lines) <= 3
    assert all(len(line) <= 12 for line in lines)
    if len(" ".join(text.split())) > 36:
        assert lines[-1].endswith("…")
