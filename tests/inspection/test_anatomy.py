"""`.llm_anatomy()` and `.data_flow()`: their values and texts for each kind of expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from adk_fluent import (
    Agent,
    C,
    FanOut,
    Loop,
    P,
    Pipeline,
    RemoteAgent,
    Route,
    S,
    StateSchema,
    gate,
    map_over,
    race,
    transfer,
)
from adk_fluent.content import Modality
from adk_fluent.errors import MissingKeyError
from adk_fluent.expr.base import Expr
from adk_fluent.inspection import LlmAnatomy, Reach, data_flow, llm_anatomy
from adk_fluent.state import UserScoped, declares
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import system


class Intent(BaseModel):
    category: str
    confidence: float


def lookup(city: str) -> str:
    """Look a city up."""
    return city


def value_of_x(state: Mapping[str, Any]) -> object:
    """Return the value at `x`."""
    return state.get("x")


def copied(state: Mapping[str, Any]) -> dict[str, object]:
    """A step that does not declare the keys that it reads."""
    return {"y": dict(state)["x"]}


def seen(expression: Expr[Any], agent: str) -> tuple[set[str], set[str]]:
    """The agents whose text an agent may see, and those whose text it certainly sees."""
    found = expression.llm_anatomy()[agent]
    return set(found.sees - {"user"}), set(found.certain - {"user"})


NOBODY: set[str] = set()
A, B, D, E = (Agent(name) for name in ("a", "b", "d", "end"))


def test_a_single_agent_prints_the_six_lines() -> None:
    """The mapping of a single agent prints its anatomy."""
    agent = Agent("classifier").instruct("Classify: {query}").reads("query").returns(Intent).writes("intent")
    assert str(agent.llm_anatomy()).splitlines() == [
        "LLM Call Anatomy: classifier",
        '  1. System:     "Classify: {query}"',
        "  2. History:    SUPPRESSED",
        '  3. Context:    state["query"] injected',
        "  4. Tools:      none",
        "  5. Constraint: must return Intent {category: str, confidence: float}",
        '  6. After:      response stored → state["intent"]',
    ]


def test_the_five_concerns_are_printed() -> None:
    """A mapping of one agent prints its five concerns; one of several names each agent."""
    agent = Agent("classifier").reads("query").returns(Intent).writes("intent").produces(Intent)
    assert str(agent.data_flow()).splitlines() == [
        "Data Flow:",
        "  reads:    C.from_state('query') — state keys only",
        "  accepts:  (not set — accepts any input as tool)",
        "  returns:  structured JSON → Intent",
        "  writes:   state['intent']",
        "  contract: produces Intent",
    ]
    assert "Data Flow: classifier\n" in str((agent >> Agent("b")).data_flow())


def test_the_concerns_are_values_too() -> None:
    """Each of the five concerns is also available as values."""
    agent = Agent("a").instruct("{who}").reads("query").accepts(Intent).returns(Intent).writes("intent")
    flow = agent.consumes(Intent).data_flow()["a"]
    assert flow.keys == ("query", "who")
    assert flow.stored == ("intent",)
    assert (flow.input_schema, flow.output_schema, flow.consumes) == (Intent, Intent, Intent)
    assert flow.accepts == "Intent {category: str, confidence: float}"
    assert flow.reads == "C.from_state('query') — state keys only, {who}"


def test_kinds_of_content_are_accepted() -> None:
    """The kinds of content that an agent accepts are one of the concerns."""
    assert Agent("a").accepts(Modality.IMAGE, Modality.TEXT).data_flow()["a"].accepts == "image, text"


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        (A, "C.default() — the whole conversation"),
        (A.context(C.none()), "C.none() — the current user message only"),
        (A.context(C.from_agents("b")), "C.from_agents('b') — part of the conversation"),
        (A.include_contents("none"), 'include_contents("none") — what was said last'),
    ],
)
def test_what_is_read_of_the_conversation(agent: Expr[Any], line: str) -> None:
    """The first concern says how much of the conversation an agent is shown."""
    assert agent.data_flow()["a"].reads == line


def test_a_remote_agent_has_concerns_but_no_anatomy() -> None:
    """A remote agent has no anatomy, because its request is made in another process."""
    pipeline = RemoteAgent("far", endpoint="http://far.example").reads("x").writes("y") >> Agent("b")
    assert pipeline.data_flow()["far"].reads == "state['x']"
    assert list(pipeline.llm_anatomy()) == ["b"]
    assert "far" in pipeline.llm_anatomy()["b"].sees


# --- who sees whom --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "agent", "may", "surely"),
    [
        (A >> B >> E, "end", {"a", "b"}, {"a", "b"}),
        (A >> B.context(C.from_agents("x")) >> E, "b", NOBODY, NOBODY),
        ((A | B) >> E, "b", NOBODY, NOBODY),
        ((A | B) >> E, "end", {"a", "b"}, {"a", "b"}),
        (Loop(A, B, max_iterations=2), "a", {"a", "b"}, NOBODY),
        (Loop(A, B, max_iterations=2), "b", {"a", "b"}, {"a"}),
        (Route("k").eq("x", A).otherwise(B) >> E, "end", {"a", "b"}, NOBODY),
        (Route("k").eq("x", A).otherwise(B) >> E, "b", NOBODY, NOBODY),
        ((A // B) >> E, "b", {"a"}, NOBODY),
        ((A // B) >> E, "end", {"a", "b"}, NOBODY),
        (race(A, B) >> E, "end", {"a", "b"}, NOBODY),
        (A >> map_over("items", B) >> E, "b", {"a"}, {"a"}),
        (A >> map_over("items", B) >> E, "end", {"a", "b"}, {"a"}),
        (A >> gate(lambda state: True) >> E, "end", {"a"}, {"a"}),
        (A >> B.timeout(3) >> E, "end", {"a", "b"}, {"a", "b"}),
        (A.delegate(B, D), "b", {"a", "b", "d"}, NOBODY),
        (A.delegate(B, D) >> E, "end", {"a", "b", "d"}, NOBODY),
        (A.delegate(B.isolate()), "a", NOBODY, NOBODY),
        (A >> transfer("end", condition=lambda state: True) >> B >> E, "end", {"a", "b"}, {"a"}),
    ],
)
def test_who_may_be_seen(expression: Expr[Any], agent: str, may: set[str], surely: set[str]) -> None:
    """For each shape, the anatomy names the authors who may reach an agent, certainly do, or never do."""
    assert seen(expression, agent) == (may, surely)
    found = expression.llm_anatomy()[agent]
    assert found.hides == set(expression.llm_anatomy()) - may - {agent}


LAST = Agent("last").include_contents("none")
AT_ONCE = (A | B) >> LAST
ON_A_BRANCH = Route("k").eq("x", B).otherwise(D)


@pytest.mark.parametrize(
    ("expression", "may", "surely"),
    [
        (LAST, {"user"}, {"user"}),
        (LAST >> E, {"user"}, {"user"}),
        (A >> LAST, {"a"}, {"a"}),
        (A >> B >> LAST, {"b"}, {"b"}),
        (A.writes("x") >> B >> LAST.instruct("{x}"), {"a", "b"}, {"a", "b"}),
        (A >> S.set(x=1) >> LAST, {"a"}, {"a"}),
        (A >> (LAST | B), {"a"}, {"a"}),
        (AT_ONCE, {"a", "b"}, NOBODY),
        (A >> ON_A_BRANCH >> LAST, {"b", "d"}, NOBODY),
        (A >> Route("k").eq("x", B) >> LAST, {"a", "b"}, NOBODY),
        (A >> LAST * 2, {"a", "last"}, {"a"}),
        (Loop(LAST, B, max_iterations=2), {"user", "b"}, NOBODY),
        (Loop(A, LAST, max_iterations=2), {"a"}, {"a"}),
        (E >> A.delegate(LAST), {"end", "a", "last"}, NOBODY),
    ],
)
async def test_an_agent_with_no_contents_hears_who_spoke_last(
    expression: Expr[Any], may: set[str], surely: set[str]
) -> None:
    """The anatomy names the last speakers, or the user if no agent spoke, and real requests agree."""
    found = expression.llm_anatomy()["last"]
    assert (found.sees, found.certain) == (may, surely)
    assert found.hides == {"user", *expression.llm_anatomy()} - may - {"last"}
    words: dict[str, Any] = {name: f"<{name}>" for name in ("a", "b", "d", "end", "last", "user")}
    if any(child.name == "a" and child.children for child in expression.node.children):
        words["a"] = [call_tool("transfer_to_agent", agent_name="last")]
    backend = mock_backend(words)
    await expression.run("<user>", backend=backend, state={"k": "x"})
    for request in backend.calls["last"]:
        said = str(request.contents) + system(request)
        there = {name for name in ("a", "b", "d", "end", "last", "user") if f"<{name}>" in said}
        assert surely <= there <= may


def test_a_text_that_arrives_twice() -> None:
    """An agent's text reaches the next one through the conversation and through the key that holds it."""
    pipeline = Agent("classifier").writes("intent") >> Agent("booker").instruct("Book. {intent}")
    found = pipeline.llm_anatomy()["booker"]
    assert found.reaches == (
        Reach("user", certain=True),
        Reach("classifier", certain=True),
        Reach("classifier", "intent", certain=True, whole=True),
    )
    assert found.doubled == {"classifier"}
    cured = (Agent("classifier").writes("intent") >> Agent("booker").reads("intent")).llm_anatomy()["booker"]
    assert (cured.doubled, cured.sees) == (frozenset(), {"user", "classifier"})


