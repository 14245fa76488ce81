"""Pipelines without a fault, of all shapes: the checker may note things about them, but not warn."""

from __future__ import annotations

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
    gate,
    loop_until,
    map_over,
    race,
    tap,
    transfer,
    until,
)
from adk_fluent.config import ExecutionConfig
from adk_fluent.content import Modality
from adk_fluent.cost import ModelCandidate
from tests.contracts.corpus.cases import (
    Answer,
    Billing,
    Case,
    Intent,
    Query,
    Refund,
    Shop,
    approved,
    by_intent,
    count_words,
    create_ticket,
    get_weather,
    good_enough,
    is_large,
    is_urgent,
    load_profile,
    load_tickets,
    show_draft,
)

classifier = Agent("classifier").instruct("Classify.").writes("intent")
booker = Agent("booker").instruct("Book. Intent: {intent}")
helper = Agent("helper").instruct("Help.")
writer = Agent("writer").instruct("Write.").writes("draft")
critic = Agent("critic").instruct("Review: {draft}").writes("feedback")
web = Agent("web").instruct("Search the web.").writes("web_results")
docs = Agent("docs").instruct("Search the docs.").writes("doc_results")
cheap = ModelCandidate("gemini-2.5-flash", 0.15, 0.60, quality_tier=1)
good = ModelCandidate("gemini-2.5-pro", 1.25, 5.00, quality_tier=2)

