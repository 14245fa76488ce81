from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from adk_fluent import Agent, C, FanOut, Loop, Route, S, map_over, until
from adk_fluent.config import ExecutionConfig
from adk_fluent.context.spec import Context
from adk_fluent.errors import ContextError, MissingKeyError, PredicateError, ReadOnlyStateError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.testing import MockBackend, call_tool
from tests.backends.support import replies
from tests.context.talk import ask, contents, everything, last, system

SAYS = {"writer": "W-TEXT", "critic": "C-TEXT", "me": "M-TEXT", "other": "O-TEXT"}
"""What agents say; each text is found only where its agent is seen."""


def lookup(city: str) -> str:
    """Look something up."""
    return f"sunny in {city}"


def block(*lines: str) -> str:
    """A context block of these lines."""
    return "\n".join(["<conversation_context>", *lines, "</conversation_context>"])


def pipeline(spec: Context, instruction: str = "Do it.") -> Expr[Any]:
    """Two agents before the one whose context is looked at."""
    me = Agent("me").instruct(instruction).context(spec)
    return Agent("writer").writes("draft") >> Agent("critic") >> me


async def second(spec: Context, **options: Any) -> LlmRequest:
    """The request of the second turn."""
    return await last(pipeline(spec), "me", "FIRST", "SECOND", responses=SAYS, **options)


WHOLE = ["[user]: FIRST", "[writer]: W-TEXT", "[critic]: C-TEXT", "[me]: M-TEXT"]
NOW = ["[writer]: W-TEXT", "[critic]: C-TEXT"]


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        (C.none(), []),
        (C.user_only(), ["[user]: FIRST"]),
        (C.from_state("draft"), ["[draft]: W-TEXT"]),
        (C.from_state("missing"), []),
        (C.from_agents("critic"), ["[user]: FIRST", "[critic]: C-TEXT", "[critic]: C-TEXT"]),
        (
            C.exclude_agents("writer"),
            ["[user]: FIRST", "[critic]: C-TEXT", "[me]: M-TEXT", "[critic]: C-TEXT"],
        ),
        (C.window(1), NOW),
        (C.last_n_turns(2), WHOLE + NOW),
        (C.template("Draft: {draft}; {none?}."), ["Draft: W-TEXT; ."]),
        (C.select(author="writer", type="text"), ["[writer]: W-TEXT"] * 2),
        (C.recent(half_life=1, min_weight=0.9), NOW),
        (C.compact(), WHOLE + NOW),
        (C.dedup(), WHOLE),
        (C.truncate(max_turns=1), NOW),
        (C.truncate(max_turns=1, strategy="head"), WHOLE),
        (C.truncate(max_tokens=10, strategy="tail"), NOW),
        (C.project("text"), WHOLE + NOW),
        (C.project("files"), []),
        (C.budget(10), NOW),
        (C.budget(999, overflow="error"), WHOLE + NOW),
        (C.priority(3), None),
        (C.fit(18), WHOLE),
        (C.fresh(9999), WHOLE + NOW),
        (C.redact("W-TEXT", replacement="###"), [line.replace("W-TEXT", "###") for line in WHOLE + NOW]),
        (C.rolling(1), NOW),
        (C.from_agents_windowed(writer=1), ["[user]: FIRST", "[writer]: W-TEXT"]),
        (C.user("first"), ["[user]: FIRST"]),
        (C.user("last"), []),
        (C.user("bookend"), ["[user]: FIRST"]),
        (C.notes("draft"), ["[draft]: W-TEXT"]),
        (C.relevant(scorer=lambda query, text: float("C-" in text), top_k=1), ["[critic]: C-TEXT"]),
        (C.when("draft", C.window(1)), NOW),
        (C.when("missing", C.none()) + C.window(1), NOW),
        # together
        (C.window(1) + C.from_state("draft"), ["[draft]: W-TEXT", *NOW]),
        (C.user_only() + C.from_state("draft") + C.template("T"), ["[draft]: W-TEXT", "T", "[user]: FIRST"]),
        (C.from_agents("writer") | C.window(1), ["[writer]: W-TEXT"]),
        (C.window(2) | C.exclude_agents("writer", "me") | C.dedup(), ["[user]: FIRST", "[critic]: C-TEXT"]),
        (C.user_only() | C.none(), []),
        (C.none() + C.none(), []),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, Context) else "",
)
async def test_the_request_holds_the_selection(spec: Context, lines: list[str] | None) -> None:
    """The block holds exactly the selection, and the contents only the current message."""
    request = await second(spec)
    if lines is None:
        assert system(request) == "Do it."
        assert len(contents(request)) == 7
        return
    assert system(request) == "\n\n".join(["Do it.", *([block(*lines)] if lines else [])])
    assert contents(request) == [("user", "SECOND")]


