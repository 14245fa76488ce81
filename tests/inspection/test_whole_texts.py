"""The whole texts of `.explain()`, `.llm_anatomy()` and `.data_flow()` for an assistant with helpers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, C, Loop, P, Pipeline, RemoteAgent, Route, S, StateSchema
from adk_fluent.cost import ModelCandidate
from adk_fluent.errors import MissingKeyError
from adk_fluent.expr.base import Expr
from adk_fluent.inspection import PerAgent, Reach
from adk_fluent.inspection.presentation import fields_of, type_name
from adk_fluent.state import declares


class Intent(BaseModel):
    category: str


class City(BaseModel):
    name: str
    people: int


class Bill(StateSchema):
    total: float
    due: str


class Web:
    """A tool that is an object with a name."""

    name = "web_search"

    def __call__(self, query: str) -> str:
        """Search."""
        return query


class Files(BaseToolset):
    """A toolset, whose tools are known only during a run."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        """None."""
        return []


def lookup(city: str) -> str:
    """Look a city up."""
    return city


def told(context: object) -> str:
    """An instruction that a function gives."""
    return f"x {context!r}"


def note(callback_context: object) -> None:
    """Do nothing."""


def greet(callback_context: object) -> None:
    """Do nothing."""


def peek(callback_context: object, llm_request: object) -> None:
    """Do nothing."""


@declares(reads=["x"])
def declared(callback_context: object, llm_request: object) -> None:
    """Read a key, which no model is shown."""


def copied(state: Mapping[str, Any]) -> dict[str, object]:
    """A step that does not declare the keys that it reads."""
    return {"y": dict(state)["x"]}


A, B, D, E = (Agent(name) for name in ("a", "b", "d", "end"))

DESK = (
    Agent("desk", "gemini-2.5-pro")
    .describe("Answers über alles.")
    .instruct("Help {name}.\nYou know {topic}.")
    .global_instruct("Be polite.")
    .tools(lookup, Web())
    .before_agent(note, greet)
    .before_model(peek, lambda callback_context, llm_request: None)
    .delegate(
        Agent("billing").stay().reads("invoice", "tier").produces(Intent).consumes(City),
        Agent("refunds").no_peers().context(C.from_agents("billing")).global_instruct("Unheard."),
        Agent("shop").isolate().context(C.none()).writes(Bill.total, Bill.due),
    )
)

EXPLAINED = """\
desk (agent)
  model:        gemini-2.5-pro
  description:  Answers über alles.
  instruction:  "Help {name}.
                You know {topic}."
  reads:        C.default() — the whole conversation, {name}, {topic}
  accepts:      (not set — accepts any input as tool)
  returns:      (not set — plain text)
  writes:       (not set — only the conversation)
  contract:     (not set)
  history:      FULL: user; perhaps desk, billing, refunds, shop
  tools:        lookup, web_search, transfer_to_agent
  unknown:      peek, <lambda>
  callbacks:    before_agent: note, greet; before_model: peek, <lambda>
  children:     billing, refunds, shop
  visibility:   user

