"""Pipelines without a fault, of all shapes: the check gives no warning, and only the notes named here."""

from __future__ import annotations

import time

from google.adk.tools.google_search_tool import GoogleSearchTool

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
    until,
)
from adk_fluent.config import ExecutionConfig
from adk_fluent.content import Modality
from adk_fluent.cost import ModelCandidate
from tests.contracts.corpus.cases import (
    Answer,
    Billing,
    Correct,
    Desk,
    Intent,
    Keeper,
    Mood,
    Query,
    Refund,
    Shop,
    Ticket,
    approved,
    by_intent,
    by_template,
    count_pieces,
    count_words,
    create_ticket,
    fill_in_topic,
    get_news,
    get_weather,
    good_enough,
    is_large,
    is_urgent,
    load_or_none,
    load_profile,
    load_tickets,
    measure,
    note_all,
    note_both,
    note_topic,
    read_item,
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
    "artifact saved and read": A.save("cv.md", "text")
    >> Agent("a").instruct("{artifact.cv.md} {artifact.old?}"),
    "artifact saved on all branches": Route("user:k")
    .eq("v", A.save("a.md", "x"))
    .otherwise(A.save("a.md", "y"))
    >> Agent("a").context(A.for_llm("a.md")),
    "artifact saved in a loop": Loop(
        A.save("a.md", "x") >> Agent("a").instruct("{artifact.a.md}"), max_iterations=2
    ),
    "artifact that a model saves": Agent("a").tool(A.tool.save())
    >> A.load("a.md")
    >> Agent("b").instruct("{a}"),
    "artifact read if it is there": A.save("a.md", "x")
    >> A.when("user:k", A.delete("a.md") >> A.save("a.md", "y")),
    "artifact named by the state": Agent("a").writes("topic")
    >> A.save("{topic}.md", "x")
    >> A.delete("{topic}.md"),
    "artifacts published and loaded": Agent("a")
    .writes("draft")
    .artifacts(A.publish("x.md", from_key="draft"))
    >> A.snapshot("x.md", into_key="copy")
    >> Agent("b").instruct("{copy}"),
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
    "callback that reads the answer": Agent("a").writes("draft").after_agent(measure),
    "callback for a later one": Agent("a").after_agent(load_profile) >> Agent("b").instruct("{profile}"),
    "same agent twice": helper >> classifier >> helper,
    "timeout": writer.timeout(30) >> critic,
    # transforms
    "rename": classifier >> S.rename(intent="kind") >> Agent("b").instruct("{kind}"),
    "swap": S.set(a=1, b=2) >> S.rename(a="b", b="a") >> Agent("c").instruct("{a} {b}"),
    "pick keeps it": S.set(a=1, b=2) >> S.pick("a") >> Agent("c").instruct("{a}"),
    "drop another": S.set(a=1, b=2) >> S.drop("b") >> Agent("c").instruct("{a}"),
    "default then read": S.default(tone="dry") >> Agent("a").instruct("{tone}"),
    "a predicate with a default": Loop(Agent("judge").writes("score"), max_iterations=3).until(
        lambda s: float(s.get("score", 0)) > 7
    ),
    "a predicate that looks at a clock": Loop(writer, max_iterations=3).until(
        lambda s: s.get("draft") and time.time() > 0
    ),
    "a callback that always writes": Agent("a").before_agent(note_topic).instruct("{topic}"),
    "a callback that fills in a default": Agent("a").before_agent(fill_in_topic).instruct("{topic}"),
    "a callback that writes on both ways of a try": Agent("a").before_agent(load_or_none).instruct("{topic}"),
    "a callback that writes a dict": Agent("a").before_agent(note_all).instruct("{topic} {user?}"),
    "a callback with a loop over keys": Agent("a").before_agent(note_both).instruct("{topic} {tone}"),
    "a callback with a method": Agent("a").before_agent(Keeper()).instruct("{topic}"),
    "a template of an instruction function": writer >> Agent("a").instruct(by_template),
    "a function that always writes": Pipeline(lambda state: {"x": 1}) >> Agent("a").instruct("{x}"),
    "a list with one item or another": S.set(tags=["x"])
    >> Route("tags").contains("x", helper).contains("xy", writer).otherwise(booker.instruct("Book.")),
    "the longer text first": classifier
    >> Route("intent").contains("booking", helper).contains("book", writer).otherwise(helper.named("h2")),
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
    "gate under resumable": classifier >> gate(is_urgent) >> helper,
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
    "tokens into a function": Agent("a").stream_to("token")
    >> count_pieces
    >> Agent("b").instruct("{pieces} pieces"),
    "tokens into a tap": Agent("a").stream_to("token") >> tap(show_draft),
    "boundary": writer >> Agent("heavy").instruct("{draft}").execution_boundary() >> helper,
    "boundary and plain data": S.set(limits={"a": [1, 2]})
    >> Agent("heavy").instruct("{limits}").execution_boundary(),
    "hidden step": Agent("log").hide() >> helper,
    "transparent": (writer >> critic).transparent(),
    "first of several to complete": FanOut(
        Agent("a").writes("x"), Agent("b").writes("y"), merge="first_complete"
    ),
    # --- pipelines that only look faulty -----
    "the answers of a map are kept": Pipeline(load_tickets)
    >> map_over("tickets", helper.instruct("{_item}"))
    >> Agent("m").context(C.none()).instruct("{results}"),
    "the answers of a map are read": Pipeline(load_tickets)
    >> map_over("tickets", helper.instruct("{_item}"))
    >> Agent("m").reads("results"),
    "text that is a number": Agent("a").writes("score") >> Route("score").eq(5, helper).otherwise(writer),
    "text against a bound": Agent("a").writes("score") >> Route("score").gt("b", helper).otherwise(writer),
    "a count against a number": S.counter("n") >> Route("n").eq(3, helper).otherwise(writer),
    "a count read as a number": S.counter("attempts") >> Agent("r").reads(Desk.attempts),
    "text for one of a few": (Agent("c").writes("intent") >> Agent("r").reads("intent")).schema(Desk),
    "text for an enum": (Agent("c").writes("mood") >> Agent("r").reads("mood")).schema(Desk),
    "one of a few, set": (S.set(intent="refund") >> Agent("r").reads("intent")).schema(Desk),
    "a list that may be missing": (S.set(tags=["x"]) >> Agent("r").reads("tags")).schema(Desk),
    "a model read as a dict": Agent("c").returns(Ticket).writes("ticket")
    >> Agent("r").reads("ticket").instruct("Hand {ticket} on."),
    "first of several with one key": FanOut(
        Agent("a").writes("x"), Agent("b").writes("x"), merge="first_complete"
    ),
    "every value of a literal": Agent("c").writes(Desk.intent)
    >> Route(Desk.intent).eq("refund", helper).eq("other", booker),
    "every value of an enum": Agent("c").writes(Desk.mood)
    >> Route("mood").eq("good", helper).contains("b", writer),
    "every value of a bool": Agent("c").writes(Desk.urgent)
    >> Route("urgent").eq(True, helper).eq(False, writer),
    "every value of a bound field": (
        classifier >> Route("intent").eq("refund", helper).eq("other", Agent("o"))
    ).schema(Desk),
    "every value, so written": Agent("c").writes(Desk.intent)
    >> Route("intent").eq("refund", Agent("a").writes("x")).eq("other", Agent("b").writes("x"))
    >> Agent("r").reads("x"),
    "many branches into one": FanOut(*(Agent(f"a{n}").writes(f"k{n}") for n in range(40)))
    >> Agent("m").instruct(" ".join(f"{{k{n}}}" for n in range(40))),
    "drop what may be there": classifier
    >> writer.proceed_if(is_urgent)
    >> S.drop("draft")
    >> S.pick("intent")
    >> Agent("r").reads("intent"),
    "a whole structured answer": Agent("c").returns(Ticket).writes("ticket")
    >> Agent("r").context(C.user_only()).instruct("{ticket} {artifact.a.b} {ticket_team?}"),
    "braces of another language": Agent("a").instruct("{{#if x}} {a: 1} {0} {title: string} {x|y} ${x.y}"),
    "tools of several names": Agent("a").tools(get_weather, get_news) >> Agent("b").tool(get_weather),
    "tool calls in the conversation": Agent("a").tool(get_weather) >> Agent("b").tool(get_news),
    "tool calls among the messages": Agent("a").tool(get_weather)
    >> Agent("b").tool(get_news).context(C.none() + C.from_agents("a").as_contents()),
    "tool calls in words": Agent("a").tool(get_weather) >> Agent("b").tool(get_news).context(C.window(2)),
    "no tools to go on with": Agent("a").tool(get_weather).writes("x") >> Agent("b").reads("x"),
    "tools of another branch": Agent("a").tool(get_weather)
    | Agent("b").tool(get_news).context(C.user_only()),
    "the item is read": Pipeline(load_tickets) >> map_over("tickets", helper.instruct("{_item}")),
    "the item is read by a step": Pipeline(load_tickets)
    >> map_over("tickets", S.fn(lambda s: {"t": 1}, reads=["_item"], writes=["t"]) >> Agent("r").reads("t")),
    "the item is read by a tool": Pipeline(load_tickets) >> map_over("tickets", Agent("r").tool(read_item)),
    "nobody is asked": Pipeline(load_tickets)
    >> map_over("tickets", S.log("tickets"))
    >> Agent("r").reads("results"),
    "counted within each item": Pipeline(load_tickets)
    >> map_over(
        "tickets", S.set(n=0) >> Loop(helper.instruct("{_item}") >> S.counter("n"), max_iterations=2)
    ),
    "joined after a map": Pipeline(load_tickets)
    >> map_over("tickets", helper.instruct("{_item}"))
    >> S.compute(n=lambda s: len(s["results"]))
    >> Agent("r").instruct("{n}").context(C.none()),
    "written again after it is read": writer >> Agent("r").reads("draft") >> writer.named("w2"),
    "written again on one branch": writer
    >> classifier
    >> Route("intent").eq("a", Agent("x").writes("draft")).otherwise(helper)
    >> Agent("r").instruct("{draft}"),
    "written again in the next round": Loop(writer, max_iterations=3) >> Agent("r").reads("draft"),
    "written again if the first fails": (
        (Agent("x").writes("draft") // Agent("y").writes("draft")) >> Agent("r").reads("draft")
    ),
    "written again after a failure": (
        (Agent("x").writes("draft") >> helper) // Agent("y").instruct("{draft?}")
    )
    >> Agent("z").writes("draft"),
    "written again after a person looked": writer >> gate(is_large) >> writer.named("w2"),
    "written again for other sessions": Agent("a").writes("user:x") >> Agent("b").writes("user:x"),
    "written again beside a reader": writer
    >> FanOut(Agent("x").writes("draft"), Agent("r").instruct("{draft?}"))
    >> Agent("end").instruct("{draft}"),
    "written again after an unknown function": writer >> tap(lambda state: str(state)) >> writer.named("w2"),
    "grown, not replaced": S.set(all=["x"])
    >> writer
    >> S.accumulate("draft", into="all")
    >> Agent("r").reads("all"),
    "the last words beside a key of an agent before": classifier
    >> helper
    >> Agent("b").include_contents("none").instruct("{intent}"),
    "the last words of a branch": classifier
    >> Route("intent").eq("book", helper).otherwise(Agent("h2"))
    >> Agent("b").include_contents("none"),
    "agents by their names": classifier
    >> Agent("boss")
    .instruct(
        "For money transfer to billing_agent, else delegate to `refund_agent`. REFUND_AGENT: pays {intent}."
    )
    .reads("intent")
    .delegate(Agent("billing_agent"), Agent("refund_agent").instruct("Hand back to billing_agents or boss.")),
    "words, keys and tools that are no agents": classifier
    >> Agent("boss")
    .tool(get_weather)
    .instruct(
        "Transfer to a human, route to billing, use get_weather and write the_intents. Send to help_desk."
    )
    .reads("intent")
    .delegate(Agent("billing_agent")),
    "search where the model is not known": Agent("a", "my-model").tools(T.google_search()),
    "search and Gemini of LiteLLM": Agent("a", "openrouter/google/gemini-2.5-pro").tools(T.google_search()),
    "search in an agent tool": Agent("a", "claude-sonnet-4-5").tools(
        T.agent(Agent("searcher", "gemini-2.5-flash").tools(T.google_search()))
    ),
    "search beside sub-agents of Gemini 3": Agent("a", "gemini-3-pro")
    .tools(T.google_search())
    .delegate(helper),
    "search as an agent beside sub-agents": Agent("a", "gemini-2.5-flash")
    .tools(T.agent(Agent("searcher", "gemini-2.5-flash").tools(T.google_search())), get_weather)
    .delegate(helper),
    "search that ADK itself sets apart": Agent("a", "gemini-2.5-flash")
    .tools(GoogleSearchTool(bypass_multi_tools_limit=True), get_weather)
    .delegate(helper),
    "search beside pages": Agent("a", "gemini-2.5-flash").tools(T.google_search(), T.url_context()),
    "search in a sub-agent that stays": Agent("boss").delegate(
        Agent("a", "gemini-2.5-flash").tools(T.google_search()).isolate()
    ),
    "a delegate of the same type": Agent("boss").returns(Ticket).delegate(Agent("kid").returns(Ticket)),
    "both show everything": helper >> Agent("b").include_contents("default").context(C.default()),
    "a transfer back on a condition": Pipeline("p", classifier, transfer("p", condition=is_urgent)),
    "a member set where text is compared": S.set(mood=Mood.GOOD)
    >> Route("mood").eq("good", helper).eq("bad", writer),
    "a member set for an enum": (S.set(mood=Mood.GOOD) >> Agent("r").reads("mood")).schema(Desk),
    "a key of ADK's own under a schema": (S.set(_note=1) >> Agent("r").instruct("{_note}")).schema(Desk),
    "a key that a prompt only tests": classifier
    >> Agent("b").instruct(P.task("Go on.") + P.when("intent", P.task("With care."))),
    "tools of the other branch": Route("k")
    .eq(1, Agent("a").tool(get_weather))
    .otherwise(Agent("b").tool(get_news).context(C.user_only())),
    "missing is a value, too": classifier >> Route("intent").eq(None, helper).otherwise(writer),
    "the item is read by a function": Pipeline(load_tickets)
    >> map_over("tickets", tap(lambda state: str(state)) >> helper),
    "a part of the item, which is no placeholder": Pipeline(load_tickets)
    >> map_over("tickets", helper.instruct("Write \\{_item.x}")),
    "dead state of another session": Agent("a").writes("user:x") >> helper,
    "dead state of other users": Agent("a").writes("app:x") >> helper,
    "dead state of a run": Agent("a").writes("temp:x") >> helper,
    "dead state that a step leaves to another session": S.set(**{"user:x": 1, "app:x": 2}) >> helper,
    "its own text in a loop": Loop(
        Agent("w").instruct("Go on from {draft?}").writes("draft"), max_iterations=3
    ),
    "its own text in a prompt in a loop": S.default(draft="")
    >> Loop(Agent("w").instruct(P.task("Go on.") + P.from_state("draft")).writes("draft"), max_iterations=3),
    "its own text in its context in a loop": S.default(draft="")
    >> Loop(Agent("w").reads("draft", keep_history=True).writes("draft"), max_iterations=3),
    "its own text for each item": Pipeline(load_tickets)
    >> map_over("tickets", Agent("w").instruct("{_item} as {draft?}").writes("draft"))
    >> Agent("end").instruct("{results}").context(C.none()),
}

_NOTES = {
    "artifact placeholder": ["missing-artifact"],
    "a whole structured answer": ["missing-artifact"],
    "data flows on": ["channel-duplication"],
    "three in a row": ["channel-duplication", "channel-duplication"],
    "temp key": ["channel-duplication"],
    "user key written and read": ["channel-duplication"],
    "named pipeline": ["channel-duplication"],
    "tap that reads": ["channel-duplication"],
    "same agent twice": ["dead-state"],
    "timeout": ["channel-duplication"],
    "rename": ["channel-duplication"],
    "pick keeps it": ["dead-state"],
    "drop another": ["dead-state"],
    "route on what was written": ["channel-duplication"],
    "dict route": ["channel-duplication", "route-without-otherwise"],
    "written on all branches": ["channel-duplication"],
    "eq and its opposite": ["channel-duplication"],
    "default before a route": ["channel-duplication", "route-without-otherwise"],
    "structured answer kept whole": ["channel-duplication"],
    "fan-out and join": ["channel-duplication"],
    "race to one key": ["channel-duplication"],
    "fallback to one key": ["channel-duplication"],
    "key of before in a fallback": ["channel-duplication", "channel-duplication"],
    "refine what was there": ["channel-duplication", "channel-duplication", "channel-duplication"],
    "until what the body writes": ["channel-duplication", "channel-duplication"],
    "star until": ["channel-duplication"],
    "optional feedback in the first round": ["channel-duplication", "channel-duplication"],
    "default before the loop": ["channel-duplication", "channel-duplication"],
    "written in the body, read after": ["channel-duplication"],
    "loop in a loop": ["channel-duplication"],
    "delegate knows what was there": ["channel-duplication"],
    "gate": ["channel-duplication"],
    "conditional transfer": ["channel-duplication"],
    "history and state": ["channel-duplication"],
    "conditional context": ["channel-duplication"],
    "a reused agent by its name": ["dead-state", "overwritten"],
    "prompt": ["channel-duplication"],
    "prompt from state": ["channel-duplication"],
    "conditional prompt": ["channel-duplication"],
    "fields written and read": ["dead-state"],
    "bound schema": ["channel-duplication"],
    "text for a text field": ["channel-duplication"],
    "route on a field": ["channel-duplication"],
    "remote with its input": ["dead-state"],
    "remote with a fallback": ["channel-duplication"],
    "tokens to the client": ["dead-state"],
    "boundary": ["channel-duplication"],
    "transparent": ["channel-duplication"],
    "many branches into one": ["channel-duplication"],
    "drop what may be there": ["dead-state"],
    "written again on one branch": ["channel-duplication"],
    "written again beside a reader": ["channel-duplication", "channel-duplication"],
    "written again after an unknown function": ["unknown-access"],
    "a member set where text is compared": ["route-without-otherwise"],
    "the item is read by a function": ["unknown-access"],
}
"""The codes of what is noted about each; nothing about the others."""

_STATE = {
    "tools of the other branch": {"k": 1},
    "guard makes sure": {"topic": "x"},
    "the branch knows its key": {"intent": "a"},
    "remote with its input": {"order_id": "1", "amount": 3.0},
    "tokens into a tap": {"draft": "x"},
    "written again after a person looked": {"amount": 1},
}

CORRECT = [
    Correct(
        name=name,
        expression=expression,
        state=_STATE.get(name, {}),
        config=ExecutionConfig(resumable=True) if name == "gate under resumable" else None,
        notes=tuple(_NOTES.get(name, ())),
    )
    for name, expression in _CASES.items()
]