async def test_the_default_is_left_to_adk() -> None:
    """`C.default()` gives the very agent that no context gives: text stays text, ADK assembles."""
    plain, default = pipeline(C.none()), pipeline(C.default())
    bare = Agent("writer").writes("draft") >> Agent("critic") >> Agent("me").instruct("Do it.")
    built: Any = default.build().sub_agents[-1]
    assert built.instruction == "Do it."
    assert built.include_contents == "default"
    narrow: Any = plain.build().sub_agents[-1]
    assert callable(narrow.instruction)
    assert narrow.include_contents == "none"
    one = await last(default, "me", "FIRST", "SECOND", responses=SAYS)
    other = await last(bare, "me", "FIRST", "SECOND", responses=SAYS)
    assert one.contents == other.contents
    assert system(one) == system(other)


@pytest.mark.parametrize(
    "spec",
    [
        C.default() + C.from_state("draft"),
        C.default() + C.write_notes("n") + C.from_state("draft"),
        C.from_state("draft") + C.default() + C.validate(lambda text: True),
        C.when("missing", C.none()) + C.default() + C.from_state("draft"),
    ],
    ids=repr,
)
async def test_state_beside_the_whole_conversation(spec: Context) -> None:
    """If the whole conversation stays, ADK assembles it as usual, and only the state is added."""
    request = await second(spec)
    plain = await second(C.default())
    assert request.contents == plain.contents
    assert system(request) == "Do it.\n\n" + block("[draft]: W-TEXT")


async def test_reads() -> None:
    """`.reads()` shows the values and no history; with `keep_history` both."""
    base = Agent("writer").writes("draft") >> Agent("critic")
    request = await last(base >> Agent("me").reads("draft"), "me", "FIRST", responses=SAYS)
    assert system(request) == block("[draft]: W-TEXT")
    assert contents(request) == [("user", "FIRST")]
    request = await last(base >> Agent("me").reads("draft", keep_history=True), "me", "FIRST", responses=SAYS)
    assert system(request) == block("[draft]: W-TEXT")
    assert [text for _, text in contents(request)] == [
        "FIRST",
        "[writer] said: W-TEXT",
        "[critic] said: C-TEXT",
    ]


async def test_values_of_every_scope_are_shown() -> None:
    """Keys with a scope are read under their prefix, `temp:` ones of the running turn too."""
    agent = S.set(**{"temp:mood": "calm"}) >> Agent("me").reads("user:tier", "app:limit", "temp:mood", "n")
    state = {"user:tier": "gold", "app:limit": 3, "n": {"a": [1]}}
    request = await last(agent, "me", responses=SAYS, state=state)
    lines = ["[user:tier]: gold", "[app:limit]: 3", "[temp:mood]: calm", '[n]: {"a": [1]}']
    assert system(request) == block(*lines)


