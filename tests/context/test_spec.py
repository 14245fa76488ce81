from __future__ import annotations

import dataclasses
import pickle
import re
from typing import Any

import pytest

from adk_fluent import Agent, C, FanOut
from adk_fluent.context.spec import Context
from adk_fluent.errors import ArgumentError, CompileError, InvalidNameError
from adk_fluent.ir import Access, AgentNode, from_dict, ir_hash, to_dict
from tests import samples
from tests.context.talk import is_short


def _context(agent: Agent[Any]) -> object:
    return agent.node.annotations.context


ONE_OF_EACH = [
    C.default(),
    C.none(),
    C.user_only(),
    C.from_state("a", "user:b"),
    C.from_agents("a", "b"),
    C.exclude_agents("a"),
    C.window(3),
    C.last_n_turns(2),
    C.template("It is {a} {b?}"),
    C.select(author="a", type="text", tag="x"),
    C.recent(half_life=3, min_weight=0.5),
    C.compact(),
    C.dedup("normalized"),
    C.truncate(max_turns=2, max_tokens=9, strategy="middle"),
    C.project("text", "files"),
    C.budget(100, overflow="error"),
    C.priority(2),
    C.fit(100),
    C.fresh(60),
    C.redact(r"\d+", replacement="#"),
    C.summarize(model="m", prompt="p", scope="earlier"),
    C.relevant(query="q", top_k=2, model="m"),
    C.extract(samples.Invoice, into="x"),
    C.distill(into="x"),
    C.rolling(2, summarize=True),
    C.from_agents_windowed(a=1, b=2),
    C.user("bookend"),
    C.manus_cascade(100),
    C.notes("n"),
    C.write_notes("n", "replace"),
    C.validate(is_short),
    C.when("vip", C.window(1)),
]
ids = [spec.op for spec in ONE_OF_EACH]