@pytest.mark.parametrize(
    "step",
    [
        S.rename(x="y"),
        S.merge("x", "z", into="y"),
        S.fn(lambda state: {"y": value_of_x(state)}, reads=["x"], writes=["y"]),
        S.compute(y=declares(reads=["x"])(value_of_x)),
        S.zip("x", into="y"),
        S.when("flag", S.rename(x="y")),
    ],
)
def test_words_travel_through_the_state(step: Expr[Any]) -> None:
    """A value that a step makes from another one carries the same authors, and no others."""
    pipeline = A.writes("x") >> D.writes("w") >> step >> B.context(C.from_state("y"))
    assert seen(pipeline, "b")[0] == {"a"}


def test_a_function_that_says_nothing_may_copy_anything() -> None:
    """If a function does not declare its reads, every agent may be an author of its result."""
    pipeline = A.writes("x") >> copied >> B.context(C.from_state("y")) >> E
    assert seen(pipeline, "b")[0] == {"a", "b", "end"}


def test_a_constant_holds_nobodys_words() -> None:
    """A constant value that a step sets has no author."""
    assert seen(A.writes("x") >> S.set(x="new") >> B.reads("x"), "b")[0] == NOBODY


def test_words_go_round_a_loop() -> None:
    """In a loop words may travel one step further each round, also where each key is there from the start."""
    start = S.set(x="1", y="2", c="3")
    body = B.instruct("{c?}").context(C.none()) >> S.rename(y="c") >> S.rename(x="y") >> A.writes("x")
    assert "a" in seen(start >> Loop(body, max_iterations=4), "b")[0]


