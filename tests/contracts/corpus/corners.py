"""Pipelines at the edges of the checks: where a finding is worded in another way, and where none is due."""

# fmt: off
from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from google.adk.tools import FunctionTool
from google.adk.tools.base_toolset import BaseToolset
from pydantic import BaseModel

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
    T,
    gate,
    map_over,
    race,
    transfer,
)
from adk_fluent.content import Modality
from adk_fluent.expr.base import Expr
from adk_fluent.ir import declares
from adk_fluent.ir.tools import GenerateOptions
from adk_fluent.state import CapturedBy, StateSchema, Temp
from tests.contracts.corpus.cases import (
    Answer,
    Billing,
    Correct,
    Desk,
    Fault,
    Intent,
    Mood,
    Query,
    Score,
    Shop,
    Ticket,
    approved,
    get_news,
    get_weather,
    good_enough,
    is_large,
    is_urgent,
    load_tickets,
)
from tests.contracts.corpus.pauses import always


class Counted(BaseModel):
    query: int


class Sizes(StateSchema):
    size: int | float | bool
    name: str = "Ann"
    scratch: Annotated[str, Temp] = "empty"
    question: Annotated[str, CapturedBy(S.capture)]
    upload: Annotated[str, CapturedBy(partial(print))]
    report: Answer
    few: Literal["a", "b", "c", "d", "e", "f"]
    many: Literal["a", "b", "c", "d", "e", "f", "g"]


class Wish(BaseModel):
    note: str = ""
    query: str


class Grade(BaseModel):
    score: float


class Slip(BaseModel):
    qery: str


@dataclass
class Plain:
    query: str


@declares(writes=["confidence"])
def rate(text: str) -> str:
    """Rate a text."""
    return text


@declares(reads=["b", "a"])
def by_a_and_b(state: object) -> bool:
    return True