billing (agent)
  model:        (not set — the model of the agent above, else ADK's default, DEFAULT)
  reads:        C.from_state('invoice', 'tier') — state keys only
  accepts:      (not set — accepts any input as tool)
  returns:      (not set — plain text)
  writes:       (not set — only the conversation)
  contract:     produces Intent, consumes City
  history:      SUPPRESSED
  tools:        transfer_to_agent
  visibility:   user

refunds (agent)
  model:        (not set — the model of the agent above, else ADK's default, DEFAULT)
  reads:        C.from_agents('billing') — part of the conversation
  accepts:      (not set — accepts any input as tool)
  returns:      (not set — plain text)
  writes:       (not set — only the conversation)
  contract:     (not set)
  history:      PART, C.from_agents('billing'): user; perhaps billing
  tools:        transfer_to_agent
  visibility:   user

shop (agent)
  model:        (not set — the model of the agent above, else ADK's default, DEFAULT)
  reads:        C.none() — the current user message only
  accepts:      (not set — accepts any input as tool)
  returns:      structured JSON → {total: float, due: str}
  writes:       state['total'], state['due']
  contract:     (not set)
  history:      SUPPRESSED
  tools:        none
  visibility:   user"""

ANATOMY = """\
LLM Call Anatomy: desk
  1. System:     "Be polite."

                 "Help {name}.
                 You know {topic}."
  2. History:    FULL: user; perhaps desk, billing, refunds, shop
  3. Context:    none beside {name}, {topic} in the instruction
  4. Tools:      lookup, web_search, transfer_to_agent
  5. Constraint: none, the answer is text
  6. After:      response goes to the conversation, or hands over to billing, refunds and shop

LLM Call Anatomy: billing
  1. System:     "Be polite."
  2. History:    SUPPRESSED
  3. Context:    state["invoice"], state["tier"] injected
  4. Tools:      transfer_to_agent
  5. Constraint: none, the answer is text
  6. After:      response goes to the conversation, or hands over to refunds and shop

LLM Call Anatomy: refunds
  1. System:     "Be polite."
  2. History:    PART, C.from_agents('billing'): user; perhaps billing
  3. Context:    none
  4. Tools:      transfer_to_agent
  5. Constraint: none, the answer is text
  6. After:      response goes to the conversation, or hands over to desk

LLM Call Anatomy: shop
  1. System:     "Be polite."
  2. History:    SUPPRESSED
  3. Context:    none
  4. Tools:      none
  5. Constraint: must return JSON {total: float, due: str}
  6. After:      response stored → state["total"], state["due"]"""

FLOW = """\
Data Flow: far
  reads:    state['p'], state['q']
  accepts:  (not set — accepts any input as tool)
  returns:  (not set — plain text)
  writes:   state['x']
  contract: (not set)

Data Flow: a
  reads:    C.default() — the whole conversation, {y}, {x}
  accepts:  Intent {category: str}
  returns:  structured JSON → City
  writes:   (not set — only the conversation)
  contract: produces Intent, consumes City"""


def test_an_assistant_with_helpers_is_explained() -> None:
    """The outline, then the facts about each agent, without empty lines."""
    found = DESK.explain()
    agents = [agent.replace(issues=()) for agent in found.agents.values()]  # the findings are the check's
    assert "\n\n".join(map(str, agents)) == EXPLAINED.replace("DEFAULT)", f"{LlmAgent.DEFAULT_MODEL})")
    assert str(found).startswith(
        "desk (agent) name, topic →\n  billing (agent) invoice, tier →\n  refunds (agent)\n"
        "  shop (agent) → total, due\n\ndesk (agent)\n"
    )
    assert found.shape == str(found).partition("\n\n")[0]


def test_the_anatomy_of_an_assistant_with_helpers() -> None:
    """Six lines for each agent, those of instructions with several lines below one another."""
    assert str(DESK.llm_anatomy()) == ANATOMY


def test_the_concerns_of_agents_near_and_far() -> None:
    """Five lines for each agent, under its name; they are values, too."""
    far = RemoteAgent("far", endpoint="http://far.example").reads("p", "q").writes("x")
    near = A.instruct(P.from_state("x") + P.template("{y}")).accepts(Intent).returns(City)
    flows = (far >> near.produces(Intent).consumes(City)).data_flow()
    assert str(flows) == FLOW
    assert (flows["far"].agent, flows["far"].keys, flows["far"].stored) == ("far", ("p", "q"), ("x",))
    assert (flows["a"].keys, flows["a"].context, flows["far"].context) == (("y", "x"), None, None)
    assert (flows["a"].produces, flows["a"].consumes) == (Intent, City)
    assert A.context(C.none()).data_flow()["a"].context == C.none()
    assert RemoteAgent("far", endpoint="http://far.example").data_flow()["far"].reads == "the conversation"


def test_findings_of_no_agent_end_the_explanation() -> None:
    """Findings about steps that are not agents are at the end, one below the other."""
    pipeline = Route("y").eq("1", A).otherwise(B) >> Route("z").eq("1", D).otherwise(E)
    findings = [str(issue) for issue in pipeline.check().issues if issue.agent in ("route", "route_2")]
    assert len(findings) == 2
    text = str(pipeline.explain())
    assert text.endswith("  visibility:   user\n\n" + "\n".join(findings))
    assert text.count("\n\n") == 5


@pytest.mark.parametrize(
    ("expression", "begins"),
    [
        (A, "a (agent)\n  model: "),
        (A.timeout(3), "timeout\n  a (agent)\n\na (agent)\n  model: "),
        (Pipeline(A), "sequence\n  a (agent)\n\na (agent)\n  model: "),
        (S.set(x=1), "set (transform) → x"),
        (A >> B, "sequence\n  a (agent)\n  b (agent)\n\na (agent)\n  model: "),
    ],
)
def test_one_agent_alone_needs_no_outline(expression: Expr[Any], begins: str) -> None:
    """The outline stands first, unless there is nothing but one agent."""
    assert str(expression.explain()).startswith(begins)


def test_the_json_is_a_stable_layout() -> None:
    """All values of an explanation, readable by people, too; what a remote model is sent is `null`."""
    pipeline = A.describe("über").instruct("Help {x}.") >> RemoteAgent("far", endpoint="http://far.example")
    concerns = {
        "reads": "C.default() — the whole conversation, {x}",
        "accepts": "(not set — accepts any input as tool)",
        "returns": "(not set — plain text)",
        "writes": "(not set — only the conversation)",
        "contract": "(not set)",
    }
    near = {
        "agent": "a",
        "kind": "agent",
        "model": "",
        "description": "über",
        "instruction": "Help {x}.",
        "data_flow": concerns,
        "anatomy": {
            "system": '"Help {x}."',
            "history": "FULL: user",
            "context": "none beside {x} in the instruction",
            "tools": "none",
            "constraint": "none, the answer is text",
            "after": "response goes to the conversation",
            "sees": ["user"],
            "certain": ["user"],
            "hides": ["far"],
            "earlier": ["a", "far", "user"],
            "doubled": [],
            "keys": ["x"],
            "tool_names": [],
            "unknown": [],
        },
        "middleware": [],
        "callbacks": {},
        "children": [],
        "visibility": "internal",
        "issues": ["unresolved-template-var"],
    }
    report = json.loads(pipeline.check().to_json())
    far = {
        "agent": "far",
        "kind": "remote",
        "model": "http://far.example",
        "description": "",
        "instruction": "",
        "data_flow": {**concerns, "reads": "the conversation"},
        "anatomy": None,
        "middleware": [],
        "callbacks": {},
        "children": [],
        "visibility": "user",
        "issues": [issue["code"] for issue in report["issues"] if issue["agent"] == "far"],
    }
    shape = "sequence\n  a (agent) x →\n  far (remote)"
    whole = {"version": 1, "shape": shape, "agents": [near, far], "report": report}
    assert pipeline.explain().to_json() == json.dumps(whole, indent=2, ensure_ascii=False)


def test_what_is_known_of_callbacks_and_helpers_is_json() -> None:
    """Lists stay lists, in order."""
    desk = DESK.explain().agents["desk"].data()
    assert desk["callbacks"] == {"before_agent": ["note", "greet"], "before_model": ["peek", "<lambda>"]}
    assert desk["children"] == ["billing", "refunds", "shop"]
    assert desk["anatomy"]["unknown"] == ["peek", "<lambda>"]


SMALL = ModelCandidate("gemini-2.5-flash", 0.15, 0.60, quality_tier=1)
LARGE = ModelCandidate("gemini-2.5-pro", 1.25, 5.00, quality_tier=2)


@pytest.mark.parametrize(
    ("agent", "model"),
    [
        (A, ""),
        (A.model("m"), "m"),
        (A.model(Gemini(model="g")), "g"),
        (
            A.model_select("cost_optimized", candidates=[SMALL, LARGE]),
            "cost_optimized of gemini-2.5-flash, gemini-2.5-pro",
        ),
    ],
)
def test_the_model_is_named(agent: Expr[Any], model: str) -> None:
    """A model is shown by its name, also one that is an object or is chosen at each call."""
    assert agent.explain().agents["a"].model == model


@pytest.mark.parametrize(
    ("agent", "history"),
    [
        (A, "FULL: user, end"),
        (A.context(C.default()), "FULL: user, end"),
        (A.context(C.window(2)), "PART, C.window(n=2): user, end"),
        (A.context(C.none()), "SUPPRESSED"),
        (A.include_contents("none"), 'PART, include_contents("none"): end'),
        (A.context(C.from_agents("b")), "PART, C.from_agents('b'): user"),
    ],
)
def test_how_much_history_is_shown(agent: Expr[Any], history: str) -> None:
    """The history line names certain and possible authors, and the context that leaves out others."""
    assert (E >> agent).llm_anatomy()["a"].history == history


@pytest.mark.parametrize(
    ("agent", "tools"),
    [
        (A.tools(Files(), lookup), "Files (a toolset), lookup"),
        (A.tool(lookup, require_confirmation=True), "lookup"),
        (A.tool(Web()), "web_search"),
    ],
)
def test_tools_have_the_names_that_a_model_sees(agent: Expr[Any], tools: str) -> None:
    """A function, an object with a name; a toolset, whose tools are not known yet, by its class."""
    assert agent.llm_anatomy()["a"].tools == tools


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (City, "City {name: str, people: int}"),
        (City | None, "City | None"),
        (list[City], "list[City]"),
        (str, "str"),
        (Literal["a", "b"], "Literal['a', 'b']"),
        ({"title": "Town", "type": "object"}, "Town"),
        ({"type": "object"}, "JSON"),
        (types.Schema(), "Schema"),
    ],
)
def test_types_are_shown_as_a_reader_knows_them(schema: object, name: str) -> None:
    """A type by how it is written, a model with its fields, a JSON schema by its title."""
    assert type_name(schema) + fields_of(schema) == name


def test_functions_that_decide_are_named() -> None:
    """An instruction, a context and a tool that functions decide are shown by the names of these."""
    assert A.instruct(told).llm_anatomy()["a"].system == "<told>"
    assert A.instruct(told).llm_anatomy()["a"].unknown == ("told",)
    chosen = C.when(lambda state: len(state) > 3, C.none())
    assert A.context(chosen).llm_anatomy()["a"].unknown == (repr(chosen),)


def test_keys_are_values_of_an_anatomy() -> None:
    """The keys an agent is shown, those in its instruction, and those it writes."""
    found = A.reads("q").instruct("{who} {q}").writes("x").llm_anatomy()["a"]
    assert (found.keys, found.placeholders, found.writes) == (("q", "who"), ("who", "q"), ("x",))


@pytest.mark.parametrize(
    ("helper", "after"),
    [
        (B, "response goes to the conversation, or hands over to a and d"),
        (B.stay(), "response goes to the conversation, or hands over to d"),
        (B.no_peers(), "response goes to the conversation, or hands over to a"),
        (B.isolate(), "response goes to the conversation"),
        (
            B.disallow_transfer_to_parent(False).disallow_transfer_to_peers(False),
            "response goes to the conversation, or hands over to a and d",
        ),
    ],
)
def test_to_whom_a_helper_can_hand_over(helper: Expr[Any], after: str) -> None:
    """To its parent and to its peers, unless it says otherwise."""
    assert A.delegate(helper, D).llm_anatomy()["b"].after == after


# --- whose words come through the state -----------------------------------------------------------


def test_the_users_words_may_come_through_a_key() -> None:
    """A captured user message reaches every reader of the key."""
    found = (S.capture("x") >> A.instruct("{x}").include_contents("none")).llm_anatomy()["a"]
    assert found.reaches == (Reach("user", certain=True), Reach("user", "x"))


def test_a_remote_answer_is_not_surely_whole() -> None:
    """A remote agent may answer without text, so its answer is not certainly whole."""
    far = RemoteAgent("far", endpoint="http://far.example").writes("x")
    reaches = (far >> A.instruct("{x}")).llm_anatomy()["a"].reaches
    assert reaches[-1] == Reach("far", "x", certain=False, whole=True)


def test_what_a_callback_reads_is_not_shown() -> None:
    """A key that only a callback reads carries no text to the model."""
    found = (A.writes("x") >> B.context(C.none()).before_model(declared)).llm_anatomy()["b"]
    assert found.sees == {"user"}


@pytest.mark.parametrize(
    ("pipeline", "earlier"),
    [
        (B.context(C.from_state("x")) >> A.writes("x"), {"a"}),
        (B.context(C.from_state("temp:x")) >> A.writes("temp:x"), set[str]()),
        (A.writes("x") >> B.context(C.from_state("x")), set[str]()),
        (B.context(C.from_state("x")) >> S.capture("x"), {"user"}),
        (A.writes("x") >> copied >> B.context(C.from_state("y")), {"a", "b", "user"}),
    ],
)
def test_whose_earlier_words_a_key_may_hold(pipeline: Expr[Any], earlier: set[str]) -> None:
    """Keys except `temp:` keep their values between runs; an undeclared function may copy any text."""
    assert pipeline.llm_anatomy()["b"].earlier == earlier


# --- the mapping ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "asked", "says"),
    [
        (S.set(x=1), "zzz", "There is no agent 'zzz' here. There is none."),
        (A >> E, "zzz", "There is no agent 'zzz' here. There is a, end."),
        (A >> E, "ende", "There is no agent 'ende' here. Did you mean 'end'?"),
    ],
)
def test_an_agent_that_is_not_there_is_told(expression: Expr[Any], asked: str, says: str) -> None:
    """The error names the nearest agent, or all there are."""
    with pytest.raises(MissingKeyError) as error:
        expression.llm_anatomy()[asked]
    assert str(error.value) == says


def test_mappings_compare_by_what_they_hold() -> None:
    """Two mappings are equal if they hold the same; another kind of mapping is another value."""
    found = Loop(A, B, max_iterations=2).llm_anatomy()
    assert found == PerAgent(found.items())
    assert found != A.llm_anatomy()
    assert found != dict(found)
    assert (repr(found), repr(A.llm_anatomy())) == ("PerAgent(a, b)", "PerAgent(a)")