_CASES = {
    # one agent
    "one agent": helper,
    "optional placeholder": Agent("a").instruct("Notes so far: {notes?}").writes("notes"),
    "braces that are no placeholder": Agent("a").instruct('Answer as JSON: {"name": "...", "age": 3}'),
    "escaped placeholder": Agent("a").instruct(r"Write \{name} in the letter."),
    "shell variable": Agent("a").instruct("Set ${HOME} first."),
    "artifact placeholder": Agent("a").instruct("Sum up {artifact.report} and {artifact.old?}"),
    "tool without state": Agent("a").tool(get_weather),
    "structured answer": Agent("a").instruct("Extract.") @ Answer,
    "accepts as a tool": Agent("a").accepts(Query).instruct("Search."),
    "user scope from earlier sessions": Agent("a").instruct("Tier: {user:tier}"),
    "app scope from elsewhere": Agent("a").instruct("Version {app:version}"),
    # sequences
    "data flows on": classifier >> booker,
    "conversation flows on": helper >> Agent("next"),
    "three in a row": writer >> critic >> Agent("editor").instruct("Edit {draft} by {feedback}"),
    "temp key": Agent("a").writes("temp:scratch") >> Agent("b").instruct("{temp:scratch}"),
    "user key written and read": Agent("a").writes("user:tier") >> Agent("b").instruct("{user:tier}"),
    "capture": S.capture("question") >> Agent("a").instruct("Answer {question}"),
    "set first": S.set(tone="dry") >> Agent("a").instruct("Be {tone}."),
    "named pipeline": Pipeline("etl")
    .step(Agent("extract").writes("rows"))
    .step(Agent("load").instruct("{rows}")),
    "declared function": writer >> count_words >> Agent("judge").instruct("{words} words"),
    "inline declaration": writer
    >> S.fn(lambda s: {"n": 1}, reads=["draft"], writes=["n"])
    >> Agent("b").instruct("{n}"),
    "tap that reads": writer >> tap(show_draft) >> Agent("b").instruct("{draft}"),
    "declared instruction": classifier >> Agent("a").instruct(by_intent),
    "callback that loads": Agent("a").before_agent(load_profile).instruct("Profile: {profile}"),
    "callback for a later one": Agent("a").after_agent(load_profile) >> Agent("b").instruct("{profile}"),
    "same agent twice": helper >> classifier >> helper,
    "timeout": writer.timeout(30) >> critic,
    # transforms
    "rename": classifier >> S.rename(intent="kind") >> Agent("b").instruct("{kind}"),
    "swap": S.set(a=1, b=2) >> S.rename(a="b", b="a") >> Agent("c").instruct("{a} {b}"),
    "pick keeps it": S.set(a=1, b=2) >> S.pick("a") >> Agent("c").instruct("{a}"),
    "drop another": S.set(a=1, b=2) >> S.drop("b") >> Agent("c").instruct("{a}"),
    "default then read": S.default(tone="dry") >> Agent("a").instruct("{tone}"),
    "compute": writer >> S.compute(upper=lambda s: s["draft"].upper()) >> Agent("b").instruct("{upper}"),
    "merge of two": (web | docs)
    >> S.merge("web_results", "doc_results", into="all")
    >> Agent("c").instruct("{all}"),
    "guard makes sure": S.require("topic") >> Agent("a").instruct("{topic}"),
    "when writes a default too": classifier
    >> S.set(urgent="no")
    >> S.when(is_urgent, S.set(urgent="yes"))
    >> Agent("b").instruct("{urgent}"),
    "counter starts at zero": S.counter("visits") >> Agent("a").instruct("Visit {visits}"),
    "accumulate": writer >> S.accumulate("draft", into="drafts") >> Agent("b").instruct("{drafts}"),
    "history": writer >> S.history("draft") >> Agent("b").instruct("{draft_history}"),
    "flatten": S.set(user={"name": "Ann"}) >> S.flatten("user") >> S.log("user.name") >> helper,
    "zip": S.set(a=[1], b=[2]) >> S.zip("a", "b", into="rows") >> Agent("c").instruct("{rows}"),
    "plus": S.set(a=1) + S.set(b=2) >> Agent("c").instruct("{a}{b}"),
    # routes
    "route on what was written": classifier >> Route("intent").eq("booking", booker).otherwise(helper),
    "dict route": classifier >> {"booking": booker, "help": helper},
    "written on all branches": classifier
    >> Route("intent").eq("a", Agent("a").writes("answer")).otherwise(Agent("b").writes("answer"))
    >> Agent("c").instruct("{answer}"),
    "eq and its opposite": classifier
    >> Route("intent").eq("a", Agent("a").writes("x")).ne("a", Agent("b").writes("x"))
    >> Agent("c").instruct("{x}"),
    "two bounds": Agent("s").writes("score")
    >> Route("score").gte(0.8, Agent("top")).gte(0.5, Agent("mid")).otherwise(Agent("low")),
    "default before a route": classifier
    >> S.set(answer="none")
    >> Route("intent").eq("a", Agent("a").writes("answer"))
    >> Agent("c").instruct("{answer}"),
    "proceed if": classifier >> helper.proceed_if(is_urgent),
    "the branch knows its key": Route("intent").eq("a", Agent("a").instruct("{intent}")).otherwise(helper),
    "numbers against numbers": S.set(n=3) >> Route("n").eq(3, Agent("three")).otherwise(helper),
    "structured answer kept whole": (
        Agent("x").returns(Answer).writes("result") >> Agent("y").instruct("{result}")
    ),
    # parallel, race, fallback
    "fan-out and join": (web | docs) >> Agent("c").instruct("{web_results} {doc_results}"),
    "named fan-out": FanOut("research").branch(web).branch(docs),
    "two fan-outs in a row": (Agent("a") | Agent("b")) >> (Agent("c") | Agent("d")) >> Agent("e"),
    "shared input": S.set(topic="x") >> (Agent("a").instruct("{topic}") | Agent("b").instruct("{topic}")),
    "race to one key": race(Agent("a").writes("x"), Agent("b").writes("x")) >> Agent("c").instruct("{x}"),
    "fallback to one key": (Agent("a").writes("x") // Agent("b").writes("x")) >> Agent("c").instruct("{x}"),
    "key of before in a fallback": classifier >> (booker // Agent("b2").instruct("{intent}")),
    # loops
    "refine what was there": writer
    >> (critic >> Agent("refiner").instruct("{draft} {feedback}").writes("draft")) * 3
    >> Agent("presenter").instruct("{draft}"),
    "until what the body writes": writer
    >> loop_until(approved, critic >> Agent("judge").instruct("{feedback}").writes("approved")),
    "star until": (Agent("w").writes("draft") >> Agent("s").instruct("{draft}").writes("score"))
    * until(good_enough, max=4),
    "optional feedback in the first round": Loop(
        Agent("w").instruct("Write. {feedback?}").writes("draft"), critic, max_iterations=3
    ),
    "default before the loop": S.default(feedback="none yet")
    >> Loop("refine").step(Agent("w").instruct("{feedback}").writes("draft")).step(critic).max_iterations(2),
    "written in the body, read after": Loop(writer, max_iterations=2) >> Agent("p").instruct("{draft}"),
    "loop in a loop": Loop(writer, Loop(critic, max_iterations=2), max_iterations=2),
    # maps
    "map over a list": Pipeline(load_tickets) >> map_over("tickets", Agent("t").instruct("{_item}")),
    "results of a map": Pipeline(load_tickets)
    >> map_over("tickets", Agent("t").instruct("{item}"), item_key="item", output_key="answers")
    >> Agent("sum").instruct("{answers}"),
    # tools, delegation, gates, transfers
    "declared tool, optional key": Agent("a").tool(create_ticket)
    >> Agent("b").instruct("Ticket: {ticket_id?}"),
    "declared tool with a default": S.set(ticket_id="none")
    >> Agent("a").tool(create_ticket)
    >> Agent("b").instruct("{ticket_id}"),
    "delegate": Agent("coordinator").delegate(
        Agent("sales").describe("Sells"), Agent("support").describe("Helps")
    ),
    "delegate knows what was there": classifier >> Agent("c").delegate(Agent("s").instruct("{intent}")),
    "gate": Agent("a").writes("amount")
    >> gate(is_large, message="Pay?")
    >> Agent("pay").instruct("{amount}"),
    "gate under resumable": Case(
        name="", expression=classifier >> gate(is_urgent) >> helper, config=ExecutionConfig(resumable=True)
    ),
    "confirmation": Agent("a").tool(create_ticket, require_confirmation=True),
    "conditional transfer": classifier >> transfer("helper", condition=is_urgent) >> booker >> helper,
    # contexts and prompts
    "reads what was written": classifier >> Agent("b").reads("intent"),
    "history and state": classifier >> Agent("b").reads("intent", keep_history=True),
    "only the user, text seen later": helper >> Agent("b").context(C.user_only()) >> Agent("c"),
    "only the user, data in state": writer >> Agent("b").context(C.user_only()).instruct("{draft}"),
    "from agents that speak": helper >> Agent("b").context(C.from_agents("helper")),
    "exclude one, seen later": helper >> Agent("b").context(C.exclude_agents("helper")) >> Agent("c"),
    "a window": helper >> Agent("b").context(C.window(3)),
    "none, but written": writer >> Agent("b").context(C.none()).instruct("{draft}"),
    "a template": classifier >> Agent("b").context(C.template("Intent: {intent}\nNotes: {notes?}")),
    "drafter, reviewer, editor": Agent("drafter")
    >> Agent("reviewer").context(C.user_only())
    >> Agent("editor").context(C.from_agents("drafter", "reviewer")),
    "conditional context": classifier
    >> Agent("p").writes("plan").proceed_if(is_urgent)
    >> Agent("b").context(C.when(is_urgent, C.from_state("plan"))),
    "a scratchpad": Loop(Agent("a").context(C.notes("pad") + C.write_notes("pad")), max_iterations=2),
    "extracted for later": helper
    >> Agent("b").context(C.extract(Answer, into="facts"))
    >> Agent("c").instruct("{facts}"),
    "image through a spec that keeps it": Agent("p").produces_modality(Modality.IMAGE)
    >> Agent("v").context(C.window(2).as_contents()),
    "a reused agent by its name": writer
    >> helper
    >> writer
    >> Agent("b").context(C.from_agents("writer", "helper")),
    "prompt": classifier >> Agent("b").instruct(P.role("You book.") + P.task("Intent: {intent}")),
    "prompt from state": classifier >> Agent("b").instruct(P.task("Book.") + P.from_state("intent")),
    "conditional prompt": classifier
    >> Agent("v").writes("vip").proceed_if(is_urgent)
    >> Agent("b").instruct(P.task("Book.") + P.when("vip", P.task("Hello {vip}"))),
    # schemas
    "fields written and read": Agent("c").writes(Billing.intent, Billing.confidence)
    >> Agent("r").reads(Billing.intent).writes(Billing.ticket_id),
    "bound schema": (Agent("c").writes(Billing.intent) >> Agent("r").instruct("{intent}")).schema(Billing),
    "scoped fields": Agent("c").writes(Billing.tier) >> Agent("r").reads(Billing.tier),
    "text for a text field": (Agent("c").writes("intent") >> Agent("r").instruct("{intent}")).schema(Billing),
    "route on a field": Agent("c").writes(Billing.intent)
    >> Route("intent").eq("a", helper).otherwise(booker),
    "map over a field": Agent("c").writes(Shop.items) >> map_over("items", Agent("t").instruct("{_item}")),
    "temp beside a schema": (S.set(**{"temp:n": 1}) >> Agent("r").instruct("{temp:n}")).schema(Shop),
    # declarations
    "image to one that takes images": Agent("p").produces_modality(Modality.IMAGE)
    >> Agent("v").accepts(Modality.IMAGE, Modality.TEXT),
    "code is text": Agent("p").produces_modality(Modality.CODE) >> Agent("r").accepts(Modality.TEXT),
    "produced and consumed": Agent("a").produces(Intent) >> Agent("b").consumes(Intent),
    "consumes a part": Agent("a").produces(Answer) >> Agent("b") >> Agent("c").consumes(Answer),
    "cheapest model": Agent("a").model_select("cost_optimized", candidates=[cheap, good]),
    "budget": S.set(left=1.0)
    >> Agent("a").model_select("budget_bounded", candidates=[cheap], budget_key="left", fallback_model="m"),
    "remote with its input": classifier
    >> RemoteAgent("pay", endpoint="https://pay.example/a2a", input_schema=Refund)
    .reads("order_id", "amount")
    .writes("receipt"),
    "remote with a fallback": classifier
    >> RemoteAgent("pay", endpoint="https://pay.example/a2a", fallback=Agent("by_hand").writes("receipt"))
    .reads("intent")
    .writes("receipt")
    >> Agent("b").instruct("{receipt}"),
    "tokens to the client": classifier >> Agent("talker").stream_to("token"),
    "chunks into a model": Agent("a").stream_to("chunked", chunk_size=20) >> Agent("b"),
    "tokens into a tap": Agent("a").stream_to("token") >> tap(show_draft),
    "boundary": writer >> Agent("heavy").instruct("{draft}").execution_boundary() >> helper,
    "boundary and plain data": S.set(limits={"a": [1, 2]})
    >> Agent("heavy").instruct("{limits}").execution_boundary(),
    "hidden step": Agent("log").hide() >> helper,
    "transparent": (writer >> critic).transparent(),
    "first of several to complete": FanOut(
        Agent("a").writes("x"), Agent("b").writes("y"), merge="first_complete"
    ),
}

_STATE = {
    "guard makes sure": {"topic": "x"},
    "the branch knows its key": {"intent": "a"},
    "remote with its input": {"order_id": "1", "amount": 3.0},
    "tokens into a tap": {"draft": "x"},
}


def _case(name: str, given: object) -> Case:
    if isinstance(given, Case):
        return Case(name=name, expression=given.expression, config=given.config)
    return Case(name=name, expression=given, state=_STATE.get(name, {}))  # pyright: ignore[reportArgumentType]  # the others are expressions


CORRECT = [_case(name, given) for name, given in _CASES.items()]
