"""Pictures as text: Mermaid and the outline for a terminal, and the data flow that pictures show."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from google.adk.agents import LlmAgent

from adk_fluent import A, Agent, FanOut, Loop, Route, S, gate, loop_until, map_over, race, tap, transfer
from adk_fluent.analysis.facts import Facts
from adk_fluent.errors import ArgumentError, UnsupportedNodeError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import (
    NODE_TYPES,
    AgentNode,
    KnownNativeNode,
    ModelSelectorNode,
    NativeNode,
    Node,
    RemoteAgentNode,
    SequenceNode,
)
from adk_fluent.ir.adk_objects import Native
from adk_fluent.state import declares
from adk_fluent.viz import to_mermaid, to_outline
from adk_fluent.viz.edge_routing import data_edges
from adk_fluent.viz.styles import STYLES
from tests.limits import LIMIT


@declares(reads=["score"])
def good_enough(state: object) -> bool:
    """A predicate with a name."""
    return True


def data(node: Node) -> set[tuple[str, str, tuple[str, ...]]]:
    """The data edges of a tree."""
    return {(edge.source, edge.target, edge.keys) for edge in data_edges(Facts(node))}


a, b, c = Agent("a").writes("x"), Agent("b").writes("x"), Agent("c").instruct("Use {x}.")

SAMPLES: dict[type[Node], tuple[Node, str]] = {
    type(expression.node): (expression.node, words)
    for expression, words in [
        (Agent("solo"), 'solo("solo<br/>to the user")'),
        (a >> c, "a --> c"),
        (a | b, '["at the same time"]'),
        (Loop(a, max_iterations=3).until(good_enough), '["repeat up to 3× until good_enough(score)"]'),
        (S.set(mood="good"), "set"),
        (Route("x").eq("yes", a).otherwise(b), '-->|"otherwise"| b'),
        (a // b, 'a -->|"on failure"| b'),
        (race(a, b), '["first to succeed"]'),
        (gate(good_enough, message="Sure?"), '{{"Sure?, if good_enough(score)"}}'),
        (tap(good_enough), '(["good_enough"])'),
        (map_over("items", a, concurrency=2), '["for each item of items, 2 at a time"]'),
        (a.timeout(2.5), '["within 2.5 s"]'),
        (transfer("c", condition=good_enough), '>"hand over to c if good_enough(score)"]'),
        (S.capture("note"), "keep the last message"),
        (A.publish("a.md", from_key="x"), '[("publish a.md from x")]'),
    ]
}
SAMPLES[RemoteAgentNode] = (
    RemoteAgentNode(name="far", endpoint="http://127.0.0.1:1"),
    'far[["far<br/>to the user"]]',
)
GIVEN = Native(LlmAgent(name="given"))
SAMPLES[NativeNode] = (NativeNode(name="given", native=GIVEN), 'given("given<br/>to the user")')
SAMPLES[KnownNativeNode] = (
    KnownNativeNode(native=GIVEN, body=AgentNode(name="given")),
    '["LlmAgent, as it was given"]',
)


@pytest.mark.parametrize("kind", NODE_TYPES)
def test_every_node_type_is_drawn_or_refused_by_name(kind: type[Node]) -> None:
    """Each node type has its words in both pictures, or an error that names it."""
    if kind in STYLES and STYLES[kind] is None:
        with pytest.raises(UnsupportedNodeError, match=kind.__name__):
            to_mermaid(ModelSelectorNode(name="chooser"))
        return
    node, words = SAMPLES[kind]
    assert words in to_mermaid(node)
    assert to_outline(node)


def test_each_row_of_looks_holds_together() -> None:
    """Each row says how its type is drawn everywhere."""
    drawn = {kind: look for kind, look in STYLES.items() if look is not None}
    assert len({look.kind for look in drawn.values()}) == len(drawn)
    for kind, look in drawn.items():
        boxed, framed = look.brackets is not None, look.frame != "never"
        assert boxed or framed, kind
        assert bool(look.head) == (boxed and framed), kind
        assert (look.shape == "header") == framed, kind
        assert bool(look.sign) == (kind is not SequenceNode), kind


def test_equal_expressions_give_equal_pictures_in_any_process() -> None:
    """The text depends on the expression alone, not on the hash seed."""
    code = (
        "from adk_fluent import Agent\n"
        "fan = Agent('b').instruct('{x} {y?}') | Agent('c').instruct('{x}')\n"
        "p = Agent('a').writes('x') >> fan.named('both')\n"
        "print(p.visualize())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            timeout=LIMIT,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert runs[0].startswith("flowchart TD\n")
    assert runs[0] == runs[1] == runs[2]


def test_a_named_composite_keeps_its_name() -> None:
    """A name the user gave stands in the frame; a root sequence has no frame."""
    text = to_mermaid(((a | b).named("both") >> (c >> Agent("d")).named("tail")).named("whole").node)
    assert 'subgraph both_frame["both: at the same time"]' in text
    assert 'subgraph tail_frame["tail"]' in text
    assert "whole" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('say "hi"', "say #34;hi#34;"),
        ("a#b;c", "a#35;b;c"),
        ("<b>&%%{x}", "#60;b#62;#38;#37;#37;#123;x#125;"),
        ("two\nlines", "two lines"),
        ("`code` [x]", "#96;code#96; #91;x#93;"),
    ],
)
def test_labels_cannot_break_the_diagram(text: str, shown: str) -> None:
    """Whatever a message holds, it stands quoted and escaped in one line."""
    assert f'{{{{"{shown}, if good_enough(score)"}}}}' in to_mermaid(gate(good_enough, message=text).node)


@pytest.mark.newest
@pytest.mark.parametrize("name", ["end", "graph", "subgraph", "style", "klick", "größe", "o_x"])
def test_names_that_mean_something_to_mermaid(name: str) -> None:
    """An agent may be called after a word of Mermaid, or in any script; a Mermaid renderer shows its name."""
    assert f">{name}<" in drawn((Agent(name).writes("k") >> Agent("reader").instruct("{k}")).visualize())


def drawn(mermaid: str) -> str:
    """Mermaid text as an independent renderer draws it."""
    from merman import Merman  # pyright: ignore[reportMissingTypeStubs]  # it has none

    return Merman().render_svg(mermaid, None)


@pytest.mark.newest
@pytest.mark.parametrize("kind", [kind for kind in NODE_TYPES if kind not in STYLES or STYLES[kind]])
def test_every_node_type_is_mermaid(kind: type[Node]) -> None:
    """An independent renderer accepts the Mermaid text of each node type."""
    assert drawn(to_mermaid(SAMPLES[kind][0])).startswith("<svg")


def test_the_border_shows_the_visibility_of_a_step() -> None:
    """User-facing steps have a thick border and say so, silent ones a dashed border, others a thin one."""
    text = to_mermaid((Agent("first") >> S.set(x=1) >> Agent("last")).node)
    assert 'last("last<br/>to the user")' in text
    assert 'first("first")' in text
    for style, look, member in [
        ("user", "stroke-width:4px", "last"),
        ("internal", "stroke-width:1px", "first"),
        ("zero_cost", "stroke-width:2px,stroke-dasharray:6 4", "set"),
    ]:
        assert f"  classDef {style} {look}\n  class {member} {style}\n" in text


def test_show_and_hide_change_the_border() -> None:
    """`.show()` and `.hide()` change the border of an agent in the picture."""
    text = to_mermaid((Agent("first").show() >> Agent("last").hide()).node)
    assert "class first user" in text
    assert "class last internal" in text


def test_made_up_ids_are_unique() -> None:
    """A made-up id never meets a name of the user's."""
    text = to_mermaid((Agent("end") >> Agent("node1") >> Agent("node1_")).node)
    assert 'node1__("end")' in text
    assert "node1__ --> node1" in text