# --- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [C.none(), C.user_only(), C.from_state("draft"), C.window(1), C.budget(1), C.redact("sunny")],
    ids=repr,
)
async def test_own_tool_use_of_the_turn_stays(spec: Context) -> None:
    """Within a turn the model sees its calls and their results, in pairs, after the user's message."""
    me = Agent("me").tool(lookup).context(spec)
    calls = [call_tool("lookup", city="Rome"), call_tool("lookup", city="Oslo"), "M-TEXT"]
    backend = await ask(Agent("writer").writes("draft") >> me, "WHERE", responses={**SAYS, "me": calls})
    shown = "[REDACTED]" if spec.op == "redact" else "sunny"
    assert [contents(request) for request in backend.calls["me"]] == [
        [("user", "WHERE")],
        [("user", "WHERE"), ("model", "call lookup"), ("user", f"result {{'result': '{shown} in Rome'}}")],
        [
            ("user", "WHERE"),
            ("model", "call lookup"),
            ("user", f"result {{'result': '{shown} in Rome'}}"),
            ("model", "call lookup"),
            ("user", f"result {{'result': '{shown} in Oslo'}}"),
        ],
    ]


async def test_parallel_tool_calls_stay_paired() -> None:
    """Several calls of one answer come back with all their results."""
    parts = [types.Part(function_call=types.FunctionCall(name="lookup", args={"city": c})) for c in "AB"]
    both = types.Content(role="model", parts=parts)
    me = Agent("me").tool(lookup).context(C.none())
    request = await last(me, "me", "GO", responses={"me": [both, "M-TEXT"]})
    assert contents(request) == [
        ("user", "GO"),
        ("model", "call lookup call lookup"),
        ("user", "result {'result': 'sunny in A'} result {'result': 'sunny in B'}"),
    ]


async def test_tool_use_of_earlier_turns_is_history() -> None:
    """In the next turn the earlier tool use is selected, or not, like everything else."""
    calls = [call_tool("lookup", city="Rome"), "M-TEXT", "M-TEXT"]
    me = Agent("me").tool(lookup)
    request = await last(me.context(C.none()), "me", "FIRST", "SECOND", responses={"me": calls})
    assert contents(request) == [("user", "SECOND")]
    assert system(request) == ""
    request = await last(me.context(C.window(2)), "me", "FIRST", "SECOND", responses={"me": calls})
    assert contents(request) == [("user", "SECOND")]
    assert system(request) == block(
        "[user]: FIRST",
        '[me]: (calls lookup({"city": "Rome"}))',
        '[me]: (lookup gave {"result": "sunny in Rome"})',
        "[me]: M-TEXT",
    )
    request = await last(me.context(C.compact()), "me", "FIRST", "SECOND", responses={"me": calls})
    assert '[me]: (lookup({"city": "Rome"}) gave {"result": "sunny in Rome"})\nM-TEXT' in system(request)


async def test_tool_use_of_others_is_not_leaked() -> None:
    """Tool calls of another agent are not sent unless they are selected."""
    tools = {"writer": [call_tool("lookup", city="Rome"), "W-TEXT"], "me": "M-TEXT"}
    for spec in (C.none(), C.user_only(), C.exclude_agents("writer"), C.from_agents("critic")):
        expression = Agent("writer").tool(lookup) >> Agent("me").context(spec)
        request = await last(expression, "me", "GO", responses=tools)
        assert "Rome" not in everything(request)
        assert "W-TEXT" not in everything(request)


async def test_text_beside_a_call_stays_with_it() -> None:
    """A text that the model wrote along with a call of this turn is part of that call."""
    content = types.Content(
        role="model",
        parts=[
            types.Part(text="Let me see."),
            types.Part(function_call=types.FunctionCall(name="lookup", args={"city": "Rome"})),
        ],
    )
    me = Agent("me").tool(lookup).context(C.none())
    request = await last(me, "me", "GO", responses={"me": [content, "M-TEXT"]})
    assert contents(request)[1] == ("model", "Let me see. call lookup")


# --- shapes of pipelines --------------------------------------------------------------------------


def loop_of(spec: Context) -> Expr[Any]:
    """Two agents that take turns twice."""
    return Loop(Agent("writer").context(spec) >> Agent("critic"), max_iterations=2)