class Toolset(BaseToolset):
    """A set of tools, whose names are not known before it is asked."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return []

    async def close(self) -> None: ...


class Nameless:
    """A predicate that has no name."""

    def __call__(self, state: object) -> bool:
        return True


def set_model_response() -> str:
    """Set it."""
    return ""


class Scale:
    """An object that weighs what is in state."""

    def __call__(self, unit: str, tool_context: Any) -> str:
        """Weigh it."""
        tool_context.state["seen"] = unit
        return f"{tool_context.state['parcel']} {unit}"


class Passing:
    """An object that does with the state what its source does not show."""

    def __call__(self, tool_context: Any) -> str:
        """Pass it on."""
        return str(dict(tool_context.state))


NAMELESS = Nameless()
ENDPOINT = "http://127.0.0.1:1"
classifier = Agent("classifier").instruct("Classify.").writes("intent")
writer = Agent("writer").instruct("Write.").writes("draft")
helper = Agent("helper").instruct("Help.")
other = Agent("other").instruct("Help.")
reader = Agent("reader")
blind = reader.context(C.none())
tickets = Pipeline(load_tickets)
caller = Agent("caller").tool(get_weather)
_ticket = Agent("triage").returns(Ticket).writes("ticket")


def _reads(*keys: str, name: str = "reader") -> Agent[str]:
    return Agent(name).instruct("Use " + " ".join(f"{{{key}}}" for key in keys))


def _team(*names: str) -> FanOut[Any]:
    return FanOut(*(Agent(f"a_{name}").writes(name) for name in names))


FAULTY: list[Fault] = []


def _add(severity: Any, code: str, name: str, expression: Expr[Any], agent: str, key: Any = None, **more: Any) -> None:
    FAULTY.append(Fault(name=name, expression=expression, code=code, agent=agent, key=key, severity=severity, **more))


VAR, READ, TYPE, LITERAL = "unresolved-template-var", "read-before-write", "type-mismatch", "literal-placeholder"
LETTERS = ("k1", "k2", "k3", "k4", "k5", "k6", "k7")

# --- keys that are not there ----------------------------------------------------------------------

for what, expression, agent, key in (
    ("written by four, later", _reads("x") >> Agent("a").writes("x") >> Agent("b").writes("x") >> Agent("c").writes("x") >> Agent("d").writes("x"), "reader", "x"),
    ("written on the other branch", S.set(intent="a") >> Route("intent").eq("a", writer).otherwise(_reads("draft")), "reader", "draft"),
    ("written in a loop that is over there", Loop(_reads("x"), helper, max_iterations=2) >> Agent("w").writes("x"), "reader", "x"),
    ("a field of an answer", Agent("triage").returns(Ticket) >> _reads("team"), "reader", "team"),
    ("a field of a stored answer", _ticket >> _reads("team"), "reader", "team"),
    ("a field of the last of two answers", _ticket >> Agent("late").returns(Ticket) >> _reads("team"), "reader", "team"),
    ("a field of a later answer", _reads("team") >> Agent("late").returns(Ticket), "reader", "team"),
    ("a field of its own answer", _reads("team").returns(Ticket), "reader", "team"),
    ("a field that it says it produces itself", _reads("team").produces(Ticket), "reader", "team"),
    ("a field that is produced later", _reads("team") >> Agent("late").produces(Ticket), "reader", "team"),
    ("the item by another name", tickets >> map_over("tickets", _reads("item")), "reader", "item"),
    ("the item as one of the list", tickets >> map_over("tickets", _reads("ticket")), "reader", "ticket"),
    ("the item in a sequence", tickets >> map_over("tickets", writer >> _reads("item", "draft").context(C.none())), "reader", "item"),
    ("a default of a schema", _reads("name").schema(Sizes), "reader", "name"),
    ("a default of another scope", _reads("temp:scratch").schema(Sizes), "reader", "temp:scratch"),
    ("a field that is captured", _reads("question").schema(Sizes), "reader", "question"),
    ("a field that something without a name captures", _reads("upload").schema(Sizes), "reader", "upload"),
):
    _add("error", VAR, f"never: {what}", expression, agent, key)

_choose = Route("intent").eq("a", writer).eq("b", Agent("w2").writes("draft")).eq("c", Agent("w3").writes("draft"))
for what, expression, agent, key in (
    ("on two branches of three", classifier >> Route("intent").eq("a", writer).eq("b", Agent("w2").writes("draft")).otherwise(helper) >> _reads("draft"), "reader", "draft"),
    ("on three branches of four", classifier >> _choose.otherwise(helper) >> _reads("draft"), "reader", "draft"),
    ("on the second branch of three", classifier >> Route("intent").eq("a", helper).eq("b", writer).otherwise(other) >> _reads("draft"), "reader", "draft"),
    ("on four branches of five", classifier >> _choose.eq("d", Agent("w4").writes("draft")).otherwise(helper) >> _reads("draft"), "reader", "draft"),
    ("by one it may hand over to", _reads("draft", name="boss").delegate(writer), "boss", "draft"),
    ("on five branches of six", classifier >> _choose.eq("d", Agent("w4").writes("draft")).eq("e", Agent("w5").writes("draft")).otherwise(helper) >> _reads("draft"), "reader", "draft"),
    ("by four, later in the loop", Loop(_reads("x"), *(S.set(x=n).named(f"s{n}") >> Agent(f"r{n}").instruct("{x}") for n in range(4)), max_iterations=2), "reader", "x"),
    ("by two that race with a third", race(Pipeline("p", writer), Pipeline("q", Agent("w2").writes("draft")), helper) >> _reads("draft"), "reader", "draft"),
    ("by a callback of a model's answer", Loop(Agent("a").tool(rate).instruct("{confidence}"), max_iterations=2), "a", "confidence"),
):
    _add("warn", VAR, f"may: {what}", expression, agent, key)

_add("error", VAR, "never: written later, and in another scope", Agent("u").writes("user:x") >> _reads("x") >> Agent("w").writes("x"), "reader", "x")
_add("error", READ, "never: until of what the body drops", S.set(score=0) >> Loop(helper, S.drop("score")).until(good_enough), "loop", "score")

# --- types ----------------------------------------------------------------------------------------

for what, expression, agent, key in (
    ("a slip after a test by a function", Agent("a").writes(Desk.intent) >> Route(Desk.intent).when(is_urgent, writer).eq("refnd", helper).otherwise(other), "route", "intent"),
    ("a number in quotes against a list", Agent("a").writes(Shop.items) >> Route("items").eq("3", helper).otherwise(other), "route", "items"),
    ("a word against a number", S.set(n=3) >> Route("n").eq("three", helper).otherwise(other), "route", "n"),
    ("a bound in quotes on numbers of any kind", Agent("a").writes(Sizes.size) >> Route("size").gt("5", helper).otherwise(other), "route", "size"),
    ("what a list says of a schema's text", S.set(x=1) >> (S.accumulate("x", into="intent") >> _reads("intent")).schema(Billing), "accumulate", "intent"),
    ("a default of another type", (S.default(confidence="high") >> _reads("confidence")).schema(Billing), "default", "confidence"),
    ("an answer where text is declared", (Agent("a").returns(Score).writes("intent") >> _reads("intent")).schema(Billing), "a", "intent"),
):
    _add("error", TYPE, what, expression, agent, key)

_add("error", TYPE, "none of six", Agent("a").writes(Sizes.few) >> Route("few").eq("xyz", helper).otherwise(other), "route", "few")
_add("error", TYPE, "none of seven", Agent("a").writes(Sizes.many) >> Route("many").eq("xyz", helper).otherwise(other), "route", "many")
_add("error", TYPE, "given with the run", Route("n").gt("5", helper).otherwise(other), "route", "n", state={"n": 3})
_add("error", "unmet-consumes", "after a field that may be missing", Agent("a").produces(Answer) >> Agent("b").consumes(Wish), "b", "query")
_add("error", "unmet-consumes", "misspelt", Agent("a").produces(Query) >> Agent("b").consumes(Slip), "b", "qery")

for what, expression, agent, key in (
    ("a temp key for a session field", (Agent("a").writes("temp:intent") >> _reads("temp:intent")).schema(Billing), "a", "temp:intent"),
    ("a temp key read for a session field", (Agent("a").writes(Billing.intent) >> _reads("temp:intent")).schema(Billing), "reader", "temp:intent"),
    ("given in another scope", _reads("user:plan"), "reader", "user:plan"),
    ("written by four in another scope", Agent("a").writes("x") >> Agent("b").writes("x") >> Agent("c").writes("x") >> Agent("d").writes("x") >> _reads("user:x"), "reader", "user:x"),
):
    _add("error", "scope-mismatch", what, expression, agent, key, **({"state": {"plan": "a"}} if what.startswith("given") else {}))

# --- placeholders ---------------------------------------------------------------------------------

for what, expression, agent, key in (
    ("a format of a user key", _reads("user:n:.2f"), "reader", "user:n"),
    ("a misspelt scope of a key that is written", classifier >> _reads("usr:intent"), "reader", "user:intent"),
    ("a part in a conditional global prompt", _ticket >> reader.global_instruct(P.when("ticket", P.task("{ticket.team}"))), "reader", "ticket"),
    ("a part in a prompt that is shortened", _ticket >> reader.instruct(P.when("ticket", P.task("{ticket.team}")) | P.compress(max_tokens=9)), "reader", "ticket"),
    ("a part in a prompt in a prompt", _ticket >> reader.instruct(P.when("ticket", P.when("ticket", P.task("{ticket.team}")))), "reader", "ticket"),
):
    _add("warn", LITERAL, what, expression, agent, key)
_add("info", LITERAL, "an optional word", _reads("my key?"), "reader")
_add("info", LITERAL, "words for a person", gate(always, message="Pay {the sum}?") >> helper, "gate")
_add("info", LITERAL, "many words", _reads("a b", "c d", "e f", "g h", "i j"), "reader")

# --- conversation ---------------------------------------------------------------------------------

for what, expression, agent, key in (
    ("by two", classifier >> writer >> _reads("intent", "draft"), "reader", "intent"),
    ("by three", classifier >> writer >> Agent("a").writes("x") >> _reads("intent", "draft", "x"), "reader", "intent"),
    ("one key by two", classifier >> Route("intent").eq("a", Agent("a").writes("x")).otherwise(Agent("b").writes("x")) >> _reads("x"), "reader", "x"),
    ("two keys by one", classifier >> S.compute(kind=lambda state: state["intent"]) >> S.rename(intent="theme") >> _reads("theme"), "reader", "theme"),
    ("of six", _team(*LETTERS[:6]) >> _reads(*LETTERS[:6]), "reader", "k1"),
    ("of seven", _team(*LETTERS) >> _reads(*LETTERS), "reader", "k1"),
    ("of eight", _team(*LETTERS, "k8") >> _reads(*LETTERS, "k8"), "reader", "k1"),
    ("in a window", classifier >> _reads("intent").context(C.window(2)), "reader", "intent"),
    ("by a prompt", classifier >> reader.instruct(P.task("Go") + P.from_state("intent")), "reader", "intent"),
    ("by a context", classifier >> reader.context(C.default() + C.from_state("intent")), "reader", "intent"),
):
    _add("info", "channel-duplication", what, expression, agent, key)

for what, expression, agent in (
    ("beside one that writes", (writer | helper) >> blind.instruct("{draft}"), "reader"),
    ("after a map", tickets >> FanOut(map_over("tickets", _reads("_item", name="m")), helper) >> blind.instruct("{results}"), "reader"),
    ("of a remote agent", RemoteAgent("far", endpoint=ENDPOINT) >> blind, "reader"),
):
    _add("warn", "data-loss", what, expression, agent)

_add("warn", "unknown-agent", "nobody else", reader.context(C.from_agents("x")), "reader")
_add("warn", "unknown-agent", "one of several", writer >> helper >> reader.context(C.from_agents("writer", "helper", "xyz")), "reader")

_picture = Agent("p").produces_modality(Modality.IMAGE, Modality.AUDIO)
_add("warn", "modality-mismatch", "two kinds", _picture >> Agent("t").accepts(Modality.TEXT, Modality.PDF), "t")
_add("warn", "modality-mismatch", "beside one that says nothing", (helper | _picture) >> Agent("t").accepts(Modality.TEXT), "t")
_add("warn", "modality-loss", "one kind of two that it takes", _picture >> Agent("t").accepts(Modality.AUDIO, Modality.IMAGE).context(C.window(2)), "t")
_add("warn", "modality-loss", "two kinds", _picture >> reader.context(C.window(2)), "reader")

# --- what an agent accepts ------------------------------------------------------------------------

_chain = Agent("y") >> Agent("z")
_takes = Agent("takes").instruct("Work on it.").accepts(Query)
for severity, what, expression, key in (
    ("warn", "an answer without the field", Agent("a").returns(Answer) >> _takes, None),
    ("warn", "a field of another type", Agent("a").returns(Counted) >> _takes, None),
    ("warn", "a list of them", Agent("a").returns(list[Query]) >> _takes, None),
    ("warn", "two branches without it", classifier >> Route("intent").eq("a", Agent("a").returns(Answer)).otherwise(Agent("c").returns(Intent)) >> _takes, None),
    ("warn", "another model in state", Agent("a").returns(Answer).writes("o") >> _takes.reads("o"), "o"),
    ("info", "text", helper >> _takes, None),
    ("info", "text in a loop", Loop(helper, _takes, max_iterations=2), None),
):
    _add(severity, "type-mismatch", f"accepts: {what}", expression, "takes", key)

# --- tools, maps, writes in vain ------------------------------------------------------------------

_add("error", "duplicate-tool", "a tool of ADK and its function", Agent("a").tools(FunctionTool(get_weather), get_weather), "a")
_add("error", "duplicate-tool", "three of one name", Agent("a").tools(get_weather, get_news, get_weather, get_weather), "a")
_add("error", "duplicate-tool", "one by which its model answers", Agent("a", "gemini-2.5-flash").tool(set_model_response).returns(Answer), "a")
_add("warn", "duplicate-tool", "one by which its model may answer", Agent("a", "openai/gpt-4o").tool(set_model_response).returns(Answer), "a")
_add("info", "unread-item", "read by the step before", S.set(tickets=["a"], _item="x") >> _reads("_item") >> map_over("tickets", helper), "map", "_item")
_add("info", "dead-state", "written by two", classifier >> Route("intent").eq("a", Agent("a").writes("x")).otherwise(Agent("b").writes("x")) >> helper, "a", "x")
_add("info", "dead-state", "a function reads before", S.set(a=1) >> Pipeline(lambda state: {}) >> Agent("a").writes("x") >> helper, "a", "x")

# --- structure ------------------------------------------------------------------------------------

_add("warn", "unreachable-branch", "a test by a function twice", S.set(intent="a") >> Route().when(is_urgent, helper).when(is_urgent, reader).otherwise(other), "reader")
_add("warn", "unreachable-branch", "a test without a name twice", S.set(intent="a") >> Route().when(NAMELESS, helper).when(NAMELESS, reader).otherwise(other), "reader")
_add("warn", "unreachable-branch", "two steps in a row", transfer("helper") >> reader >> other >> helper, "reader")
_add("warn", "unreachable-branch", "a sequence and what follows", Pipeline("p", transfer("helper"), Pipeline("inner", reader, other), writer) >> helper, "inner")
_add("info", "route-without-otherwise", "two tests by functions", S.set(intent="a", approved=True) >> Route().when(is_urgent, helper).when(approved, reader), "route")
_add("info", "route-without-otherwise", "a value of a few is left", Agent("a").writes(Desk.intent) >> Route(Desk.intent).eq("refund", helper), "route", "intent")
_add("info", "route-without-otherwise", "both values, but of free text", classifier >> Route("intent").eq("refund", helper).eq("other", reader), "route", "intent")
_add("info", "mixed-operators", "a chain on the right", helper | writer >> other, "parallel")
_add("info", "mixed-operators", "a chain on the left, in a pipeline", reader >> (writer >> other | helper).named("both"), "both")
_add("info", "mixed-operators", "one of three, over several lines", (
    helper  # (one)
    | writer
    >> other
    | reader
).named("three"), "three")
_add("warn", "loop-runs-to-limit", "until of two keys", S.set(a=1, b=1) >> Loop(helper).until(by_a_and_b), "loop", "a")
_add("warn", "parallel-writers", "three of one key", FanOut(Agent("a").writes("x"), Agent("b").writes("x"), Agent("c").writes("x")), "b", "x")

# --- declarations ---------------------------------------------------------------------------------

_add("warn", "boundary-type", "a default across", S.default(seen={1}) >> _reads("seen").execution_boundary(), "default", "seen")
_add("warn", "remote-input-missing", "misspelt", S.set(qury="x") >> RemoteAgent("pay", endpoint=ENDPOINT, input_schema=Query).reads("qury"), "pay", "query")
_add("info", "branch-not-visible", "the last of three", classifier >> Route("intent").eq("a", helper).eq("b", other).otherwise(reader.hide()), "reader")
_add("info", "branch-not-visible", "one of two, after one that is seen", helper >> (writer.hide() // other), "writer")

_add("error", "invalid-option", "an option of a node", Pipeline[Any].from_node(Agent("a").node.replace(generate_content_config=GenerateOptions((("temperature", 0), ("system_instruction", "x"))))), "a")
_add("error", "unknown-agent", "transfer to nobody like that", helper >> transfer("xyz"), "to_xyz")

CORRECT: list[Correct] = [
    Correct(name=f"corner: {name}", expression=expression, notes=tuple(notes))
    for name, expression, *notes in (
        ("consumes a wider type", Agent("a").produces(Score) >> Agent("b").consumes(Grade)),
        ("consumes what has no fields", Agent("a").produces(Answer) >> Agent("b").consumes(Plain)),
        ("an artifact with a blank", Agent("a").instruct("{artifact.my cv}"), "missing-artifact"),
        ("the scope of what was written outside", S.set(tier="x") >> _reads("tier").schema(Billing)),
        ("a tool writes a typed field", (Agent("a").tool(rate) >> Agent("b").instruct("{confidence?}")).schema(Billing)),
        ("a gate keeps a typed field", (gate(always, into="urgent") >> Agent("b").instruct("{urgent?}")).schema(Desk)),
        ("an answer where one is declared", (Agent("a").returns(Answer).writes("report") >> _reads("report").context(C.none())).schema(Sizes)),
        ("hidden from the next, shown to the user", helper.show() >> reader.context(C.user_only())),
        ("a remote agent that writes", RemoteAgent("far", endpoint=ENDPOINT).writes("x") >> blind.instruct("{x}")),
        ("two sets of tools", Agent("a").tools(Toolset(), Toolset()), "unknown-access"),
        ("two tools of ADK", Agent("a").tools(FunctionTool(get_weather), FunctionTool(get_news))),
        ("a tool that is an object, and one that is a class", S.set(parcel=1) >> Agent("a").tools(Scale(), T.fn(Query))),
        ("a tool that is an object whose source shows nothing", Agent("a").tool(Passing()), "unknown-access"),
        ("accepts what is given", Agent("a").returns(Query) >> _takes),
        ("accepts what may be given", Agent("a").returns(Query | None) >> _takes),
        ("accepts what one of two gives", (Agent("a").returns(Query) | helper) >> _takes),
        ("accepts what it reads instead", Agent("a").returns(Query).writes("o") >> helper >> _takes.reads("o", keep_history=True), "channel-duplication"),
        ("accepts what it reads field by field", S.capture("query") >> helper >> _takes.instruct("{query}")),
        ("accepts as a sub-agent", Agent("a").returns(Query) >> Agent("boss").delegate(_takes)),
        ("accepts an item", Agent("a").returns(list[Query]).writes("os") >> map_over("os", _takes.instruct("{_item}"))),
        ("accepts what nothing is shown of", writer >> _takes.context(C.user_only()).instruct("{draft}")),
        ("accepts what a remote agent gives", RemoteAgent("far", endpoint=ENDPOINT) >> _takes),
        ("a chain in parentheses, and one with a name", helper | (other >> reader) | _chain),
        ("a fan-out in a chain", helper >> (Agent("x") | other) >> reader),
        ("tools of another branch", (caller | Agent("b").tool(get_news).context(C.none())) >> reader),
        ("all values, and a test by a function", S.set(amount=1) >> Agent("a").writes(Desk.intent) >> Route(Desk.intent).when(is_large, helper).eq("refund", other).eq("other", reader)),
        ("pictures to one that takes no sound", Agent("p").produces_modality(Modality.IMAGE) >> Agent("t").accepts(Modality.IMAGE, Modality.AUDIO)),
        ("text to one that takes pictures in a window", Agent("p").produces_modality(Modality.TEXT) >> Agent("t").accepts(Modality.TEXT, Modality.IMAGE).context(C.window(2))),
        ("a picture from one it is not shown", Agent("p").produces_modality(Modality.IMAGE).writes("x") >> Agent("t").accepts(Modality.TEXT).context(C.user_only()).instruct("{x}")),
        ("a temp key that is no data", S.set(**{"temp:seen": {1}}) >> _reads("temp:seen") >> helper.execution_boundary()),
        ("what is no data at the boundary itself", helper >> S.set(seen={1}).execution_boundary() >> _reads("seen")),
        ("a remote that is sent a user key", S.set(**{"user:query": "x"}) >> RemoteAgent("pay", endpoint=ENDPOINT, input_schema=Query).reads("user:query")),
        ("a mood and its text", Agent("a").writes(Desk.mood) >> Route("mood").eq("good", helper).eq(Mood.BAD.value, other)),
        ("a temp key expected to be gone, in a message", S.set(**{"temp:x": 1}) >> gate(always) >> gate(always, message="{temp:x?}").named("again") >> helper),
        ("a key that an unknown function may write", Agent("u").writes("user:x") >> Pipeline(lambda state: dict(state)) >> _reads("x"), "unknown-access"),
        ("the whole answer is passed on", helper.stream_to("full") >> reader),
        ("options of a request", Agent("a").generate(temperature=0)),
        ("no item where no model is asked", tickets >> map_over("tickets", S.set(x=1)) >> helper, "dead-state", "dead-state"),
        ("an unknown function in the body of a loop", S.set(score=0) >> Loop(Pipeline(lambda state: {**state, "score": 1})).until(by_a_and_b), "unknown-access"),
        ("silent steps beside one that speaks", classifier >> Route("intent").eq("a", helper).otherwise(Pipeline("quiet", S.set(x=1)))),
        ("one structure of two", (Agent("x").returns(Intent).writes("a") | Agent("y").returns(Answer).writes("b")) >> _reads("a", "b").context(C.none())),
    )
]
