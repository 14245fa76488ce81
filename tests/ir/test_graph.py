from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from adk_fluent import A, Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race, tap, transfer
from adk_fluent.errors import ArgumentError, CycleError, DuplicateNameError, InvalidNameError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import (
    AgentNode,
    Edge,
    Node,
    RemoteAgentNode,
    SequenceNode,
    edges,
    ir_hash,
    predecessors,
    resolve_names,
    to_dict,
    topological_order,
    walk,
)
from adk_fluent.ir.graph import check_name
from tests.samples import is_done, is_urgent, look, typed

a, b, c, d = (Agent(name) for name in "abcd")
route = Route("k").eq(1, a).eq(2, b)


def drawn(expression: Expr[object]) -> set[str]:
    """Every edge as `source>target`, with its kind unless it is `next`."""
    return {
        f"{edge.source}>{edge.target}" + ("" if edge.kind == "next" else f" {edge.kind}")
        for edge in edges(resolve_names(expression.node).root)
    }


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (a, set[str]()),
        (a >> b >> c, {"a>b", "b>c"}),
        (Pipeline(a, Pipeline("inner", b, c), d), {"a>b", "b>c", "c>d"}),
        (a >> (b | c) >> d, {"a>b", "a>c", "b>d", "c>d"}),
        ((a | b) >> (c | d), {"a>c", "a>d", "b>c", "b>d"}),
        (race(a, b) >> c, {"a>c", "b>c"}),
        (a // b // c, {"a>b else", "b>c else"}),
        ((a // b) >> c, {"a>b else", "a>c", "b>c"}),
        (a * 3, {"a>a back"}),
        ((a >> b) * 3 >> c, {"a>b", "b>a back", "b>c"}),
        ((a | b) * 2, {"a>a back", "a>b back", "b>a back", "b>b back"}),
        (a.timeout(1) >> b, {"a>b"}),
        (c >> route >> d, {"c>route", "route>a branch", "route>b branch", "a>d", "b>d", "route>d"}),
        (
            route.otherwise(c) >> d,
            {"route>a branch", "route>b branch", "route>c branch", "a>d", "b>d", "c>d"},
        ),
        (a.proceed_if(is_done) >> b, {"route>a branch", "a>b", "route>b"}),
        (map_over("items", a >> b) >> c, {"map>a", "a>b", "b>c"}),
        (a.delegate(b, c) >> d, {"a>b delegate", "a>c delegate", "a>d", "b>d", "c>d"}),
        (a >> S.set(x=1) >> gate(is_urgent) >> b, {"a>set", "set>gate", "gate>b"}),
        (Pipeline("p") >> a, {"p>a"}),
        # transfers
        (Pipeline(a, transfer("c"), b) >> c, {"a>to_c", "to_c>c transfer", "b>c"}),
        (
            Pipeline("p", a, transfer("c", condition=is_done), b) >> c,
            {"a>to_c", "to_c>c transfer", "to_c>b", "b>c", "c>c"},
        ),
        (
            Pipeline(Pipeline("p", a, transfer("d"), b), c, FanOut("f", d)),
            {"a>to_d", "to_d>d transfer", "d>c", "b>c", "c>d"},
        ),
        (
            Pipeline("p", a, Route("k").eq(1, transfer("p")).otherwise(b)),
            {"a>route", "route>to_p branch", "route>b branch", "to_p>a transfer"},
        ),
        (
            Pipeline(Loop("l", a, transfer("c"), b), c),
            {"a>to_c", "to_c>c transfer", "b>a back", "c>a back", "b>c", "c>c"},
        ),
        (
            Pipeline(Loop("l", a, Route("k").eq(1, transfer("d")).otherwise(b), c), d),
            {
                *("a>route", "route>to_d branch", "route>b branch", "to_d>d transfer", "b>c"),
                *("c>a back", "d>a back", "c>d", "d>d"),
            },
        ),
        (a >> transfer("nowhere", condition=is_done) >> b, {"a>to_nowhere", "to_nowhere>b"}),
    ],
)
def test_edges(expression: Expr[object], expected: set[str]) -> None:
    """Control goes in order, into branches, back in loops, on after failures, and where a transfer says."""
    assert drawn(expression) == expected


def test_a_remote_agent_leads_to_its_fallback() -> None:
    """A remote agent's fallback runs after its failure, and either may lead on."""
    remote = RemoteAgentNode(name="far", endpoint="http://127.0.0.1:1", fallback=AgentNode(name="near"))
    tree = SequenceNode(name="s", children=(remote, AgentNode(name="last")))
    assert edges(tree) == (
        Edge("far", "near", "else"),
        Edge("far", "last"),
        Edge("near", "last"),
    )


def test_edges_are_in_running_order_and_come_once() -> None:
    """The same tree gives the same edges in the same order, without repetition."""
    tree = resolve_names(((a >> (b | c) >> d) * 2).node).root
    found = edges(tree)
    assert found == edges(tree)
    assert len(set(found)) == len(found)
    assert [edge.source for edge in found] == ["a", "a", "b", "c", "d"]


def test_predecessors() -> None:
    """The predecessors of a node are steps that may run directly before it, never composites around them."""
    root = (a >> (b | c) >> d).to_ir()
    assert [(node.name or node.kind, predecessors(root, node)) for node in walk(root)] == [
        ("sequence", ()),
        ("a", ()),
        ("parallel", ()),
        ("b", (a.node,)),
        ("c", (a.node,)),
        ("d", (b.node, c.node)),
    ]


def test_the_target_of_a_transfer_follows_it() -> None:
    """A transfer step is among the nodes that may run directly before its target."""
    handing = transfer("b")
    root = (a >> handing >> (c | b)).to_ir()
    assert predecessors(root, b.node) == (handing.node,)
    assert predecessors(root, c.node) == ()


def test_predecessors_where_names_are_not_resolved() -> None:
    """Steps without a name, and a step that is used twice, have their predecessors all the same."""
    first, last = S.set(x=1), S.set(y=2)
    root = (first >> a >> b >> last >> a >> c).to_ir()
    assert predecessors(root, first.node) == ()
    assert predecessors(root, last.node) == (b.node,)
    assert predecessors(root, a.node) == (first.node, last.node)
    assert predecessors(root, c.node) == (a.node,)
    assert predecessors(resolve_names(root).root, a.node) == (resolve_names(root).root.children[0],)


def test_predecessors_of_a_round() -> None:
    """In a loop the last step may run directly before the first, and a lone step before itself."""
    assert predecessors(((a >> b) * 2).to_ir(), a.node) == (b.node,)
    assert predecessors((a * 2).to_ir(), a.node) == (a.node,)


def test_predecessors_of_a_stranger() -> None:
    """A node of another tree is refused by name."""
    with pytest.raises(ArgumentError) as caught:
        predecessors((a >> b).to_ir(), c.node)
    assert str(caught.value) == "predecessors(): 'c' is not in this tree."


def test_topological_order_is_the_running_order() -> None:
    """Parents come before children, earlier steps before later ones."""
    root = (a >> (b | c) >> d).node
    assert [node.name or node.kind for node in topological_order(root)] == [
        "sequence",
        "a",
        "parallel",
        "b",
        "c",
        "d",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        Pipeline("main", a, transfer("main")),
        Pipeline("main", a, Pipeline("inner", b, transfer("main"))),
        Pipeline("main", (a | transfer("main")), b),
        Loop("main", a, transfer("main")),
        Pipeline("main", a, transfer("main").timeout(3)),
        Pipeline("main", transfer("main") // a),
        Route("k").eq(1, Pipeline("p", a, transfer("q"))).eq(2, Pipeline("q", b, transfer("p"))),
        Pipeline("p", a, transfer("q")) | Pipeline("q", transfer("r")) | Pipeline("r", transfer("p")),
    ],
)
def test_a_transfer_that_can_only_come_back_is_found(expression: Expr[object]) -> None:
    """Unconditional transfers into an ancestor, directly or by way of others, are endless."""
    with pytest.raises(CycleError) as caught:
        expression.build()
    assert re.fullmatch(
        r"transfer\('\w+'\) always leads back to itself, so the run would never end. "
        r"Give it a condition, or use a loop.",
        str(caught.value),
    )


@pytest.mark.parametrize(
    "expression",
    [
        a >> transfer("b") >> (c | b),
        Pipeline("main", a, transfer("main", condition=is_done)),
        Pipeline("main", a, Route("ok").eq("no", transfer("main"))),
        Pipeline("main", a, transfer("end", condition=is_done), transfer("main")) | Agent("end"),
        Pipeline("main", a, gate(is_urgent), transfer("main")),
        Pipeline("main", a // transfer("main")),
        Pipeline("main", a, map_over("items", transfer("main"))),
        Pipeline("main", a.delegate(Pipeline("help", b, transfer("main")))),
        Pipeline("p", transfer("q")) | Pipeline("q", transfer("r")) | Pipeline("r", a),
        Pipeline("main", transfer("end", condition=is_done).timeout(3), transfer("main")) | Agent("end"),
    ],
)
def test_a_transfer_that_something_may_stop_is_fine(expression: Expr[object]) -> None:
    """A condition, a route, a gate, a failure or the model may end the circle, so it is allowed."""
    assert expression.build().name


@pytest.mark.parametrize("of", [to_dict, ir_hash, topological_order])
def test_expressions_are_taken_as_their_trees(of: Callable[[object], object]) -> None:
    """Functions on trees accept an expression; for any other value the error names the accepted types."""
    pipeline = Agent("a") >> Agent("b")
    assert of(pipeline) == of(pipeline.to_ir())
    with pytest.raises(ArgumentError, match=r"takes an expression, an IR node.* not str"):
        of("pipeline")


# --- names ----------------------------------------------------------------------------------------


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
