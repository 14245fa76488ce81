"""Anatomies compute each part on first access, at a constant cost per step."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError

import pytest

from adk_fluent import Agent, Pipeline
from adk_fluent.inspection import data_flow, llm_anatomy
from adk_fluent.inspection.anatomy import PARTS
from adk_fluent.ir import Node
from adk_fluent.viz import to_mermaid, to_outline


def line(count: int) -> Node:
    """Agents in order, each reading what the one before wrote."""
    steps = (Agent(f"a{i}").instruct(f"Go on from {{k{i}?}}.").writes(f"k{i + 1}") for i in range(count))
    return Pipeline(*steps).node


def calls(work: Callable[[Node], object], root: Node) -> int:
    """The number of function calls of some work, including functions in C."""
    work(root)  # what is kept from the first time on
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work(root)
    finally:
        sys.setprofile(None)
    return count


def without_history(root: Node) -> object:
    """Read the parts of each agent's anatomy that do not depend on the conversation."""
    return [(one.system, one.context, one.tools, one.after, one.keys) for one in llm_anatomy(root).values()]


@pytest.mark.parametrize("look", [llm_anatomy, without_history, data_flow, to_mermaid, to_outline])
def test_twice_the_steps_take_twice_the_work(look: Callable[[Node], object]) -> None:
    """The quadratic part, who sees whom, is computed only if it is read."""
    few, many = calls(look, line(100)), calls(look, line(200))
    assert many < 2.2 * few


A = Agent("a").instruct("Go.").writes("x").returns(int)
TREE = (A >> Agent("b").instruct("{x}") >> Agent("c")).node


def test_an_anatomy_is_a_value() -> None:
    """Anatomies of equal pipelines are equal, whichever parts were read before."""
    one, other = llm_anatomy(TREE), llm_anatomy(TREE)
    assert one["b"].sees == {"user", "a"}
    assert (one, hash(one["b"])) == (other, hash(other["b"]))
    assert one["b"] != one["c"]
    assert one["b"] != "b"
    assert repr(one["b"]).startswith("LlmAnatomy(agent='b', system='\"{x}\"', history='FULL: user, a',")


def test_an_anatomy_does_not_change() -> None:
    """No part can be set or deleted, and unknown attributes raise."""
    found = llm_anatomy(TREE)["b"]
    with pytest.raises(FrozenInstanceError, match="'tools'"):
        found.tools = "all"
    with pytest.raises(FrozenInstanceError, match="'tools'"):
        del found.tools
    with pytest.raises(AttributeError, match="'LlmAnatomy' object has no attribute 'tool'"):
        _ = found.tool  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]  # the point


def test_an_anatomy_can_be_stored() -> None:
    """A pickle holds all parts, and not the pipeline, whose functions cannot be pickled."""
    tree = (A >> Agent("b").instruct("{x}").before_model(lambda callback_context, llm_request: None)).node
    found = llm_anatomy(tree)["b"]
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert [getattr(again, part) for part in PARTS] == [getattr(found, part) for part in PARTS]
    assert str(again) == str(found)