async def test_nothing_piles_up_in_a_loop() -> None:
    """A later round sees of the rounds before only what the spec selects."""
    says = {"writer": ["DRAFT-1", "DRAFT-2"], "critic": ["NOTE-1", "NOTE-2"]}
    request = await last(loop_of(C.none()), "writer", "GO", responses=says)
    assert (system(request), contents(request)) == ("", [("user", "GO")])
    request = await last(loop_of(C.from_agents("critic")), "writer", "GO", responses=says)
    assert (system(request), contents(request)) == (block("[critic]: NOTE-1"), [("user", "GO")])
    request = await last(loop_of(C.window(1)), "writer", "GO", responses=says)
    assert system(request) == block("[writer]: DRAFT-1", "[critic]: NOTE-1")


async def test_a_loop_through_state() -> None:
    """Refining a draft in state, each round sees the newest draft and nothing else."""
    body = Agent("critic").instruct("Review: {draft}").writes("note").reads("draft") >> Agent(
        "writer"
    ).instruct("Refine: {note}").writes("draft").reads("draft", "note")
    loop = Agent("first").writes("draft") >> body * until(lambda s: s.get("draft") == "D2", max=5)
    says = {"first": "D0", "critic": ["N1", "N2"], "writer": ["D1", "D2"]}
    backend = await ask(loop, "GO", responses=says)
    assert [system(request) for request in backend.calls["writer"]] == [
        "Refine: N1\n\n" + block("[draft]: D0", "[note]: N1"),
        "Refine: N2\n\n" + block("[draft]: D1", "[note]: N2"),
    ]
    assert all(contents(request) == [("user", "GO")] for request in backend.calls["writer"])


async def test_tool_use_in_a_loop_stays_paired() -> None:
    """In every round each result that is sent has its call."""
    me = Agent("me").tool(lookup).context(C.none())
    calls = [call_tool("lookup", city="A"), "one", call_tool("lookup", city="B"), "two"]
    backend = await ask(Loop(me, max_iterations=2), "GO", responses={"me": calls})
    for request in backend.calls["me"]:
        text = str(contents(request))
        assert text.count("call lookup") == text.count("result {")
        assert "one" not in text


@pytest.mark.parametrize("spec", [C.none(), C.user_only(), C.from_agents("writer"), C.window(1)], ids=repr)
async def test_behind_a_route(spec: Context) -> None:
    """The agent that a route chooses sees what its own spec says, not what the classifier said."""
    route = Route("kind").eq("a", Agent("me").context(spec)).otherwise(Agent("other"))
    says = {"classifier": "a", "me": "M-TEXT", "other": "O"}
    expression = Agent("classifier").writes("kind") >> Agent("writer") >> route
    request = await last(expression, "me", "GO", responses={**says, "writer": "W-TEXT"})
    assert contents(request) == [("user", "GO")]
    shows = {"from_agents": ["[writer]: W-TEXT"], "window": ["[classifier]: a", "[writer]: W-TEXT"]}
    lines = shows.get(spec.op, [])
    assert system(request) == (block(*lines) if lines else "")


@pytest.mark.parametrize("contents_too", [False, True])
async def test_parallel_branches_do_not_see_each_other(contents_too: bool) -> None:
    """Inside a branch a spec selects of the common past and of the branch, whatever siblings have said."""
    spec = C.window(9).as_contents() if contents_too else C.window(9)
    slow = Agent("a1") >> Agent("me").context(spec)
    fast = Agent("writer") >> Agent("critic")
    expression = Agent("before") >> (fast | slow) >> Agent("after").context(spec)
    says = {**SAYS, "before": "B-TEXT", "a1": "A-TEXT", "after": "X"}
    backend = await ask(expression, "GO", responses=says)
    inside, behind = everything(backend.calls["me"][-1]), everything(backend.calls["after"][-1])
    assert [text in inside for text in ("B-TEXT", "A-TEXT", "W-TEXT", "C-TEXT")] == [True, True, False, False]
    assert all(text in behind for text in ("B-TEXT", "A-TEXT", "W-TEXT", "C-TEXT", "M-TEXT"))