def test_a_sibling_may_write_over_a_value() -> None:
    """A parallel branch may overwrite a definite value while the agent runs."""
    beside = A.writes("x") | B.instruct("{x}")
    assert seen(S.set(x="1") >> beside, "b") == ({"a"}, set())


def test_an_own_extract_stands_in_the_instruction() -> None:
    """The key that an agent's context extracts is present when its instruction is rendered."""
    agent = B.context(C.exclude_agents("a") | C.distill(into="x")).instruct("{x?}")
    assert "a" not in (A.writes("x") >> agent).llm_anatomy()["b"].certain


def test_what_earlier_runs_left() -> None:
    """The second run of a session may show an agent what the first one said, unless its context forbids."""
    pipeline = (
        A >> B.context(C.none()) >> D.context(C.window(1)) >> E.context(C.none()).instruct("{k?}").writes("k")
    )
    found = pipeline.llm_anatomy()
    assert found["a"].earlier == {"user", "a", "b", "d", "end"}
    assert found["b"].earlier == found["d"].earlier == frozenset()
    assert found["end"].earlier == {"end"}


# --- the other lines ------------------------------------------------------------------------------


def anatomy(agent: Expr[Any]) -> LlmAnatomy:
    """The anatomy of the agent `a`."""
    return agent.llm_anatomy()["a"]


def test_tools_are_named() -> None:
    """Functions and the tool for handing over are named as the model sees them."""
    found = (A.tool(lookup).delegate(B)).llm_anatomy()
    assert found["a"].tool_names == ("lookup", "transfer_to_agent")
    assert found["b"].tool_names == ("transfer_to_agent",)
    assert anatomy(A.delegate(B)).after == "response goes to the conversation, or hands over to b"


class Bill(StateSchema):
    intent: str
    confidence: Annotated[float, Field(ge=0)]
    tier: Annotated[str | None, UserScoped]
    parsed: Intent


JSON = "must return JSON"
FULL = "{category: str, confidence: float}"