# --- data flow ------------------------------------------------------------------------------------


def test_state_goes_from_writer_to_reader() -> None:
    """A dashed line joins the writer of a key to its reader, labelled with the key."""
    text = to_mermaid((a >> Agent("between") >> c).node)
    assert '  a -. "x" .-> c\n' in text


def test_several_keys_share_a_line() -> None:
    """Two keys between the same steps are one line."""
    both = S.set(one=1, two=2) >> Agent("reader").instruct("{one} {two}")
    assert '-. "one, two" .-> reader' in to_mermaid(both.node)


def test_an_overwritten_value_has_no_line() -> None:
    """Only the last writer before a reader counts."""
    assert data((a >> b >> c).node) == {("b", "c", ("x",))}


def test_every_branch_of_a_route_may_have_written() -> None:
    """A key that branches write comes from each of them; without `otherwise` the older value may remain."""
    route = Route("k").eq(1, a).eq(2, b)
    assert data((route.otherwise(Agent("d").writes("x")) >> c).node) == {
        (name, "c", ("x",)) for name in ("a", "b", "d")
    }
    older = Agent("older").writes("x")
    assert data((older >> route >> c).node) == {(name, "c", ("x",)) for name in ("older", "a", "b")}


def test_siblings_may_read_each_other() -> None:
    """A write of a parallel branch has a line to its siblings that may read it, and to later readers."""
    fan = FanOut(a, Agent("sibling").instruct("{x?}"))
    assert data((fan >> c).node) == {("a", "sibling", ("x",)), ("a", "c", ("x",))}