async def test_each_item_of_a_map_sees_its_own() -> None:
    """Items that run side by side see their item, and nothing that was said about the others."""
    me = Agent("me").instruct("Item: {_item}").context(C.window(1) + C.from_state("_item"))
    body = Agent("writer").instruct("Write about {_item}.") >> me

    def write(request: LlmRequest) -> str:
        return "ABOUT " + system(request)[-2]

    says = {"writer": write, "me": "M"}
    backend = await ask(map_over("items", body), "GO", responses=says, state={"items": ["x", "y", "z"]})
    shown = sorted(system(request) for request in backend.calls["me"])
    assert shown == [f"Item: {i}\n\n" + block(f"[_item]: {i}", f"[writer]: ABOUT {i}") for i in "xyz"]


async def test_a_reused_agent_is_known_by_its_name() -> None:
    """An agent that is used twice is meant by its one name in both places."""
    writer = Agent("writer")
    expression = writer >> Agent("critic") >> writer >> Agent("me").context(C.from_agents("writer"))
    request = await last(expression, "me", "GO", responses={**SAYS, "writer": ["W-1", "W-2"]})
    assert system(request) == block("[writer]: W-1", "[writer_2]: W-2")
    expression = writer >> Agent("critic") >> writer >> Agent("me").context(C.exclude_agents("writer"))
    request = await last(expression, "me", "GO", responses={**SAYS, "writer": ["W-1", "W-2"]})
    assert system(request) == block("[critic]: C-TEXT")


async def test_an_agent_that_was_handed_the_conversation() -> None:
    """After a transfer the specialist sees the user's message and what its spec selects."""
    specialist = Agent("me").describe("Helps.").context(C.none())
    desk = Agent("desk").delegate(specialist)
    says = {"desk": call_tool("transfer_to_agent", agent_name="me"), "me": "M-TEXT"}
    request = await last(desk, "me", "HELP", responses=says)
    assert contents(request) == [("user", "HELP")]


async def test_capture_then_state() -> None:
    """A usual pattern: the message goes to state, and reaches the agent from there."""
    expression = (
        C.capture("user_message")
        >> Agent("writer").writes("intent")
        >> Agent("me").instruct("Help. Intent: {intent}").context(C.from_state("user_message", "intent"))
    )
    request = await last(expression, "me", "BOOK", responses=SAYS)
    assert system(request) == "Help. Intent: W-TEXT\n\n" + block("[user_message]: BOOK", "[intent]: W-TEXT")
    assert contents(request) == [("user", "BOOK")]


async def test_capture_turns() -> None:
    """`C.capture_turns` writes the last turns as text."""
    backend = MockBackend(SAYS)
    expression = Agent("writer") >> C.capture_turns("past", n=2)
    async with expression.session(backend=backend) as chat:
        await chat.send("A")
        await chat.send("B")
        result = await chat.send("C")
    assert result.state["past"] == "[user]: B\n[writer]: W-TEXT\n[user]: C\n[writer]: W-TEXT"


async def test_streaming_sees_the_same() -> None:
    """A streamed run sends the same request."""
    backend = MockBackend(SAYS)
    async for _ in pipeline(C.user_only() + C.from_state("draft")).stream("GO", backend=backend):
        pass
    (request,) = backend.calls["me"]
    assert system(request) == "Do it.\n\n" + block("[draft]: W-TEXT")
    assert contents(request) == [("user", "GO")]


async def test_several_specs_in_one_pipeline() -> None:
    """Each agent has its own context; none changes what another sees."""
    expression = (
        Agent("writer").context(C.none())
        >> Agent("critic").context(C.from_agents("writer"))
        >> Agent("me")
        >> Agent("other").context(C.exclude_agents("me"))
    )
    backend = await ask(expression, "GO", responses=SAYS)
    first = {name: requests[0] for name, requests in backend.calls.items()}
    assert everything(first["writer"]).split() == ["user_", "GO"][1:]
    assert system(first["critic"]) == block("[writer]: W-TEXT")
    assert len(contents(first["me"])) == 3
    assert system(first["other"]) == block("[writer]: W-TEXT", "[critic]: C-TEXT")


