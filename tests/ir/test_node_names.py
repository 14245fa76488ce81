from __future__ import annotations

import pytest

from adk_fluent import A, Agent, FanOut, Pipeline, S, tap, transfer
from adk_fluent.errors import DuplicateNameError, InvalidNameError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import Node, SequenceNode, resolve_names, walk
from adk_fluent.ir.node_names import check_name
from tests.samples import look, typed

a, b = Agent("a"), Agent("b")


def names(root: Node) -> list[str]:
    """The names of all nodes after resolution, in order."""
    return [node.name for node in walk(resolve_names(root).root)]


@pytest.mark.parametrize("name", ["a", "_", "A1", "class", "größe", "User", "user_1"])
def test_good_names_are_given_back(name: str) -> None:
    """Whatever ADK takes as a name is taken."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (5, "The name of this agent must be text, not int: 5."),
        (None, "The name of this agent must be text, not NoneType: None."),
        (b"a", "The name of this agent must be text, not bytes: b'a'."),
        ("user", "'user' cannot name this agent: ADK keeps it for the person. Try 'user_agent'."),
        *(
            (
                bad,
                f"{bad!r} cannot name this agent: ADK wants letters, digits and underscores, not "
                f"starting with a digit. Try {good!r}.",
            )
            for bad, good in [
                ("my agent", "my_agent"),
                ("My-Agent", "my_agent"),
                ("1st", "agent_1st"),
                ("", "agent"),
                ("   ", "agent"),
                ("---", "agent"),
                ("a.b/c", "a_b_c"),
                ("x²", "agent"),
                ("user ", "agent_user"),
                ("USER!", "agent_user"),
            ]
        ),
    ],
)
def test_bad_names_are_refused_with_a_suggestion(name: object, message: str) -> None:
    """The message says what is wrong with a name and suggests one that would be taken."""
    with pytest.raises(InvalidNameError) as caught:
        check_name(name)
    assert str(caught.value) == message
    if "Try" in message:
        check_name(message.rpartition("Try ")[2].rstrip(".").strip("'"))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (a >> b, ["sequence", "a", "b"]),
        (a >> b >> a, ["sequence", "a", "b", "a_2"]),
        (a >> a >> a, ["sequence", "a", "a_2", "a_3"]),
        (a >> a >> Agent("a_2"), ["sequence", "a", "a_3", "a_2"]),
        ((a | b) >> (a | b), ["sequence", "parallel", "a", "b", "parallel_2", "a_2", "b_2"]),
        (Pipeline("sequence", a), ["sequence", "a"]),
        (Pipeline(a, Agent("sequence")), ["sequence_2", "a", "sequence"]),
        (Pipeline("p", a) >> Pipeline("p", a), ["sequence", "p", "a", "p_2", "a_2"]),
        (S.set(x=1) >> S.set(x=1) >> S.drop("x"), ["sequence", "set", "set_2", "drop"]),
        (a >> tap(look) >> typed(lambda state: None), ["sequence", "a", "look", "transform"]),
        (a >> transfer("a"), ["sequence", "a", "to_a"]),
        (a.timeout(1) // b, ["fallback", "timeout", "a", "b"]),
    ],
)
def test_derived_names(expression: Expr[object], expected: list[str]) -> None:
    """First uses keep their names, later ones and unnamed nodes get the next free one."""
    assert names(expression.node) == expected


def test_a_step_is_never_called_by_a_reserved_name() -> None:
    """A function called `user` gives a step that ADK accepts."""

    def user(state: object) -> None: ...

    assert names((a >> user).node) == ["sequence", "a", "user_2"]


def test_a_label_that_is_no_identifier_still_gives_a_name() -> None:
    """Every derived name is one that ADK takes, whatever the node calls itself."""
    found = names(SequenceNode(children=(A.publish("cv.txt").node,)))
    assert len(found) == 2
    assert [check_name(name) for name in found] == found


def test_different_nodes_of_one_name_are_refused() -> None:
    """Two agents that differ cannot share a name; the message says which and what to do."""
    with pytest.raises(DuplicateNameError) as caught:
        resolve_names((a >> a.describe("other")).node)
    assert str(caught.value) == ("Two different agents are called 'a'. Rename one with .named('a_b').")
    with pytest.raises(DuplicateNameError) as caught:
        resolve_names((a >> Pipeline("a", b)).node)
    assert str(caught.value) == (
        "Two different nodes (agent and sequence) are called 'a'. Rename one with .named('a_b')."
    )


def test_a_duplicate_is_found_at_any_depth() -> None:
    """A clash is found in branches, sub-agents and bodies too."""
    deep = Agent("top").delegate(FanOut("f", a.timeout(3), b))
    with pytest.raises(DuplicateNameError, match="called 'b'"):
        resolve_names((deep >> b.describe("x")).node)


def test_origins_lead_back_to_the_name_that_was_given() -> None:
    """Each node that the user named can be traced to that name; derived steps have no origin."""
    assert dict(resolve_names((a >> b >> a >> S.set(x=1)).node).origins) == {"a": "a", "b": "b", "a_2": "a"}


def test_resolving_names_changes_nothing_else() -> None:
    """The original tree stays, and nodes that had a unique name are the same objects."""
    root = (a >> b).named("p").node
    assert resolve_names(root).root is root
    unnamed = (a >> b).node
    assert resolve_names(unnamed).root.children == unnamed.children
    assert unnamed.name == ""