FILES: dict[str, tuple[Expr[Any], list[str]]] = {
    "in order": (A.save("f", "x") >> Agent("a").instruct("{artifact.f}") >> A.load("f"), ["a", "load"]),
    "into a context": (S.set(k=1) >> A.publish("f", "k") >> Agent("a").context(A.for_llm("f")), ["a"]),
    "from the second round on": (Loop(A.load("f"), A.save("f", "x"), max_iterations=2), ["load"]),
    "of branches at the same time": (FanOut(A.load("f"), A.save("f", "x")), ["load"]),
    "of other branches": (Route().when(good_enough, A.save("f", "x")).otherwise(A.load("f")), []),
    "deleted": (A.save("f", "x") >> A.delete("f") >> A.load("f"), []),
    "too late": (A.load("f") >> A.save("f", "x"), []),
}


@pytest.mark.parametrize("case", FILES)
def test_artifact_lines_lead_from_savers_to_readers(case: str) -> None:
    """A dashed line tells the file, from each step of which a version may be there."""
    expression, readers = FILES[case]
    edges = [edge for edge in data_edges(Facts(expression.node)) if edge.files == ("f",)]
    assert [edge.target for edge in edges] == readers
    assert all(edge.source in ("save", "publish") for edge in edges)
    assert ('-. "f" .->' in expression.visualize()) == bool(readers)


def test_a_loop_reads_its_own_writes_from_the_second_round_on() -> None:
    """In a loop, an early step reads what a late one wrote the round before."""
    early, late = (
        Agent("early").instruct("{note?}").writes("text"),
        Agent("late").instruct("{text}").writes("note"),
    )
    assert data(loop_until(good_enough, early >> late).node) == {
        ("early", "late", ("text",)),
        ("late", "early", ("note",)),
    }