async def test_a_result_that_comes_later() -> None:
    """The result of a long-running tool that is posted later reaches the model with the call it answers."""

    def order(item: str) -> None:
        """Order something; the answer comes later."""

    me = Agent("me").tool(LongRunningFunctionTool(order)).context(C.none())
    backend = MockBackend(
        {"me": [call_tool("order", item="tea"), "M-1", "M-2"]}, session_service=InMemorySessionService()
    )
    config = ExecutionConfig(resumable=False)
    first = await me.run("GO", backend=backend, session_id="s", config=config)
    (asked,) = [call for event in first for call in event.tool_calls]
    result = types.FunctionResponse(id=asked.call_id, name="order", response={"status": "HERE"})
    posted = types.Content(role="user", parts=[types.Part(function_response=result)])
    await me.run(posted, backend=backend, session_id="s", config=config)
    shown = contents(backend.calls["me"][-1])
    assert shown[0] == ("user", "GO")
    assert [text for _, text in shown].count("call order") == 1
    assert any("HERE" in text for _, text in shown)


async def test_an_agent_that_is_a_tool() -> None:
    """An agent that another one calls as a tool sees its request, and applies its context to it."""
    helper = AgentTool(Agent("me").instruct("Help.").context(C.user_only()).build(), include_plugins=False)
    desk = Agent("desk").tool(helper)
    native: Any = helper.agent
    script = MockBackend({"me": "M-TEXT"}, session_service=InMemorySessionService())
    native.model = script.model_for(AgentNode(name="me"), "me")
    request = await last(desk, "desk", "GO", responses={"desk": [call_tool("me", request="PLEASE"), "done"]})
    assert "M-TEXT" in everything(request)
    assert contents(script.calls["me"][0]) == [("user", "PLEASE")]


# --- notes, checks and refusals -------------------------------------------------------------------


async def test_notes_are_written_after_the_answer_and_read_before() -> None:
    """`write_notes` adds each answer to the scratchpad; `notes` shows it."""
    me = Agent("me").context(C.notes("pad") + C.write_notes("pad"))
    backend = MockBackend({"me": ["one", "two", "three"]})
    async with me.session(backend=backend) as chat:
        for prompt in ("a", "b"):
            await chat.send(prompt)
        result = await chat.send("c")
    assert [system(request) for request in backend.calls["me"]] == [
        "",
        block("[pad]: one"),
        block("[pad]: one\ntwo"),
    ]
    assert result.state["pad"] == "one\ntwo\nthree"


async def test_notes_can_be_replaced() -> None:
    """With `replace` the scratchpad holds the last answer, also of an agent that uses tools."""
    me = Agent("me").tool(lookup).context(C.write_notes("pad", "replace"))
    backend = MockBackend({"me": ["old", call_tool("lookup", city="Rome"), "new"]})
    async with me.session(backend=backend) as chat:
        assert (await chat.send("a")).state["pad"] == "old"
        assert (await chat.send("b")).state["pad"] == "new"


def _parts(*parts: types.Part) -> types.Content:
    return types.Content(role="model", parts=[*parts])


BEFORE_THE_ANSWER: dict[str, list[Any]] = {
    "text beside a call": [
        _parts(
            types.Part(text="let me see"), types.Part.from_function_call(name="lookup", args={"city": "Rome"})
        ),
        "the answer",
    ],
    "text beside two calls": [
        *(
            _parts(types.Part(text="hm"), types.Part.from_function_call(name="lookup", args={"city": c}))
            for c in "ab"
        ),
        "the answer",
    ],
    "thoughts": [_parts(types.Part(text="I think", thought=True), types.Part(text="the answer"))],
    "pieces": [replies(lambda request: _pieces("the ", "answer"))],
}


async def _pieces(*texts: str) -> AsyncGenerator[str, None]:
    for text in texts:
        yield text