@pytest.mark.parametrize(
    ("agent", "constraint", "returns"),
    [
        (A, "none, the answer is text", "(not set — plain text)"),
        (A.writes("x"), "none, the answer is text", "(not set — plain text)"),
        (A.writes(Bill.intent), "none, the answer is text", "(not set — plain text)"),
        (
            A.writes(Bill.intent, Bill.confidence, Bill.tier),
            f"{JSON} {{intent: str, confidence: float, tier: str | None}}",
            "structured JSON → {intent: str, confidence: float, tier: str | None}",
        ),
        (A.writes(Bill.confidence), f"{JSON} {{confidence: float}}", "structured JSON → {confidence: float}"),
        (A.returns(Intent), f"must return Intent {FULL}", "structured JSON → Intent"),
        (
            A.writes(Bill.confidence).returns(Intent),
            f"must return Intent {FULL}",
            "structured JSON → Intent",
        ),
        (A.writes(Bill.parsed).returns(Intent), f"must return Intent {FULL}", "structured JSON → Intent"),
    ],
)
async def test_the_shape_of_the_answer_is_what_the_model_is_asked_for(
    agent: Agent[Any], constraint: str, returns: str
) -> None:
    """Anatomy, data flow and explanation call it what the request asks for: text, or JSON of a shape."""
    assert anatomy(agent).constraint == constraint
    assert agent.data_flow()["a"].returns == returns
    assert f"  returns:      {returns}" in str(agent.explain()).splitlines()
    asked: Any = (await agent.preview("x"))["a"][0].config.response_schema
    for found in (anatomy(agent).output_schema, agent.data_flow()["a"].output_schema):
        assert getattr(found, "__name__", None) == getattr(asked, "__name__", None)


def test_a_field_of_a_json_answer_is_not_the_whole_answer() -> None:
    """A field of a JSON answer does not count as the agent's whole answer."""
    pipeline = A.writes(Bill.intent, Bill.confidence) >> B.instruct("{intent}")
    assert Reach("a", "intent", certain=False, whole=True) not in pipeline.llm_anatomy()["b"].reaches
    assert pipeline.llm_anatomy()["b"].doubled == frozenset()


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (A.instruct(P.role("A clerk.") + P.task("Sort.")), '"A clerk.\n\nTask:\nSort."'),
        (A.instruct(P.task("Sort.") + P.from_state("x")), "\"P.task('Sort.') + P.from_state('x')\""),
        (A.instruct(lambda ctx: "x"), "<function>"),
        (A, ""),
    ],
)
def test_the_instruction_is_shown(agent: Expr[Any], text: str) -> None:
    """An instruction is shown as text, or as it was written where the state decides."""
    assert anatomy(agent).system == text


def test_what_functions_may_add_is_named() -> None:
    """The anatomy names a function that does not declare its reads, because it may add to the request."""

    def peek(callback_context: Any, llm_request: Any) -> None:
        return None

    assert anatomy(A.before_model(peek)).unknown == ("peek",)
    assert anatomy(A).unknown == ()


def test_copies_of_an_agent_stand_apart() -> None:
    """An agent that is used twice has two entries, under the names that it gets when it is built."""
    writer = Agent("writer").writes("draft")
    found = (writer >> writer).llm_anatomy()
    assert list(found) == ["writer", "writer_2"]
    assert (found["writer"].sees, found["writer_2"].sees) == ({"user"}, {"user", "writer"})


def test_an_agent_that_is_not_there() -> None:
    """The error for an unknown agent names the nearest one."""
    with pytest.raises(MissingKeyError, match=r"There is no agent 'bokker' here\. Did you mean 'booker'\?"):
        Agent("booker").llm_anatomy()["bokker"]


def test_what_was_built_is_looked_at_like_the_expression() -> None:
    """The native agent of an expression gives the same answers."""
    pipeline = Agent("a").writes("x") >> Agent("b").reads("x")
    assert llm_anatomy(pipeline.build()) == pipeline.llm_anatomy()
    assert data_flow(pipeline.to_app()) == pipeline.data_flow()


def test_a_pipeline_without_agents() -> None:
    """An expression without agents has an empty mapping."""
    assert str(Pipeline(S.set(x=1)).llm_anatomy()) == "There is no agent here."
    assert FanOut(S.set(x=1), S.set(y=1)).data_flow() == Pipeline(S.set(x=1)).data_flow()
