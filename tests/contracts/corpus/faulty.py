"""Pipelines with one fault each, and the finding that names it."""

# fmt: off
from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, cast

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from google.adk.events.event import Event
from google.adk.models.google_llm import Gemini
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.google_search_tool import google_search
from google.adk.tools.url_context_tool import url_context
from google.genai.types import GenerateContentConfig
from pydantic import BaseModel

from adk_fluent import (
    A,
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
    loop_until,
    map_over,
    race,
    tap,
    transfer,
)
from adk_fluent.adopt import adopt
from adk_fluent.config import ExecutionConfig
from adk_fluent.content import Modality
from adk_fluent.cost import ModelCandidate
from adk_fluent.di import Resource
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AgentNode, FallbackNode, Match, RaceNode, SequenceNode
from adk_fluent.middleware import token_budget, tool_approval
from tests.contracts.corpus.cases import (
    Answer,
    Billing,
    Desk,
    Fault,
    Intent,
    Mood,
    Query,
    Score,
    Shop,
    Ticket,
    approved,
    by_template,
    count_pieces,
    count_words,
    create_ticket,
    forget_draft,
    get_news,
    get_weather,
    good_enough,
    is_large,
    is_urgent,
    load_or_leave,
    load_tickets,
    look_up,
    note_all,
    note_topic_at_times,
    show_draft,
    take_index,
)

FAULTY: list[Fault] = []

classifier = Agent("classifier").instruct("Classify.").writes("intent")
writer = Agent("writer").instruct("Write.").writes("draft")
helper = Agent("helper").instruct("Help.")
reader = Agent("reader")
cheap = ModelCandidate("gemini-2.5-flash", 0.15, 0.60, quality_tier=1)
unpriced = ModelCandidate("house-model")
NOT_RESUMABLE = ExecutionConfig(resumable=False)


class Words(BaseModel):
    answer: int


_TOPIC = "topic"
_UNNAMED: Callable[[str], str] = lambda city: city  # noqa: E731  # the point of it
_OTHER: Callable[[str], str] = lambda town: town  # noqa: E731  # likewise


def _bare(city: str) -> str:
    return city


def _untyped(city, zone: str, tool_context: object) -> str:  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]  # the point of it
    """Look at a city."""
    return zone


def _named(name: str) -> Callable[[str], str]:
    """A tool of this name."""

    def tool(city: str) -> str:
        return city

    tool.__name__ = name
    return tool


def _reads(key: str, name: str = "reader") -> Agent[str]:
    return Agent(name).instruct(f"Use {{{key}}}.")


def _add(
    severity: Any, code: str, name: str, expression: Expr[Any], agent: str, key: Any = None, **more: Any
) -> None:
    FAULTY.append(
        Fault(name=name, expression=expression, code=code, agent=agent, key=key, severity=severity, **more)
    )


# --- never written --------------------------------------------------------------------------------

VAR, ROUTE, READ = "unresolved-template-var", "route-missing-key", "read-before-write"