@pytest.mark.parametrize("spec", ONE_OF_EACH, ids=ids)
def test_a_spec_is_a_frozen_value(spec: Context) -> None:
    """A spec cannot change, equals and hashes like its copy, and can be pickled."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.contents = True  # pyright: ignore[reportAttributeAccessIssue]  # it must not be possible
    copy = spec.replace(contents=spec.contents)
    assert copy == spec
    assert hash(copy) == hash(spec)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec != C.default() + C.from_state("zz")


@pytest.mark.parametrize("spec", ONE_OF_EACH, ids=ids)
def test_a_spec_is_stored_with_its_agent(spec: Context) -> None:
    """A graph with this spec goes to JSON and back, and its hash is stable."""
    node = Agent("a").context(spec + C.from_state("k")).to_ir()
    assert from_dict(to_dict(node)) == node
    assert ir_hash(node) == ir_hash(Agent("a").context(spec + C.from_state("k")).to_ir())
    assert ir_hash(node) != ir_hash(Agent("a").to_ir())


@pytest.mark.parametrize("spec", ONE_OF_EACH, ids=ids)
def test_a_spec_shows_how_it_was_written(spec: Context) -> None:
    """The `repr` of a spec is the expression that makes it, as far as its parameters can be written."""
    shown = repr(spec)
    assert shown.startswith(f"C.{spec.op}(")
    known: dict[str, Any] = {"C": C, "Invoice": samples.Invoice, "is_short": is_short}
    if spec.op != "when":  # its condition is shown by name
        assert eval(shown, known) == spec


def test_compositions_show_how_they_were_written() -> None:
    """Operators and `as_contents` are shown, with brackets where they are needed."""
    assert repr(C.none() + C.user_only()) == "C.none() + C.user_only()"
    piped = C.window(2) | C.dedup()
    assert repr(piped) == "C.window(n=2) | C.dedup(strategy='exact')"
    assert repr(C.none() + piped) == "C.none() + (C.window(n=2) | C.dedup(strategy='exact'))"
    assert repr(piped.as_contents()) == "(C.window(n=2) | C.dedup(strategy='exact')).as_contents()"
    assert repr(C.window(2).as_contents()) == "C.window(n=2).as_contents()"


def test_plus_is_associative_and_idempotent() -> None:
    """However a sum is bracketed it is the same value, and a part counts once."""
    a, b, c = C.window(1), C.from_state("k"), C.redact("x")
    assert (a + b) + c == a + (b + c)
    assert a + a == a
    assert (a + b) + (b + a) == a + b


def test_pipe_is_associative() -> None:
    """However a pipe is bracketed it is the same value."""
    a, b, c = C.window(1), C.dedup(), C.budget(9)
    assert (a | b) | c == a | (b | c)


def test_as_contents_is_kept_by_the_operators() -> None:
    """If one side arrives as messages, the composition does."""
    assert (C.window(1).as_contents() + C.from_state("k")).contents
    assert (C.from_state("k") + C.window(1).as_contents()).contents
    assert (C.window(1).as_contents() | C.dedup()).contents
    assert not (C.window(1) | C.dedup()).contents


@pytest.mark.parametrize(
    ("spec", "access"),
    [
        (C.window(1), Access()),
        (C.from_state("a", "user:b"), Access(frozenset({"a", "user:b"}))),
        (C.template("{a} {b?} {artifact.c}"), Access(frozenset({"a", "b"}))),
        (C.notes("n"), Access(frozenset({"n"}))),
        (C.write_notes("n"), Access(frozenset({"n"}), frozenset({"n"}))),
        (C.write_notes("n", "replace"), Access(writes=frozenset({"n"}))),
        (C.extract(samples.Invoice, into="x"), Access(writes=frozenset({"x"}))),
        (C.distill(into="x"), Access(writes=frozenset({"x"}))),
        (C.relevant(query_key="q"), Access(frozenset({"q"}))),
        (C.when("vip", C.from_state("a")), Access(frozenset({"vip", "a"}))),
        (C.when(samples.is_done, C.none()), Access(frozenset({"done"}))),
        (C.window(1) + C.from_state("a") | C.distill(into="x"), Access(frozenset("a"), frozenset("x"))),
    ],
    ids=lambda value: repr(value) if isinstance(value, Context) else "",
)
def test_a_spec_declares_the_keys_it_touches(spec: Context, access: Access) -> None:
    """A spec knows which state keys it reads and writes, and its agent reports them."""
    assert spec.access == access
    assert Agent("a").context(spec).node.access == access


def test_context_and_reads_add_up() -> None:
    """`.context()` and `.reads()` are one sum, in the order of the calls."""
    agent = Agent("a").context(C.window(3)).reads("x").reads("y", "x")
    assert _context(agent) == C.window(3) + C.from_state("x") + C.from_state("y", "x")
    assert _context(Agent("a").reads("x")) == C.from_state("x")
    assert _context(Agent("a").reads("x", keep_history=True)) == C.default() + C.from_state("x")


def test_context_gives_a_new_agent() -> None:
    """The agent that a context is added to stays as it was."""
    plain = Agent("a")
    assert _context(plain.context(C.none())) == C.none()
    assert _context(plain) is None


def test_captures_are_steps() -> None:
    """`C.capture` and `C.capture_turns` are steps, and stand before an agent."""
    pipeline = C.capture("said") >> C.capture_turns("history", n=2) >> Agent("a")
    kinds = [child.kind for child in pipeline.to_ir().children]
    assert kinds == ["capture", "capture", "agent"]
    assert pipeline.to_ir().children[1].writes_keys == {"history"}


# Wrong on purpose, so without types.
anyC: Any = C
anyAgent: Any = Agent
anyFanOut: Any = FanOut


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: anyAgent("a").context(anyAgent("b")),
            r"context\(\) takes a C spec, not the expression Agent",
        ),
        (lambda: anyAgent("a").context(anyC.capture("k")), r"C.capture\('key'\) >> agent"),
        (lambda: anyAgent("a").context("topic"), r"write \.reads\('topic'\)"),
        (lambda: anyAgent("a").context(None), "takes a C spec, not NoneType"),
        (lambda: anyAgent("a").instruct(anyC.none()), r"A C spec goes into \.context\(\)"),
        (lambda: anyC.none() >> anyAgent("a"), r"A C spec belongs to an agent: Agent\(\.\.\.\)\.context"),
        (lambda: anyAgent("a") >> anyC.none(), "A C spec belongs to an agent"),
        (lambda: anyAgent("a") | anyC.none(), "A C spec belongs to an agent"),
        (lambda: anyFanOut(anyC.none()), "A C spec belongs to an agent"),
        (lambda: anyC.none() + anyAgent("a"), r"\+ joins two C specs, not a C spec and Agent"),
        (lambda: anyC.none() | "x", r"\| joins two C specs, not a C spec and str 'x'"),
        (lambda: anyAgent("a").reads(), r"reads\(\) needs at least one state key"),
        (lambda: anyAgent("a").reads(1), r"reads\(\) takes a state key as text, not int 1"),
        (lambda: anyC.from_state(), "needs at least one key"),
        (lambda: anyC.from_state(""), "takes a state key as text"),
        (lambda: anyC.from_agents(), "needs at least one agent's name"),
        (lambda: anyC.from_agents(anyAgent("b")), "takes the names of agents, not the expression Agent"),
        (lambda: anyC.exclude_agents(3), "takes the names of agents, not int 3"),
        (lambda: anyC.window(0), r"C.window\(n=\) takes a positive whole number, not 0"),
        (lambda: anyC.window(True), "takes a positive whole number, not True"),
        (lambda: anyC.template(3), "takes text, not int 3"),
        (lambda: anyC.select(type="tool_cal"), "Did you mean 'tool_call'"),
        (lambda: anyC.recent(half_life=0), "takes a positive number, not 0"),
        (lambda: anyC.recent(min_weight=2), "above 0 and at most 1"),
        (lambda: anyC.dedup("exat"), "Did you mean 'exact'"),
        (lambda: anyC.truncate(), "needs max_turns= or max_tokens="),
        (lambda: anyC.truncate(max_turns=1, strategy="tial"), "Did you mean 'tail'"),
        (lambda: anyC.project(), "needs at least one of text"),
        (lambda: anyC.project("texts"), "Did you mean 'text'"),
        (lambda: anyC.budget(0), "takes a positive whole number"),
        (lambda: anyC.budget(9, overflow="raise"), "is one of 'truncate_oldest', 'error', 'summarize'"),
        (lambda: anyC.priority("high"), "takes a whole number, not str 'high'"),
        (lambda: anyC.fresh(-1), "takes a positive number"),
        (lambda: anyC.redact(), "needs at least one regular expression"),
        (lambda: anyC.redact("("), "is no regular expression"),
        (lambda: anyC.summarize(scope="some"), "is one of 'all', 'earlier', 'tools'"),
        (lambda: anyC.relevant(query="q", query_key="k"), "takes query= or query_key=, not both"),
        (lambda: anyC.extract(dict, into="x"), "takes a pydantic model class"),
        (lambda: anyC.user("newest"), "is one of 'all', 'first', 'last', 'bookend'"),
        (lambda: anyC.from_agents_windowed(), "needs at least one agent's name"),
        (lambda: anyC.from_agents_windowed(a=0), r"from_agents_windowed\(a=\) takes a positive whole number"),
        (lambda: anyC.validate(), "needs at least one function"),
        (lambda: anyC.validate("x"), "takes a function"),
        (lambda: anyC.when("k", anyAgent("a")), r"C.when\(\) takes a C spec, not the expression"),
        (lambda: anyC.when(3, anyC.none()), "takes a function of the state"),
        (lambda: anyC.write_notes("n", "prepend"), "is one of 'append', 'replace'"),
        (lambda: anyC.capture(""), "takes a state key as text"),
        (lambda: anyC.capture_turns("k", n=0), "takes a positive whole number"),
    ],
)
def test_wrong_use_is_refused_with_one_line(wrong: Any, message: str) -> None:
    """A mistake in a spec is one clear line, raised where it is written."""
    with pytest.raises(ArgumentError, match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value)


def test_a_name_that_no_agent_can_have_is_refused() -> None:
    """A spec cannot name what ADK would not take as an agent's name."""
    with pytest.raises(InvalidNameError, match="research_team"):
        C.from_agents("research team")


def test_a_context_and_include_contents_cannot_contradict() -> None:
    """Asking ADK for the whole conversation and a spec for less of it is refused when it is compiled."""
    agent = Agent("a", "m").include_contents("default").context(C.none())
    with pytest.raises(CompileError, match=r"'a': \.include_contents\('default'\).*C\.none\(\)"):
        agent.build()


def test_a_pattern_may_be_compiled() -> None:
    """`C.redact` takes compiled patterns, with their flags."""
    assert C.redact(re.compile("x", re.IGNORECASE)) != C.redact("x")


def test_the_node_keeps_nothing_else_of_it() -> None:
    """The sum stands in the annotations; no other field of the node says what is read."""
    node = Agent("a").reads("x").node
    assert node == AgentNode(name="a", annotations=node.annotations)