@pytest.mark.parametrize("mode", ["none", "sse"])
@pytest.mark.parametrize("strategy", ["append", "replace"])
@pytest.mark.parametrize("responses", BEFORE_THE_ANSWER.values(), ids=BEFORE_THE_ANSWER)
async def test_only_answers_become_notes(responses: list[Any], strategy: Any, mode: Any) -> None:
    """Texts beside a tool call, thoughts and chunks are not written to the notes."""
    me = Agent("me").tool(lookup).context(C.write_notes("pad", strategy))
    result = await me.run(
        "GO", backend=MockBackend({"me": responses}), config=ExecutionConfig(streaming_mode=mode)
    )
    assert result.state["pad"] == "the answer"
    assert [event.state_delta for event in result if event.state_delta] == [{"pad": "the answer"}]


async def test_an_answer_without_words_is_no_note() -> None:
    """An image says nothing that could be noted: the scratchpad stays as it was."""
    image = _parts(types.Part.from_bytes(data=b"png", mime_type="image/png"))
    me = Agent("me").context(C.write_notes("pad", "replace"))
    async with me.session(backend=MockBackend({"me": [image, "words", image]})) as chat:
        assert "pad" not in (await chat.send("a")).state
        assert (await chat.send("b")).state["pad"] == "words"
        assert (await chat.send("c")).state["pad"] == "words"


async def test_a_refused_context_stops_before_the_model() -> None:
    """A check that fails, or a budget that is exceeded, raises and the model is not called."""
    for spec in (C.validate(lambda text: "SECRET" not in text), C.budget(1, overflow="error")):
        backend = MockBackend(SAYS)
        with pytest.raises(ContextError, match="'me'"):
            await (Agent("writer") >> Agent("me").context(spec)).run("SECRET", backend=backend)
        assert not backend.calls["me"]


async def test_a_fallback_catches_a_refused_context() -> None:
    """A context that is refused is a failure like any other."""
    small = Agent("me").context(C.budget(1, overflow="error"))
    result = await (Agent("writer") >> (small // Agent("other"))).run("GO", backend=MockBackend(SAYS))
    assert result.text == "O-TEXT"


async def test_a_template_that_lacks_its_key_names_agent_and_key() -> None:
    """A template's required key that is missing stops the run with one line."""
    with pytest.raises(MissingKeyError, match=r"'me' needs state key 'topic' for its C\.template"):
        await ask(Agent("me").context(C.template("{topic}")), responses=SAYS)


async def test_a_condition_that_raises_is_explained() -> None:
    """A predicate of `C.when` that fails names the agent and the cause."""
    me = Agent("me").context(C.when(lambda s: s["missing"], C.none()))
    with pytest.raises(PredicateError, match=r"'me' in C\.when: its predicate '<lambda>' needs state key"):
        await ask(me, responses=SAYS)


async def test_a_condition_cannot_write() -> None:
    """A predicate gets the state read-only, and copies of what it holds."""

    def meddle(state: Any) -> bool:
        state["items"].append("x")
        with pytest.raises(TypeError):
            state["new"] = 1
        return True

    me = Agent("me").context(C.when(meddle, C.none()))
    backend = MockBackend(SAYS, session_service=InMemorySessionService())
    result = await me.run("GO", backend=backend, state={"items": []})
    assert result.state == {"items": []}


async def test_a_condition_cannot_write_into_an_empty_state() -> None:
    """State is read-only for a predicate also while it holds nothing, as often as it is asked."""
    outcomes: list[str] = []

    def meddle(state: Any) -> bool:
        try:
            state["new"] = 1
        except ReadOnlyStateError as error:
            outcomes.append(str(error).partition(";")[0])
        else:
            outcomes.append("written")
        return True

    await ask(Agent("me").context(C.when(meddle, C.none())), responses=SAYS)
    assert set(outcomes) == {"State is read-only in a predicate"}


async def test_a_fan_out_of_contexts() -> None:
    """Branches with different contexts each get their own."""
    expression = Agent("writer").writes("draft") >> FanOut(
        Agent("critic").context(C.none()), Agent("me").reads("draft")
    )
    backend = await ask(expression, "GO", responses=SAYS)
    assert system(backend.calls["critic"][0]) == ""
    assert system(backend.calls["me"][0]) == block("[draft]: W-TEXT")