for what, expression, agent, key in (
    ("nobody writes it", _reads("topic"), "reader", "topic"),
    ("misspelt", writer >> _reads("drat"), "reader", "drat"),
    ("wrong case", writer >> _reads("Draft"), "reader", "Draft"),
    ("singular for plural", Agent("a").writes("results") >> _reads("result"), "reader", "result"),
    ("written later", _reads("draft") >> writer, "reader", "draft"),
    ("written by itself only", _reads("notes").writes("notes"), "reader", "notes"),
    ("dropped before", writer >> S.drop("draft") >> _reads("draft"), "reader", "draft"),
    ("not picked", S.set(a=1, b=2) >> S.pick("a") >> _reads("b"), "reader", "b"),
    ("renamed away", writer >> S.rename(draft="text") >> _reads("draft"), "reader", "draft"),
    ("map item after the map", Pipeline(load_tickets) >> map_over("tickets", helper) >> _reads("_item"), "reader", "_item"),
    ("loser of names", classifier >> S.rename(intent="kind") >> _reads("intent"), "reader", "intent"),
    ("in one branch of a route", classifier >> Route("intent").eq("a", _reads("x")).otherwise(helper), "reader", "x"),
    ("in a parallel branch", helper | _reads("x"), "reader", "x"),
    ("in a fallback", _reads("x") // helper, "reader", "x"),
    ("in a race", race(helper, _reads("x")), "reader", "x"),
    ("in a loop", Loop(helper, _reads("x"), max_iterations=2), "reader", "x"),
    ("in a map", Pipeline(load_tickets) >> map_over("tickets", _reads("x")), "reader", "x"),
    ("under a timeout", _reads("x").timeout(3), "reader", "x"),
    ("behind proceed_if", classifier >> _reads("x").proceed_if(is_urgent), "reader", "x"),
    ("a sub-agent", Agent("c").delegate(helper, _reads("x")), "reader", "x"),
    ("a coordinator", _reads("x", "boss").delegate(helper), "boss", "x"),
    ("a fallback of a remote", RemoteAgent("r", endpoint="http://127.0.0.1:1", fallback=_reads("x")), "reader", "x"),
    ("global instruction", Agent("reader").global_instruct("For {tenant}."), "reader", "tenant"),
    ("temp key nobody writes", _reads("temp:x"), "reader", "temp:x"),
    ("two braces", Agent("reader").instruct("Use {{x}}."), "reader", "x"),
    ("race of the losers' key", race(Agent("a"), Agent("b")) >> _reads("x"), "reader", "x"),
    ("produced but not written", Agent("a").produces(Answer) >> _reads("answer"), "reader", "answer"),
):
    _add("error", VAR, f"never: {what}", expression, agent, key)

for what, expression, agent, key in (
    ("route on nothing", Route("intent").eq("a", helper).otherwise(reader), "route", "intent"),
    ("route on a misspelt key", classifier >> Route("intnt").eq("a", helper).otherwise(reader), "route", "intnt"),
    ("route before the writer", Route("intent").eq("a", helper).otherwise(reader) >> classifier, "route", "intent"),
    ("route inside a loop", Loop(helper, Route("x").eq("a", reader).otherwise(writer), max_iterations=2), "route", "x"),
    ("named route", classifier >> Route("kind").eq("a", helper).otherwise(reader).named("choose"), "choose", "kind"),
    ("route on a dropped key", classifier >> S.drop("intent") >> Route("intent").eq("a", helper).otherwise(reader), "route", "intent"),
):
    _add("error", ROUTE, what, expression, agent, key)

for what, expression, agent, key in (
    ("map over nothing", map_over("items", helper), "map", "items"),
    ("map over a misspelt list", Pipeline(load_tickets) >> map_over("ticket", helper), "map", "ticket"),
    ("merge of a misspelt key", writer >> S.merge("draft", "note", into="all") >> _reads("all"), "merge", "note"),
    ("transform of nothing", S.transform("n", abs) >> helper, "transform", "n"),
    ("require of nothing", S.require("topic") >> helper, "require", "topic"),
    ("guard on nothing", S.guard(Match("ok", "truthy", True), "stop") >> helper, "guard", "ok"),
    ("log of nothing", S.log("typo") >> helper, "log", "typo"),
    ("flatten of nothing", S.flatten("user") >> helper, "flatten", "user"),
    ("accumulate nothing", S.accumulate("x", into="all") >> _reads("all?"), "accumulate", "x"),
    ("branch on nothing", S.branch("kind", a=S.set(x=1)) >> helper, "branch", "kind"),
    ("zip of one list only", S.set(a=[1]) >> S.zip("a", "b", into="rows") >> _reads("rows"), "zip", "b"),
    ("declared function", helper >> count_words, "count_words", "draft"),
    ("declared tap", helper >> tap(show_draft), "show_draft", "draft"),
    ("gate", gate(is_large) >> helper, "gate", "amount"),
    ("condition of a transfer", transfer("helper", condition=is_urgent) >> reader >> helper, "to_helper", "intent"),
    ("proceed_if", helper.proceed_if(is_urgent), "route", "intent"),
    ("remote that reads nothing", RemoteAgent("r", endpoint="http://127.0.0.1:1").reads("order"), "r", "order"),
    ("validate", S.validate(Query) >> helper, "validate", "query"),
    ("selector's condition", Agent("a").model_select("cost_optimized", candidates=[cheap.replace(condition=is_urgent)]), "a", "intent"),
):
    _add("error", READ, f"never: {what}", expression, agent, key)

# --- perhaps not written --------------------------------------------------------------------------

_ROUTED = classifier >> Route("intent").eq("a", writer).otherwise(helper)

for what, expression, agent, key in (
    ("on one branch only", _ROUTED >> _reads("draft"), "reader", "draft"),
    ("without otherwise", classifier >> Route("intent").eq("a", writer) >> _reads("draft"), "reader", "draft"),
    ("behind proceed_if", classifier >> writer.proceed_if(is_urgent) >> _reads("draft"), "reader", "draft"),
    ("in the first attempt", (writer // helper) >> _reads("draft"), "reader", "draft"),
    ("in the second attempt", (helper // writer) >> _reads("draft"), "reader", "draft"),
    ("by one racer", race(writer, helper) >> _reads("draft"), "reader", "draft"),
    ("inside a map", Pipeline(load_tickets) >> map_over("tickets", writer) >> _reads("draft"), "reader", "draft"),
    ("by a sibling", writer | _reads("draft"), "reader", "draft"),
    ("by a sibling, deeper", FanOut(helper >> writer, helper.named("h2") >> _reads("draft")), "reader", "draft"),
    ("dropped by a sibling", writer >> FanOut(S.drop("draft") >> helper, _reads("draft")), "reader", "draft"),
    ("by a tool", Agent("a").tool(create_ticket) >> _reads("ticket_id"), "reader", "ticket_id"),
    ("later in the loop", Loop(_reads("draft"), writer, max_iterations=3), "reader", "draft"),
    ("at the end of an inner loop", Loop(Loop(_reads("draft"), helper, max_iterations=2), writer, max_iterations=2), "reader", "draft"),
    ("dropped at the end of a round", writer >> Loop(_reads("draft"), S.drop("draft"), max_iterations=2), "reader", "draft"),
    ("by a coordinator that may hand over", Agent("c").delegate(helper).writes("x") >> _reads("x"), "reader", "x"),
    ("by one sub-agent", Agent("c").delegate(writer, helper) >> _reads("draft"), "reader", "draft"),
    ("skipped by a transfer", S.set(intent="a") >> Pipeline("inner", transfer("late", condition=is_urgent), writer) >> _reads("draft") >> Agent("late"), "reader", "draft"),
    ("conditionally", classifier >> S.when(is_urgent, S.set(x=1)) >> _reads("x"), "reader", "x"),
    ("by a case of S.branch", classifier >> S.branch("intent", a=S.set(x=1), b=S.set(y=1)) >> _reads("x"), "reader", "x"),
    ("renamed if it was there", _ROUTED >> S.rename(draft="text") >> _reads("text"), "reader", "text"),
    ("nested routes", classifier >> Route("intent").eq("a", Route("intent").contains("b", writer).otherwise(helper)).otherwise(writer.named("w2")) >> _reads("draft"), "reader", "draft"),
    ("first to complete", FanOut(writer, helper, merge="first_complete") >> _reads("draft"), "reader", "draft"),
    ("by the fallback of a remote", RemoteAgent("r", endpoint="http://127.0.0.1:1", fallback=writer) >> _reads("draft"), "reader", "draft"),
    ("by the remote, not its fallback", RemoteAgent("r", endpoint="http://127.0.0.1:1", fallback=helper).writes("x") >> _reads("x"), "reader", "x"),
    ("flattened if a dict", writer >> S.flatten("draft") >> _reads("draft"), "reader", "draft"),
):
    _add("warn", VAR, f"may: {what}", expression, agent, key)

for what, expression, agent, key in (
    ("route on a key of one branch", classifier >> Route("intent").eq("a", Agent("s").writes("score")).otherwise(helper) >> Route("score").gt(1, reader).otherwise(writer), "route_2", "score"),
    ("route in the first round", Loop(Route("score").gt(1, helper).otherwise(reader), Agent("s").writes("score"), max_iterations=3), "route", "score"),
    ("route on a sibling's key", FanOut(classifier, Route("intent").eq("a", helper).otherwise(reader)), "route", "intent"),
):
    _add("warn", ROUTE, what, expression, agent, key)

for what, expression, agent, key in (
    ("map over a list of one branch", classifier >> Route("intent").eq("a", Pipeline(load_tickets)).otherwise(helper) >> map_over("tickets", reader), "map", "tickets"),
    ("function after one branch", _ROUTED >> count_words, "count_words", "draft"),
    ("transform after one branch", _ROUTED >> S.transform("draft", str.strip) >> reader, "transform", "draft"),
    ("gate on a tool's key", Agent("a").tool(create_ticket) >> gate(is_large) >> helper, "gate", "amount"),
):
    _add("error" if what.startswith("gate") else "warn", READ, what, expression, agent, key)

for what, expression, agent, key in (
    ("rename of nothing", S.rename(a="b") >> helper, "rename", "a"),
    ("pick of nothing", writer >> S.pick("drafts") >> helper, "pick", "drafts"),
    ("drop of nothing", writer >> S.drop("drafts") >> _reads("draft"), "drop", "drafts"),
    ("drop of what is gone", writer >> S.drop("draft") >> S.drop("draft") >> helper, "drop_2", "draft"),
):
    _add("warn", READ, f"never, and the run goes on: {what}", expression, agent, key)

_add(
    "warn",
    VAR,
    "may: a field that may be null",
    Agent("a").writes(Desk.intent, Desk.tags) >> _reads("tags"),
    "reader",
    "tags",
)

# --- scopes and types -----------------------------------------------------------------------------

for what, expression, agent, key in (
    ("user read, session written", Agent("a").writes("tier") >> _reads("user:tier"), "reader", "user:tier"),
    ("session read, user written", Agent("a").writes("user:tier") >> _reads("tier"), "reader", "tier"),
    ("temp read, session written", Agent("a").writes("x") >> _reads("temp:x"), "reader", "temp:x"),
    ("session read, temp written", Agent("a").writes("temp:x") >> _reads("x"), "reader", "x"),
    ("app read, user written", Agent("a").writes("user:x") >> _reads("app:x"), "reader", "app:x"),
    ("route in the wrong scope", Agent("a").writes("user:plan") >> Route("plan").eq("a", helper).otherwise(reader), "route", "plan"),
):
    _add("error", "scope-mismatch", what, expression, agent, key)

for what, expression, agent, key in (
    ("map over text", writer >> map_over("draft", helper), "map", "draft"),
    ("route on a structure", Agent("a").returns(Intent).writes("intent") >> Route("intent").eq("x", helper).otherwise(reader), "route", "intent"),
    ("a flag against text", Agent("a").writes("score") >> Route("score").eq(True, helper).otherwise(reader), "route", "score"),
    ("text as a bound of a number", S.set(n=3) >> Route("n").gt("5", helper).otherwise(reader), "route", "n"),
    ("text as a bound of a typed number", Agent("a").writes(Billing.confidence) >> Route("confidence").lte("0.5", helper).otherwise(reader), "route", "confidence"),
    ("text as a bound, every round", Loop(S.counter("n"), Route("n").gt("2", helper).otherwise(reader), max_iterations=2), "route", "n"),
    ("a number against a list", Agent("a").writes(Shop.items) >> Route("items").eq(3, helper).otherwise(reader), "route", "items"),
    ("none of a few", Agent("a").writes(Desk.intent) >> Route(Desk.intent).eq("refnd", helper).otherwise(reader), "route", "intent"),
    ("none of a few, by another test", Agent("a").writes(Desk.intent) >> Route("intent").contains("book", helper).otherwise(reader), "route", "intent"),
    ("a member of an enum", Agent("a").writes(Desk.mood) >> Route("mood").eq(Mood.GOOD, helper).otherwise(reader), "route", "mood"),
    ("none of an enum", Agent("a").writes(Desk.mood) >> Route("mood").eq("goood", helper).otherwise(reader), "route", "mood"),
    ("none of the field that a route names", classifier >> Route(Desk.intent).eq("refnd", helper).otherwise(reader), "route", "intent"),
    ("none of a bound field", (classifier >> Route("intent").eq("refnd", helper).otherwise(reader)).schema(Desk), "route", "intent"),
    ("text in place of a flag", Agent("a").writes(Desk.urgent) >> Route("urgent").eq("true", helper).otherwise(reader), "route", "urgent"),
    ("map over a flag", Agent("a").writes(Desk.urgent) >> map_over("urgent", helper), "map", "urgent"),
    ("a word in a number", Agent("a").writes(Billing.confidence) >> Route("confidence").contains("high", helper).otherwise(reader), "route", "confidence"),
    ("text against a number", S.set(n=3) >> Route("n").eq("3", helper).otherwise(reader), "route", "n"),
    ("bound on a structure", Agent("a").returns(Score).writes("s") >> Route("s").gt(3, helper).otherwise(reader), "route", "s"),
    ("bound on a list", Pipeline(load_tickets) >> S.zip("tickets", into="rows") >> Route("rows").gt(3, helper).otherwise(reader), "route", "rows"),
    ("map over a number", S.counter("n") >> map_over("n", helper), "map", "n"),
    ("produced text, consumed number", Agent("a").produces(Answer) >> Agent("b").consumes(Words), "b", "answer"),
):
    _add("error", "type-mismatch", what, expression, agent, key)

_add("warn", "type-mismatch", "a digit in a number", Agent("a").writes(Billing.confidence) >> Route("confidence").contains("0.9", helper).otherwise(reader), "route", "confidence")

for what, expression, agent, key in (
    ("set to none of a few", (S.set(intent="refnd") >> _reads("intent")).schema(Desk), "set", "intent"),
    ("a text for a list", (Agent("a").writes("tags") >> _reads("tags")).schema(Desk), "a", "tags"),
    ("a list for a text", (S.set(intent=["refund"]) >> _reads("intent")).schema(Desk), "set", "intent"),
):
    _add("error", "type-mismatch", what, expression, agent, key)

_add(
    "error",
    "unmet-consumes",
    "consumes what nobody produces",
    Agent("a").produces(Intent) >> Agent("b").consumes(Query),
    "b",
    "query",
)
_add(
    "error",
    "unmet-consumes",
    "consumes before it is produced",
    Agent("a").produces(Intent) >> Agent("b").consumes(Query) >> Agent("c").produces(Query),
    "b",
    "query",
)

# --- conversation ---------------------------------------------------------------------------------

for what, expression, agent, key in (
    ("text in both channels", classifier >> _reads("intent", "booker"), "booker", "intent"),
    ("in a loop", Loop(writer, _reads("draft", "critic"), max_iterations=2), "critic", "draft"),
    ("after a rename", classifier >> S.rename(intent="kind") >> _reads("kind", "booker"), "booker", "kind"),
    ("after a fan-out", (writer | helper) >> _reads("draft"), "reader", "draft"),
    ("on a branch", classifier >> Route("intent").eq("a", _reads("intent", "booker")).otherwise(helper), "booker", "intent"),
):
    _add("info", "channel-duplication", what, expression, agent, key)

for what, expression, agent in (
    ("none", helper >> reader.context(C.none()), "reader"),
    ("reads", helper >> reader.reads("intent"), "reader"),
    ("from state", helper >> reader.context(C.from_state("intent") | C.truncate(max_turns=1)), "reader"),
    ("template", helper >> reader.context(C.template("{intent}")), "reader"),
    ("none, though seen later", helper >> reader.context(C.none()) >> Agent("last"), "reader"),
    ("both branches", (helper | Agent("h2").writes("x")) >> reader.context(C.none()).instruct("{x}"), "reader"),
    ("on a branch", Route("intent").eq("a", helper >> reader.context(C.none())).otherwise(writer), "reader"),
    ("in a loop", Loop(helper, reader.context(C.none()), max_iterations=1), "reader"),
    ("only the user, and nobody later", helper >> reader.context(C.user_only()), "reader"),
    ("excluded for good", helper >> reader.context(C.exclude_agents("helper")), "reader"),
    ("excluded, and not last later", Agent("h2") >> helper.context(C.exclude_agents("h2")) >> Agent("last").include_contents("none"), "helper"),
    ("one of two is last", (helper | Agent("h2")) >> reader.include_contents("none"), "reader"),
    ("only others", writer >> helper >> reader.context(C.from_agents("writer")), "reader"),
    ("another branch of the conversation", (Agent("x") | Agent("y").writes("y")) >> (Agent("p").writes("p") | Agent("q").writes("q")) >> reader.context(C.none()).instruct("{y} {p} {q}"), "p"),
):
    _add("warn", "data-loss", what, expression, agent, state={"intent": "x"})

for what, expression, agent in (
    ("from a misspelt agent", helper >> reader.context(C.from_agents("helper", "reviwer")), "reader"),
    ("excluding a misspelt agent", helper >> reader.context(C.exclude_agents("helpr")), "reader"),
    ("from an agent of another pipeline", helper >> reader.context(C.from_agents("helper") + C.from_agents("elsewhere")), "reader"),
):
    _add("warn", "unknown-agent", what, expression, agent)

_add("error", "unknown-agent", "transfer to a misspelt agent", classifier >> transfer("helpr", condition=is_urgent) >> helper, "to_helpr")

for what, expression, agent in (
    ("window", C.window(3), "reader"),
    ("from agents", C.from_agents("p"), "reader"),
    ("last turns, truncated", C.last_n_turns(2) | C.truncate(max_turns=1), "reader"),
):
    _add("warn", "modality-loss", what, Agent("p").produces_modality(Modality.IMAGE) >> reader.context(expression), agent)
_add("warn", "modality-loss", "audio to one that takes it", Agent("p").produces_modality(Modality.AUDIO) >> reader.accepts(Modality.AUDIO).context(C.window(2)), "reader")

for what, expression, agent, key in (
    ("reads a misspelt key", classifier >> reader.reads("intnt", keep_history=True), "reader", "intnt"),
    ("template of a spec", classifier >> reader.context(C.default() + C.template("{intnt}")), "reader", "intnt"),
    ("prompt from state", classifier >> reader.instruct(P.task("x") + P.from_state("intnt")), "reader", "intnt"),
    ("a field nobody writes", classifier >> reader.reads(Billing.ticket_id, keep_history=True), "reader", "ticket_id"),
):
    _add("error", READ, f"never: {what}", expression, agent, key)
_add("error", VAR, "in a prompt", classifier >> reader.instruct(P.role("R") + P.task("Use {intnt}")), "reader", "intnt")
_add("warn", READ, "a field on one branch", classifier >> Route("intent").eq("a", Agent("t").writes(Billing.ticket_id)).otherwise(helper) >> reader.reads(Billing.ticket_id, keep_history=True), "reader", "ticket_id")

# --- schemas --------------------------------------------------------------------------------------

for what, expression, agent, key in (
    ("undeclared key", (Agent("a").writes("reply") >> _reads("reply")).schema(Billing), "a", "reply"),
    ("misspelt key", (Agent("a").writes("intnt") >> _reads("intnt")).schema(Billing), "a", "intnt"),
    ("undeclared transform", (S.set(total=1) >> _reads("total")).schema(Billing), "set", "total"),
    ("undeclared in an inner step", classifier >> (Agent("a").writes("reply") >> _reads("reply")).schema(Billing), "a", "reply"),
):
    _add("error", "schema-violation", what, expression, agent, key)
_add("error", "schema-violation", "schema given to the check", Agent("a").writes("reply") >> _reads("reply"), "a", "reply", schema=Billing)

for what, expression, agent, key in (
    ("text for a number", (Agent("a").writes("confidence") >> _reads("confidence")).schema(Billing), "a", "confidence"),
    ("text set for a number", (S.set(confidence="high") >> _reads("confidence")).schema(Billing), "set", "confidence"),
    ("number set for text", (S.set(intent=3) >> _reads("intent")).schema(Billing), "set", "intent"),
    ("text read as a number", Agent("a").writes("confidence") >> reader.reads(Billing.confidence), "reader", "confidence"),
    ("two schemas, two types", Agent("a").writes(Shop.confidence) >> reader.reads(Billing.confidence), "reader", "confidence"),
):
    _add("error", "type-mismatch", what, expression, agent, key)

for what, expression, agent, key in (
    ("session key for a user field", (Agent("a").writes("tier") >> helper).schema(Billing), "a", "tier"),
    ("field in the wrong scope read", (Agent("a").writes(Billing.tier) >> _reads("tier")).schema(Billing), "reader", "tier"),
):
    _add("error", "scope-mismatch", what, expression, agent, key)

# --- placeholders, tools, maps, writes in vain ------------------------------------------------------

LITERAL, _TICKETS = "literal-placeholder", Pipeline(load_tickets)
_ticket = Agent("a").returns(Ticket).writes("ticket")
for what, expression, agent, key in (
    ("a part of an answer", _ticket >> _reads("ticket.team"), "reader", "ticket"),
    ("an optional part", _ticket >> _reads("ticket.team?"), "reader", "ticket"),
    ("a part by its key", _ticket >> _reads('ticket["team"]'), "reader", "ticket"),
    ("a part of a user key", _reads("user:profile.name"), "reader", "user:profile"),
    ("a part of an item", _TICKETS >> map_over("tickets", _reads("_item.title")), "reader", "_item"),
    ("a part in a context", _ticket >> reader.context(C.default() + C.template("{ticket.team}")), "reader", "ticket"),
    ("a part in a prompt", _ticket >> reader.instruct(P.task("Use {ticket.team}")), "reader", "ticket"),
    ("a part in a conditional prompt", _ticket >> reader.instruct(P.when("ticket", P.task("{ticket.team}"))), "reader", "ticket"),
    ("a format", S.counter("n") >> _reads("n:.2f"), "reader", "n"),
    ("a conversion", S.counter("n") >> _reads("n!r"), "reader", "n"),
    ("a misspelt scope", _reads("usr:x"), "reader", "user:x"),
    ("a scope with a capital", _reads("Temp:x"), "reader", "temp:x"),
    ("a scope that has no prefix", classifier >> _reads("session:intent"), "reader", "intent"),
    ("a scope of nothing", Agent("a").writes("app:x") >> _reads("global:x"), "reader", "app:x"),
    ("a key as a scope", classifier >> _reads("classifier:intent"), "reader", "intent"),
):
    _add("warn", LITERAL, what, expression, agent, key)
_add("info", LITERAL, "words", _reads("my key"), "reader")
_add("info", LITERAL, "several words", Agent("reader").instruct("{first name}, {last-name}: {a.b}"), "reader")

_add("error", "duplicate-tool", "one function twice", Agent("a").tools(get_weather, get_news, get_weather), "a")
_add("error", "duplicate-tool", "two of one name", Agent("a").tools(get_weather, _named("get_weather")), "a")
_add("error", "duplicate-tool", "one to confirm", Agent("a").tool(get_news).tool(get_news, require_confirmation=True), "a")
_add("error", "duplicate-tool", "two partials", Agent("a").tools(partial(get_news, "x"), partial(get_weather, "y")), "a")
_add("error", "unknown-tool", "a slip", Agent("a").tools(get_weather).middleware(tool_approval(["get_wether"])), "a")
_add("error", "unknown-tool", "of a pipeline", Pipeline(Agent("b"), Agent("c"), name="both").middleware(tool_approval(["get_news"])), "both")
_add("error", "missing-resource", "a tool", Agent("a").tools(get_weather, look_up).inject(indx=1), "a")
_add("error", "missing-resource", "a tool of T", Agent("a").tools(T.retry(T.fn(look_up))), "a")
_add("error", "missing-resource", "inside a tool", Agent("boss").tools(T.agent((Agent("a") >> cast(Any, take_index)).named("both"))), "take_index")
_add("error", "shared-cache", "a session's resource", Agent("a").tools(T.cache(look_up)).inject(index=Resource(dict, scope="session")), "a")
_add("error", "missing-resource", "a callback", Agent("a").before_agent(cast(Any, take_index)), "a")
_add("error", "missing-resource", "a step", Agent("a") >> cast(Any, take_index), "take_index")
_add("error", "missing-resource", "a test", Loop(Agent("a"), max_iterations=2).until(cast(Any, take_index)), "loop")
_add("error", "missing-resource", "an operation", S.when(cast(Any, take_index), S.set(x=1)) >> _reads("x?"), "when")
_add("info", "unused-resource", "a slip", Agent("a").tools(get_weather).inject(cty=1), "a")
_add("warn", "unnamed-tool", "a lambda", Agent("a").tool(_UNNAMED), "a")
_add("warn", "unnamed-tool", "several lambdas", Agent("a").tools(_UNNAMED, _OTHER), "a")
_add("warn", "formatted-key", "an f-string", Agent("a").writes("topic") >> Agent("b").instruct(f"Write a poem on {_TOPIC}, in four lines."), "b", "topic")
_add("warn", "formatted-key", "a field of a schema", Agent("a").writes("intent") >> Agent("b").instruct("Take care of " + str(Billing.intent) + " today."), "b", "intent")
_add("info", "no-instruction", "an agent", Agent("a") >> Agent("b").instruct("Go on."), "a")
_add("info", "no-instruction", "several", Agent("a") >> Agent("b") >> Agent("c"), "a")
_add("info", "undescribed-tool", "no docstring", Agent("a").instruct("Go.").tool(_bare), "a")
_add("info", "undescribed-tool", "no types", Agent("a").instruct("Go.").tools(T.retry(T.fn(cast(Any, _untyped)))), "a")

_caller = Agent("caller").tool(get_weather).writes("found")
for what, spec in (
    ("reads", C.from_state("found")),
    ("only the user", C.user_only()),
    ("without the caller", C.exclude_agents("caller")),
    ("only texts", C.project("text")),
    ("only texts of a window", C.window(2) | C.project("text", "files")),
):
    _add("info", "tool-history", what, _caller >> Agent("b").tool(get_news).context(spec).instruct("{found}"), "b")
_add("info", "tool-history", "none", _caller >> helper.tool(get_news).context(C.none()).instruct("{found}"), "helper")

_save, _load = A.save("cv.md", "text"), A.load("cv.md")
_add("error", "missing-artifact", "deleted", _save >> A.delete("cv.md") >> Agent("a").instruct("{artifact.cv.md}"), "a")
_add("error", "missing-artifact", "deleted for a gate", _save >> A.delete("cv.md") >> gate(Match("user:k", "eq", 1), message="{artifact.cv.md}?"), "gate")
for what, expression in (
    ("saved only later", _load >> _save >> _reads("cv")),
    ("saved on one branch", Route("user:k").eq("v", _save).otherwise(helper) >> _load >> _reads("cv")),
    ("saved in a branch beside", (_save | (_load >> _reads("cv")))),
    ("saved if a key is set", A.when("user:k", _save) >> _load >> _reads("cv")),
    ("saved once per item", _TICKETS >> map_over("tickets", _reads("_item", "per_item") >> _save) >> _load >> _reads("cv")),
    ("misspelt", A.save("vc.md", "text") >> _load >> _reads("cv")),
    ("of the user", A.save("cv.md", "text", scope="user") >> _load >> _reads("cv")),
):
    _add("warn", "missing-artifact", what, expression, "load")
_add("warn", "missing-artifact", "a misspelt picture", A.save("cat.md", "text") >> Agent("a").context(A.for_llm("cats.md")), "a")
_add("info", "missing-artifact", "of an earlier run", _load >> _reads("cv"), "load")
_add("info", "missing-artifact", "in an instruction", Agent("a").instruct("{artifact.cv.md} {artifact.old?}"), "a")
_add("warn", "parallel-writers", "one artifact", _save | A.save("cv.md", "other"), "save_2")

_add("info", "unread-item", "nothing is read", _TICKETS >> map_over("tickets", helper), "map", "_item")
_add("info", "unread-item", "the list is read", _TICKETS >> map_over("tickets", _reads("tickets")), "map", "_item")
_add("info", "unread-item", "another name", _TICKETS >> map_over("tickets", helper >> writer, item_key="ticket"), "map", "ticket")

for what, expression, agent, key in (
    ("by the next agent", Agent("a").writes("x") >> Agent("b").writes("x") >> _reads("x"), "a", "x"),
    ("and nobody ever reads it", Agent("a").writes("x") >> Agent("b").writes("x"), "a", "x"),
    ("by a transform", Agent("a").writes("x") >> S.set(x="y") >> _reads("x"), "a", "x"),
    ("a transform by an agent", S.set(x="y") >> writer >> Agent("a").writes("x") >> _reads("x"), "set", "x"),
    ("on every branch", Agent("a").writes("x") >> classifier >> Route("intent").eq("q", Agent("b").writes("x")).otherwise(Agent("c").writes("x")) >> _reads("x"), "a", "x"),
    ("within a branch", classifier >> Route("intent").eq("q", Agent("b").writes("x") >> Agent("c").writes("x")).otherwise(helper) >> Agent("end").instruct("{x?}"), "b", "x"),
    ("within a round", Loop(Agent("a").writes("x"), Agent("b").writes("x"), max_iterations=2) >> _reads("x"), "a", "x"),
    ("before a loop", Agent("a").writes("x") >> Loop(Agent("b").writes("x"), max_iterations=2) >> _reads("x"), "a", "x"),
    ("after a fan-out", (Agent("a").writes("x") | helper) >> Agent("b").writes("x") >> _reads("x"), "a", "x"),
    ("within a fan-out", Agent("a").writes("x") >> (Agent("b").writes("x") | helper) >> _reads("x"), "a", "x"),
    ("a map's answers", _TICKETS >> map_over("tickets", _reads("_item", "m")) >> Agent("b").writes("results") >> _reads("results"), "map", "results"),
    ("before a map", Agent("a").writes("results") >> _TICKETS >> map_over("tickets", _reads("_item", "m")) >> _reads("results"), "a", "results"),
    ("a capture", S.capture("x") >> Agent("b").writes("x") >> _reads("x"), "capture", "x"),
    ("what a tool may write", Agent("a").tool(create_ticket) >> S.set(ticket_id="x") >> _reads("ticket_id"), "a", "ticket_id"),
    ("of two that race", race(Agent("a").writes("x"), Agent("c").writes("x")) >> Agent("b").writes("x") >> _reads("x"), "c", "x"),
    ("of two attempts", (Agent("a").writes("x") // Agent("c").writes("x")) >> Agent("b").writes("x") >> _reads("x"), "a", "x"),
    ("though it is dropped", Agent("a").writes("x") >> S.drop("x") >> Agent("b").writes("x") >> _reads("x"), "a", "x"),
    ("a temporary key", Agent("a").writes("temp:x") >> Agent("b").writes("temp:x") >> _reads("temp:x"), "a", "temp:x"),
):
    _add("info", "overwritten", what, expression, agent, key)

# --- what cannot be compiled ------------------------------------------------------------------------

_add("error", "empty-composite", "a pipeline", Pipeline("empty"), "empty")
_add("error", "empty-composite", "a fan-out", helper >> FanOut("empty"), "empty")
_add("error", "empty-composite", "a loop in a branch", classifier >> Route("intent").eq("a", Loop("empty")).otherwise(helper), "empty")
_add("error", "empty-composite", "a route", classifier >> Route("intent"), "route")
_add("error", "empty-composite", "a fallback", Pipeline[Any].from_node(FallbackNode(name="f")), "f")
_add("error", "empty-composite", "a race", Pipeline[Any].from_node(RaceNode(name="r")), "r")
_add("error", "endless-transfer", "to what stands around it", Pipeline("p", helper, transfer("p")), "to_p")
_add("error", "invalid-name", "a blank", Pipeline[Any].from_node(AgentNode(name="not a name")), "not a name")
_add("error", "invalid-name", "the person's", Pipeline[Any].from_node(SequenceNode(name="user", children=(helper.node,))), "user")
_add("error", "invalid-option", "tools", Agent("a").generate_content_config(GenerateContentConfig(tools=[get_weather])), "a")
_add("error", "invalid-option", "system instruction", Agent("a").generate_content_config(GenerateContentConfig(system_instruction="Help.")), "a")
_add("error", "invalid-option", "response schema", Agent("a").generate_content_config(GenerateContentConfig(temperature=0, response_schema=Ticket)), "a")
_add("error", "invalid-option", "contents", Agent("a").include_contents(cast("Any", "some")), "a")
_add("error", "context-conflict", "none of all", Agent("a").include_contents("default").context(C.none()), "a")
_add("error", "context-conflict", "a window of all", helper >> Agent("a").context(C.window(2)).include_contents("default"), "a")
_add("error", "unsupported", "an agent tool that asks a person", Agent("desk").tools(T.agent(Pipeline("clerk", helper, gate(lambda state: True, message="Pay?")))), "desk")

# --- what plain projects get wrong ----------------------------------------------------------------

_billing, _refund = Agent("billing_agent").isolate(), Agent("refund_agent").isolate()
for what, text in (
    ("one letter missing", "For money transfer to billng_agent."),
    ("in backticks", "Use `refund_agnet` for refunds."),
    ("no such agent", "If a customer complains, hand the request over to the complaints_agent."),
    ("in a call", "Call transfer_to_agent(agent_name='billing_agents_desk')."),
):
    _add("warn", "misnamed-agent", what, Agent("boss").instruct(text).delegate(_billing, _refund), "boss")
_add("warn", "misnamed-agent", "an agent in a tool", Agent("boss").instruct("Ask serch_agent first.").tools(T.agent(Agent("search_agent").instruct("Search."))), "boss")
_add("warn", "misnamed-agent", "beside it", Agent("boss").delegate(Agent("a_desk").instruct("Else transfer to b_dek."), Agent("b_desk")), "a_desk")
for what, model, tools in (
    ("search and Claude", "claude-sonnet-4-5", T.google_search()),
    ("pages and LiteLLM", Gemini(model="openai/gpt-4o"), url_context),
    ("search of ADK's and LiteLLM", Gemini(model="anthropic/claude-3-haiku"), google_search),
):
    _add("error", "gemini-tool", what, Agent("a", cast("Any", model)).tools(tools), "a")
_add("error", "gemini-tool", "code execution", Agent("a", "openai/gpt-4o").code_executor(BuiltInCodeExecutor()), "a")
_add("error", "gemini-tool", "the model of the agent above", Agent("boss", "claude-sonnet-4-5").delegate(Agent("a").tools(T.google_search()).isolate()), "a")
_add("error", "gemini-tool", "in an agent that a tool runs", Agent("boss", "gemini-2.5-flash").tools(T.agent(Agent("a", "openai/gpt-4o").tools(T.google_search()))), "a")
_searcher = Agent("a", "gemini-2.5-flash").instruct("Search.").tools(T.google_search())
_reader = Agent("a", "gemini-2.5-flash").instruct("Read.").tools(url_context)
for what, severity, expression in (
    ("search beside sub-agents", "error", _searcher.delegate(helper)),
    ("search beside sub-agents and a function", "error", _searcher.tool(get_weather).delegate(helper)),
    ("search and a model of unknown version", "error", Agent("a", "gemini-flash-latest").tools(google_search).delegate(helper)),
    ("search beside a function", "warn", _searcher.tool(get_weather)),
    ("search beside the tool for a typed answer", "warn", _searcher.returns(Ticket)),
    ("search in a sub-agent", "warn", Agent("boss").instruct("Help.").delegate(_searcher)),
    ("pages beside sub-agents", "warn", _reader.delegate(helper)),
    ("code execution beside a function", "warn", Agent("a", "gemini-2.5-flash").tool(get_weather).code_executor(BuiltInCodeExecutor())),
):
    _add(severity, "tool-combination", what, expression, "a")
_add("error", "tool-combination", "in an agent that a tool runs", Agent("boss").tools(T.agent(_searcher.delegate(helper))), "a")


class Story(BaseAgent):
    """A project's own class, whose code decides which of its agents run."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


def _story(*agents: BaseAgent) -> Expr[Any]:
    return adopt(Story(name="story", sub_agents=list(agents)))


_native_searcher = LlmAgent(name="a", model="openai/gpt-4o", instruction="Search.", tools=[google_search])
_asked = LlmAgent(name="asked", instruction="Use {topic}.")
_add("error", "read-before-write", "an agent in a tool of ADK's", adopt(LlmAgent(name="a", instruction="Ask.", tools=[AgentTool(_asked)])), "a", "topic")
_add("warn", "gemini-tool", "in a class of the user's", _story(_native_searcher), "a")
_add("warn", "duplicate-tool", "in a class of the user's", _story(LlmAgent(name="a", instruction="Help.", tools=[get_weather, get_weather])), "a")
_add("info", "literal-placeholder", "in a class of the user's", _story(LlmAgent(name="a", instruction="Use {ticket.team}.")), "a")
_add("warn", "misnamed-agent", "in a class in a class of the user's", _story(Story(name="inner", sub_agents=[LlmAgent(name="a", instruction="Transfer to b_dek.", sub_agents=[LlmAgent(name="b_desk", instruction="Help.")])])), "a")


for what, expression in (
    ("a delegate in text", Agent("boss").returns(Ticket).delegate(helper)),
    ("a delegate of another type", helper >> Agent("boss").returns(Ticket).delegate(Agent("kid").returns(Query))),
):
    _add("warn", "type-mismatch", what, expression, "boss")

# --- structure ------------------------------------------------------------------------------------

_add(
    "error",
    "duplicate-name",
    "two different agents",
    Agent("a").instruct("x") >> Agent("a").instruct("y"),
    "a",
)
_add("error", "duplicate-name", "in two branches", Agent("a").instruct("x") | Agent("a").instruct("y"), "a")
_add("error", "duplicate-name", "agent and pipeline", Pipeline("a", helper) >> Agent("a"), "a")

loops: Expr[Any] = helper
limits: Expr[Any] = helper
for _ in range(60):
    loops, limits = Loop(loops), limits.timeout(9)
_add("error", "nested-too-deep", "loops", loops, "loop")
_add("error", "nested-too-deep", "time limits", limits, "timeout")

for what, expression, agent, key in (
    ("the same test twice", classifier >> Route("intent").eq("a", helper).eq("a", reader).otherwise(writer), "reader", "intent"),
    ("a bound inside another", Agent("s").writes("n") >> Route("n").gt(3, helper).gt(5, reader).otherwise(writer), "reader", "n"),
    ("an upper bound inside another", Agent("s").writes("n") >> Route("n").lt(5, helper).lte(3, reader).otherwise(writer), "reader", "n"),
    ("eq after contains", classifier >> Route("intent").contains("book", helper).eq("booking", reader).otherwise(writer), "reader", "intent"),
    ("text that contains more", classifier >> Route("intent").contains("book", helper).contains("booking", reader).otherwise(writer), "reader", "intent"),
    ("text that contains what another test refuses", classifier >> Route("intent").ne("a", helper).contains("book", reader).otherwise(writer), "reader", "intent"),
    ("otherwise after eq and ne", classifier >> Route("intent").eq("a", helper).ne("a", reader).otherwise(writer), "writer", "intent"),
    ("after an unconditional transfer", transfer("helper") >> reader >> helper, "reader", None),
    ("rest of a loop's round", Loop(writer, transfer("writer"), reader, max_iterations=2), "reader", None),
):
    _add("warn", "unreachable-branch", what, expression, agent, key)

for what, expression, agent, key in (
    ("two agents", Agent("a").writes("x") | Agent("b").writes("x"), "b", "x"),
    ("deeper", FanOut(helper >> writer, Agent("b").writes("draft")), "b", "draft"),
    ("a transform", FanOut(S.set(x=1) >> helper, Agent("b").writes("x")), "b", "x"),
    ("the third branch", FanOut(Agent("a").writes("x"), helper, Agent("c").writes("x")), "c", "x"),
):
    _add("warn", "parallel-writers", what, expression, agent, key)

for what, expression, agent, key in (
    ("until of another key", writer >> loop_until(approved, helper), "loop", "approved"),
    ("until of a misspelt key", loop_until(good_enough, Agent("s").writes("socre")), "loop", "score"),
    ("only before the loop", S.set(score=0) >> loop_until(good_enough, helper), "loop", "score"),
):
    _add("warn", "loop-runs-to-limit", what, expression, agent, key)

_add(
    "error",
    "not-resumable",
    "gate",
    S.set(amount=1) >> gate(is_large) >> helper,
    "gate",
    config=NOT_RESUMABLE,
)
_add(
    "error",
    "not-resumable",
    "confirmation",
    Agent("a").tool(create_ticket, require_confirmation=True),
    "a",
    config=NOT_RESUMABLE,
)
_add(
    "info",
    "route-without-otherwise",
    "two cases",
    classifier >> Route("intent").eq("a", helper).eq("b", reader),
    "route",
    "intent",
)
_add("info", "route-without-otherwise", "dict", classifier >> {"x": helper, "y": reader}, "route", "intent")
_add("info", "dead-state", "never read", Agent("a").writes("notes") >> helper, "a", "notes")
_add("info", "dead-state", "set and forgotten", S.set(x=1) >> helper, "set", "x")
_add(
    "info",
    "unknown-access",
    "a plain function",
    Pipeline(lambda state: dict(state)) >> _reads("x"),
    "transform",
    "x",
)
_add("error", "read-before-write", "never: by a lambda", classifier >> helper.proceed_if(lambda s: s["urgent"]), "route", "urgent")
_add("warn", "loop-runs-to-limit", "a lambda with a default", Loop(writer, max_iterations=2).until(lambda s: s.get("score", 0) > 7), "loop", "score")
_add("warn", "unresolved-template-var", "may: a callback on one path", Agent("a").before_agent(note_topic_at_times).instruct("{topic}"), "a", "topic")
_add("warn", "unresolved-template-var", "may: a callback that swallows an error", Agent("a").before_agent(load_or_leave).instruct("{topic}"), "a", "topic")
_add("warn", "unresolved-template-var", "may: a key of a dict on one path", Agent("a").before_agent(note_all).instruct("{user}"), "a", "user")
_add("error", "unresolved-template-var", "never: removed by a callback", writer >> helper.before_agent(forget_draft) >> _reads("draft"), "reader", "draft")
_add("error", "read-before-write", "never: in the template of a function", classifier >> Agent("a").instruct(by_template), "a", "draft")
_add("warn", "unresolved-template-var", "may: a function on one path", writer >> Pipeline(lambda state: {"x": 1} if state["draft"] else {}) >> _reads("x"), "reader", "x")
_add("info", "unknown-access", "a predicate", classifier >> helper.proceed_if(lambda state: len(state) > 3), "route")

# --- declarations ---------------------------------------------------------------------------------

_add("warn", "streaming-model-conflict", "tokens into a model", helper.stream_to("token") >> reader, "helper")
_add(
    "warn",
    "streaming-model-conflict",
    "tokens of a pipeline",
    (writer >> helper).stream_to("token") >> reader,
    "helper",
)
_add(
    "warn",
    "streaming-model-conflict",
    "tokens into a fan-out",
    helper.stream_to("token") >> (reader | writer),
    "helper",
)
_add(
    "warn",
    "streaming-model-conflict",
    "tokens into a remote",
    helper.stream_to("token") >> RemoteAgent("r", endpoint="http://127.0.0.1:1"),
    "helper",
)
_add(
    "warn",
    "streaming-route-conflict",
    "tokens into a route",
    classifier.stream_to("token") >> Route("intent").eq("a", helper).otherwise(reader),
    "classifier",
)
_add(
    "warn",
    "streaming-route-conflict",
    "chunks into a route",
    classifier.stream_to("chunked", chunk_size=5) >> Route("intent").eq("a", helper).otherwise(reader),
    "classifier",
)

_add(
    "error",
    "streaming-source-missing",
    "pieces of a step that says nothing",
    S.set(n=1).stream_to("token") >> reader,
    "set",
)
_add(
    "error",
    "streaming-source-missing",
    "a function of pieces without an edge",
    helper >> count_pieces,
    "count_pieces",
)
_add(
    "info",
    "streaming-edge-waits",
    "chunks into a step without a model",
    writer.stream_to("chunked", chunk_size=5) >> S.transform("draft", str.upper),
    "writer",
)
_add(
    "info",
    "streaming-edge-waits",
    "chunks of one of several",
    (writer.stream_to("chunked", chunk_size=5) | helper) >> reader,
    "writer",
)
_add(
    "info",
    "streaming-edge-waits",
    "chunks of a loop",
    Loop(writer, max_iterations=2).stream_to("chunked", chunk_size=5) >> reader,
    "loop",
)

for what, first, second in (
    ("image into text", Modality.IMAGE, Modality.TEXT),
    ("audio into images", Modality.AUDIO, Modality.IMAGE),
    ("text into images", Modality.TEXT, Modality.IMAGE),
    ("video into PDF", Modality.VIDEO, Modality.PDF),
):
    _add(
        "warn",
        "modality-mismatch",
        what,
        Agent("p").produces_modality(first) >> Agent("t").accepts(second),
        "t",
    )
_add(
    "warn",
    "modality-mismatch",
    "after a fan-out",
    (Agent("p").produces_modality(Modality.IMAGE) | helper) >> Agent("t").accepts(Modality.TEXT),
    "t",
)

_add(
    "warn",
    "boundary-temp-key",
    "temp key across",
    Agent("a").writes("temp:x") >> _reads("temp:x").execution_boundary(),
    "reader",
    "temp:x",
)
_add(
    "warn",
    "boundary-temp-key",
    "read further on",
    Agent("a").writes("temp:x") >> helper.execution_boundary() >> _reads("temp:x"),
    "reader",
    "temp:x",
)
_add(
    "warn",
    "boundary-type",
    "a set across",
    S.set(seen={1, 2}) >> _reads("seen").execution_boundary(),
    "set",
    "seen",
)
_add(
    "warn",
    "boundary-uncuttable",
    "in a loop",
    Loop(helper >> Agent("heavy").execution_boundary(), max_iterations=2),
    "heavy",
)
_add(
    "warn",
    "boundary-uncuttable",
    "in a branch of a fan-out",
    helper | Agent("heavy").execution_boundary(),
    "heavy",
)
_add(
    "warn",
    "boundary-undeclared",
    "a function that does not say",
    helper >> S.compute(total=len).execution_boundary(),
    "compute",
)
_add(
    "warn",
    "remote-input-missing",
    "field not sent",
    classifier >> RemoteAgent("pay", endpoint="http://127.0.0.1:1", input_schema=Query).reads("intent"),
    "pay",
    "query",
)
_add(
    "warn",
    "remote-input-missing",
    "nothing sent",
    RemoteAgent("r", endpoint="http://127.0.0.1:1", input_schema=Query),
    "r",
    "query",
)
_add(
    "warn",
    "missing-budget",
    "budget without a key",
    Agent("a").model_select("budget_bounded", candidates=[cheap], fallback_model="m"),
    "a",
)
_add(
    "warn",
    "missing-budget",
    "budget nobody sets",
    Agent("a").model_select("budget_bounded", candidates=[cheap], budget_key="left", fallback_model="m"),
    "a",
    "left",
)
_add(
    "warn",
    "missing-budget",
    "budget misspelt",
    S.set(budget=1)
    >> Agent("a").model_select("budget_bounded", candidates=[cheap], budget_key="bugdet", fallback_model="m"),
    "a",
    "bugdet",
)
_add(
    "info",
    "budget-without-fallback",
    "no way out",
    S.set(left=1) >> Agent("a").model_select("budget_bounded", candidates=[cheap], budget_key="left"),
    "a",
    "left",
)
for what, chosen in (
    ("prices to choose by", Agent("a").model_select("cost_optimized", candidates=[cheap, unpriced])),
    ("a price to count by", Agent("a").model_select("quality_optimized", candidates=[unpriced], budget_key="user:left")),
):
    _add("error", "unknown-price", what, chosen, "a")
lengthy = Agent("lengthy").instruct("Write.").generate(max_output_tokens=5000)
for what, expression in (
    ("told too much", Agent("a").instruct("x" * 800).context(C.none()).accepts(max_input_tokens=100)),
    ("a long answer before", lengthy.writes("text") >> Agent("a").reads("text").accepts(max_input_tokens=3000)),
    ("a candidate too small", lengthy.writes("text") >> Agent("a").reads("text").model_select("cost_optimized", candidates=[cheap.replace(max_tokens=3000)])),
    ("a budget below the request", Agent("a").instruct("x" * 800).context(C.none()).middleware(token_budget(100))),
    ("a budget of a pipeline", Pipeline("p", Agent("a").instruct("x" * 800)).middleware(token_budget(100))),
    ("a limit no candidate has", Agent("a").accepts(max_input_tokens=9000).model_select("cost_optimized", candidates=[cheap.replace(max_tokens=3000)])),
):
    _add("warn", "token-limit", what, expression, "a")
_add("warn", "nobody-visible", "hidden alone", helper.hide(), "helper")
_add("warn", "nobody-visible", "all hidden", (writer >> helper).hide(), "helper")
_add(
    "info",
    "branch-not-visible",
    "one branch hidden",
    classifier >> Route("intent").eq("a", helper.hide()).otherwise(reader),
    "helper",
)
_add("info", "branch-not-visible", "the first attempt hidden", helper.hide() // reader, "helper")
_add("info", "branch-not-visible", "the last resort hidden", helper // reader.hide(), "reader")
_add(
    "warn", "placeholder-typo", "optional misspelt", writer >> Agent("r").instruct("{drafts?}"), "r", "drafts"
)
_add(
    "warn",
    "placeholder-typo",
    "hyphen for underscore",
    Agent("a").writes("user_name") >> Agent("r").instruct("Hi {user-name}"),
    "r",
    "user_name",
)
_add(
    "warn",
    "placeholder-typo",
    "space for underscore",
    Agent("a").writes("user_name") >> Agent("r").instruct("Hi {user name}"),
    "r",
    "user_name",
)

for what, body, agent, key in (
    ("counted in a map", S.counter("n"), "counter", "n"),
    ("collected in a map", S.accumulate("_item", into="all"), "accumulate", "all"),
    ("a history in a map", S.set(k="v") >> helper >> S.history("k"), "history", "k_history"),
    ("added up by a function in a map", S.fn(lambda s: {"t": s["t"] + 1}, reads=["t"], writes=["t"]), "fn", "t"),
    ("counted in a loop in a map", Loop(helper >> S.counter("n"), max_iterations=2), "counter", "n"),
):
    _add("warn", "parallel-writers", what, S.set(t=0) >> _TICKETS >> map_over("tickets", _reads("_item") >> body), agent, key)