def test_a_failed_branch_of_a_fallback_may_have_written() -> None:
    """The second branch of a fallback may read what the first wrote before it failed."""
    assert data((a // c).node) == {("a", "c", ("x",))}


def test_a_gate_reads_for_its_question_and_writes_what_it_keeps() -> None:
    """A gate reads the keys of its message; the key that it writes may keep its older value."""
    ask = gate(good_enough, message="Use {x}?", into="ok").named("ask")
    reader = Agent("reader").instruct("{ok}")
    assert data((a >> S.set(ok=1) >> ask >> reader).node) == {
        ("a", "ask", ("x",)),
        ("set", "reader", ("ok",)),
        ("ask", "reader", ("ok",)),
    }


def test_a_map_writes_its_answers() -> None:
    """The list of answers comes from the map, its items from the writer of the list."""
    tree = (
        S.set(items=[1])
        >> map_over("items", Agent("each"), output_key="all")
        >> Agent("end").instruct("{all}")
    )
    assert data(tree.node) == {("set", "map", ("items",)), ("map", "end", ("all",))}


def test_deeply_nested_loops_take_no_time() -> None:
    """Forty loops in each other are traced once, not once per round of each."""
    tree = a >> c
    for depth in range(40):
        tree = Loop(tree, max_iterations=2, name=f"loop{depth}")
    assert data(tree.node) == {("a", "c", ("x",))}


def test_lines_that_would_cross_meet_in_a_knot() -> None:
    """From several steps to several others, control and state each go through one point."""
    text = to_mermaid(((a | b) >> (c | Agent("d").instruct("{x}"))).node)
    for line in ("a --> knot1", "b --> knot1", "knot1 --> c", "knot1 --> d", 'knot2(["x"])', "knot2 -.-> d"):
        assert f"  {line}\n" in text
    assert "a --> c" not in text


def test_a_transfer_leads_to_its_target() -> None:
    """A transfer has an arrow to its target, and none to what it skips."""
    text = to_mermaid((Agent("first") >> transfer("target") >> Agent("skipped") >> Agent("target")).node)
    assert "to_target ==> target" in text
    assert "to_target --> skipped" not in text


def arrows(text: str, source: str) -> list[str]:
    """The control arrows that leave a step, in order."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line.startswith(f"{source} ") and ">" in line and ".->" not in line]


def test_a_conditional_transfer_has_an_arrow_each_way() -> None:
    """One arrow leads to its target, and one to what runs where the condition does not hold."""
    tree = Agent("first") >> transfer("last", condition=good_enough) >> Agent("between") >> Agent("last")
    assert arrows(to_mermaid(tree.node), "to_last") == ["to_last --> between", "to_last ==> last"]


def test_a_transfer_to_several_has_an_arrow_to_each() -> None:
    """A transfer to branches, or to a sequence, leads to where these begin."""
    both = FanOut("both", a, b)
    tree = Agent("first") >> transfer("both", condition=good_enough) >> Agent("between") >> both
    found = arrows(to_mermaid(tree.node), "to_both")
    assert found == ["to_both --> between", "to_both ==> a", "to_both ==> b"]
    inner = Agent("first") >> transfer("inner") >> (a >> b).named("inner")
    assert arrows(to_mermaid(inner.node), "to_inner") == ["to_inner ==> a"]


# --- the outline ------------------------------------------------------------------------------


def test_the_outline_of_a_whole_pipeline() -> None:
    """Branches hang below their step; a branch of several steps stays under its own."""
    tree = (
        a
        >> Route("x").eq("no", b >> Agent("b2")).otherwise(c // Agent("plain"))
        >> Loop(Agent("w") >> Agent("v").writes("y"), max_iterations=2)
    )
    assert to_outline(tree.node).splitlines() == [
        "● a → x",
        "│",
        "◆ x",
        "├─ no         ● b → x",
        "│             │",
        "│             ● b2",
        "└─ otherwise  ? until one succeeds",
        "              ├─ ● c",
        "              └─ ● plain",
        "│",
        "↻ repeat up to 2×",
        "├─ ● w",
        "└─ ● v → y",
    ]


def test_a_cost_that_is_no_estimate() -> None:
    """A cost that is not from `estimate_cost` is refused in one line."""
    with pytest.raises(ArgumentError, match=r"visualize\(cost=\) takes a CostEstimate .*, not 3"):
        a.visualize(cost=3)  # pyright: ignore[reportArgumentType]  # the wrong value is the point


def test_an_unknown_format() -> None:
    """`visualize` refuses a format it does not have."""
    with pytest.raises(ArgumentError, match="choose 'mermaid', 'svg', 'png' or 'html'"):
        a.visualize(format="gif")  # pyright: ignore[reportCallIssue,reportArgumentType]  # the wrong value is the point


def test_an_edge_in_pieces_says_so() -> None:
    """The label of an edge says how an answer passes on; in an image, the box of its agent says so."""
    pipeline = Agent("a").stream_to("chunked", chunk_size=20) >> Agent("b").stream_to("token") >> tap(print)
    drawn = pipeline.visualize()
    assert 'a -->|"in pieces of 20 tokens"| b' in drawn
    assert 'b -->|"token by token"| print' in drawn
    image = pipeline.visualize("svg")
    assert "answers in pieces of 20 tokens" in image
    assert "answers token by token" in image
    assert "goes on" not in (Agent("a").stream_to("full") >> Agent("b")).visualize("svg")
