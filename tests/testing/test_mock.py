"""The mock backend: every kind of response, what it notes, and what it says when the script does not fit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, assert_type

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, Pipeline, Route, S, StateSchema, T, race
from adk_fluent.errors import ADKFluentError, ArgumentError, MockError, SessionError
from adk_fluent.expr.base import Expr
from adk_fluent.state import UserScoped
from adk_fluent.testing import MockBackend, ModelRequest, call_tool, mock_backend
from tests.backends.support import ANYWAY, raises_from, replies, said, script, seen, system

A, B = Agent("a"), Agent("b")


class Size(BaseModel):
    size: int


class Desk(StateSchema):
    intent: str
    tier: Annotated[str, UserScoped]


def content(text: str) -> types.Content:
    """A model's content."""
    return types.Content(role="model", parts=[types.Part(text=text)])


async def chunks(*pieces: str) -> AsyncIterator[str]:
    """Pieces of text."""
    for piece in pieces:
        yield piece


async def ask(expression: Expr[Any], response: Any, **options: Any) -> Any:
    """The result of one run with one scripted response."""
    return await expression.run("hi", backend=mock_backend({"a": response}, **options))


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("text", "text"),
        ("", ""),
        ({"size": 3}, '{"size": 3}'),
        ({}, "{}"),
        (["first", "second"], "first"),
        (("first",), "first"),
        (content("content"), "content"),
        (LlmResponse(content=content("response")), "response"),
        (replies(lambda request: "called"), "called"),
        (replies(lambda request: replies(lambda request: {"size": 1})), '{"size": 1}'),
        ([replies(lambda request: content("in a list"))], "in a list"),
        (replies(lambda request: chunks("one ", "two")), "one two"),
    ],
)
async def test_every_kind_of_response(response: Any, text: str) -> None:
    """Text, dicts, lists, content, responses, streams and functions of the request all become the answer."""
    assert (await ask(A, response)).text == text


async def test_an_async_iterable_is_an_answer() -> None:
    """A stream given as it is answers once."""
    assert (await ask(A, chunks("one ", "two"))).text == "one two"


async def test_a_used_up_stream_is_an_error() -> None:
    """A generator can be read once; the next call says so and how to answer again."""
    with pytest.raises(MockError, match=r"'a'.*read already.*function"):
        await ask(A * 2, chunks("once"))


@pytest.mark.parametrize(
    "problem", [ValueError("as it is"), ValueError, replies(lambda request: ValueError("made"))]
)
async def test_exceptions_are_raised(problem: Any) -> None:
    """An exception, an exception class, and a function that gives one are raised by the model."""
    with raises_from(ValueError) as caught:
        await ask(A, problem)
    if isinstance(problem, Exception):
        assert caught.value.__cause__ is problem


async def test_a_function_may_raise() -> None:
    """What a function of the request raises reaches the caller."""

    def fail(request: LlmRequest) -> str:
        raise KeyError("inside")

    with raises_from(KeyError, match="inside"):
        await ask(A, fail)


async def test_a_function_sees_the_request() -> None:
    """A function gets the request that a real model would get."""
    result = await ask(A.instruct("Be brief."), replies(lambda r: f"{seen(r)} / {'Be brief.' in system(r)}"))
    assert result.text == "hi / True"


async def test_a_tool_call_really_runs_the_tool() -> None:
    """`call_tool` makes the model call a function, which runs and whose result goes to the next call."""
    called: list[tuple[int, str]] = []

    def tool(n: int, word: str = "w") -> dict[str, int]:
        """Note a number."""
        called.append((n, word))
        return {"n": n + 1}

    backend = mock_backend({"a": [call_tool("tool", n=1), call_tool("tool", n=2, word="x"), "done"]})
    result = await A.tool(tool).run("hi", backend=backend)
    assert called == [(1, "w"), (2, "x")]
    assert [r.result for e in result for r in e.tool_responses] == [{"n": 2}, {"n": 3}]
    assert result.text == "done"
    assert len(backend.calls["a"]) == 3


async def test_a_dict_is_merged_into_state() -> None:
    """Without `returns`, a scripted dict is also written into state, as the step after sees."""
    backend = mock_backend({"a": {"intent": "billing", "n": 2}, "b": "ok"})
    result = await (A >> B.instruct("{intent}")).run("hi", backend=backend, config=ANYWAY)
    assert result.state == {"intent": "billing", "n": 2}
    assert "billing" in system(backend.calls["b"][0])
    assert result[0].state_delta == {"intent": "billing", "n": 2}
    assert result[0].metadata == {"adk_fluent.visibility": "internal", "adk_fluent.is_user_facing": False}


WRITER = A.writes("intent")


@pytest.mark.parametrize(
    "expression", [WRITER, WRITER >> B, WRITER * 1, FanOut(WRITER, B), WRITER.timeout(60)], ids=repr
)
async def test_a_dict_with_the_key_that_is_written(expression: Expr[Any]) -> None:
    """For an agent that writes a key, a dict with that key stores its value there; the rest is merged."""
    result = await expression.run("hi", backend=script({"a": {"intent": "x", "n": 2}}))
    assert result.state == {"intent": "x", "n": 2}
    (event,) = result.by("a")
    assert (event.content, event.state_delta) == ('{"intent": "x", "n": 2}', {"intent": "x", "n": 2})
    assert "adk_fluent.mock_state" not in event.metadata


async def test_a_dict_without_the_key_that_is_written() -> None:
    """Without that key, the dict is the answer that is stored, as JSON text, and merged all the same."""
    result = await ask(A.writes("intent"), {"n": 2})
    assert result.state == {"intent": '{"n": 2}', "n": 2}


async def test_a_dict_with_a_field_that_is_written() -> None:
    """A field of a schema is a key like any other; its plain name stands for it."""
    assert (await ask(A.writes(Desk.intent), {"intent": "x"})).state == {"intent": "x"}
    for key in ("user:tier", "tier"):
        assert (await ask(A.writes(Desk.tier), {key: "gold"})).state == {"user:tier": "gold"}


async def test_each_key_that_is_written_reaches_the_next_agent() -> None:
    """The steps that follow see the value, not the JSON text around it."""
    backend = script({"a": {"intent": "billing"}, "b": "ok"})
    route = Route("intent").eq("billing", B.instruct("{intent}")).otherwise(Agent("c"))
    await (A.writes("intent") >> route).run("hi", backend=backend)
    assert "billing" in system(backend.calls["b"][0])
    assert "{" not in system(backend.calls["b"][0])


async def test_a_dict_of_a_structured_agent_is_its_answer_alone() -> None:
    """With `returns`, a scripted dict is the JSON answer, and nothing else is written."""
    result = await ask((A @ Size).writes("size"), {"size": 3})
    assert result.output == Size(size=3)
    assert result.state == {"size": {"size": 3}}


async def test_a_list_answers_call_by_call() -> None:
    """Each call takes the next response, and the last repeats."""
    result = await ask(A * 4, ["one", "two"])
    assert said(result) == [("a", "one"), ("a", "two"), ("a", "two"), ("a", "two")]


async def test_a_list_goes_on_over_runs() -> None:
    """The script goes on in the next run of the same backend."""
    backend = mock_backend({"a": ["one", "two"]})
    assert [(await A.run("hi", backend=backend)).text for _ in range(3)] == ["one", "two", "two"]


async def test_an_exhausted_list_can_be_an_error() -> None:
    """With `exhaust="error"` a call too many names the agent and the numbers."""
    with pytest.raises(MockError, match=r"^Agent 'a' called its model 3 times, but its script has 2 resp"):
        await ask(A * 3, ["one", "two"], exhaust="error")


async def test_an_empty_list_is_an_error() -> None:
    """An empty list has no response to repeat."""
    with pytest.raises(MockError, match="'a' called its model 1 times, but its script has 0"):
        await ask(A, [])


async def test_an_agent_without_an_entry() -> None:
    """It is named, with the nearest entry and what to add; it is an error of ours."""
    with pytest.raises(MockError) as caught:
        await Agent("writer").run("hi", backend=mock_backend({"writter": "x"}))
    assert str(caught.value) == (
        "No scripted response for agent 'writer'. Did you mean 'writter'? Add 'writer' to "
        "mock_backend({...}), or give default=."
    )
    assert isinstance(caught.value, ADKFluentError)


async def test_an_agent_without_an_entry_that_does_not_run() -> None:
    """Only agents that are really called need an entry."""
    backend = mock_backend({"a": "ok"})
    assert (await (A // B).run("hi", backend=backend)).text == "ok"


MISTAKES: dict[str, Any] = {
    "no entry": {},
    "an empty list": {"a": []},
    "a list used up": {"a": [call_tool("look")]},
    "no such tool": {"a": call_tool("loook")},
    "no end": {"a": call_tool("look")},
    "no response": {"a": replies(lambda request: 3)},
}
"""Scripts of an agent with a tool `look` that cannot be meant."""


def look() -> str:
    """Look something up."""
    return "found"


LOOKER = A.tool(T.fn(look, in_thread=False))  # in the loop, so that its steps alone decide who is first
CATCHERS: dict[str, Expr[Any]] = {
    "a fallback": LOOKER // B,
    "a fallback of fallbacks": Pipeline("p", B >> (LOOKER // B.named("c")), B.named("d")) // B.named("e"),
    "a pipeline that may fail": (B >> LOOKER.timeout(60)) // B.named("c"),
    "a branch that may fail": (LOOKER | B) // B.named("c"),
    "a tool that may fail": Agent("c").tool(AgentTool(LOOKER.build(), include_plugins=False)) // B,
    "a race": race(LOOKER, B),
}
"""What goes on after a failure of a branch."""


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("catcher", CATCHERS)
async def test_a_mistake_in_a_script_is_caught_by_nothing(catcher: str, mistake: str) -> None:
    """A script that cannot be meant ends the test, whatever would go on after a failure of the agent."""

    async def late(request: LlmRequest) -> AsyncIterator[str]:
        for _ in range(1000):
            await asyncio.sleep(0)
        yield "ok"

    others: dict[str, Any] = {"b": late, "c": "ok", "d": "ok", "e": "ok"}
    if "tool" in catcher:
        others["c"] = call_tool("a", request="hi")
    backend = mock_backend({**others, **MISTAKES[mistake]}, exhaust="error")
    with pytest.raises(MockError, match="'a'"):
        await CATCHERS[catcher].run("hi", backend=backend)


async def test_a_default_response() -> None:
    """`default` answers for every agent without an entry."""
    backend = mock_backend({"a": "own"}, default=lambda request: "shared")
    assert said(await (A >> B >> Agent("c")).run("hi", backend=backend)) == [
        ("a", "own"),
        ("b", "shared"),
        ("c", "shared"),
    ]


@pytest.mark.parametrize(
    "response",
    [
        *(3, None, b"bytes", object(), [3], ["x", None], int),
        *(replies(lambda request: 3), replies(lambda request: None), replies(lambda request: [])),
    ],
)
async def test_a_wrong_response_is_named(response: Any) -> None:
    """What cannot be a response is an error that names the agent and shows it."""
    with pytest.raises(MockError, match=r"'a'"):
        await ask(A, response)


@pytest.mark.parametrize("responses", [{"a": None}, {"a": ["x", None]}])
def test_a_response_that_is_none(responses: Any) -> None:
    """`None` is refused where it is written, with what to write in its place."""
    with pytest.raises(MockError) as caught:
        mock_backend(responses)
    assert str(caught.value) == (
        "The script of 'a' holds None, which is no response. "
        'Write text ("" for an empty answer), a dict, a list with one response per call, call_tool(...), an '
        "exception, a Content, a stream of text or a function of the request; in a list, a list of texts and "
        "call_tool(...) is one answer. An agent that is not asked needs no entry."
    )


def test_a_wrong_default_is_refused() -> None:
    """So is a default that is no response."""
    wrong: Any = 3
    with pytest.raises(MockError, match="'default=' holds 3"):
        mock_backend(default=wrong)


async def test_the_calls_are_noted() -> None:
    """`calls` has each agent's requests in order, with what was said by then and the instruction."""
    backend = mock_backend({"a": ["one", "two"]}, default="ok")
    await (A.instruct("Be brief.") >> B >> A.instruct("Be brief.")).run("hi", backend=backend)
    first, second = backend.calls["a"]
    assert seen(first) == "hi"
    assert "one" in seen(second)
    assert "Be brief." in system(first)
    assert list(backend.calls) == ["a", "b"]


async def test_only_agents_that_were_asked_have_calls() -> None:
    """`calls` holds the agents that were asked; of one that was not, there is an empty list of requests."""
    backend = mock_backend({"a": "ok", "b": "never said"})
    await (A // B).run("hi", backend=backend)
    assert list(backend.calls) == ["a"]
    assert backend.calls["b"] == []
    assert backend.calls.get("b") is None
    assert len(backend.calls) == 1


async def test_the_calls_of_an_agent_that_is_not_there() -> None:
    """A misspelt name is an error that gives the nearest one."""
    backend = mock_backend({"writer": "ok"})
    await Agent("writer").run("hi", backend=backend)
    with pytest.raises(KeyError, match=r"No agent 'writter' was run\. Did you mean 'writer'"):
        backend.calls["writter"]


async def test_two_backends_know_nothing_of_each_other() -> None:
    """What a run stores for its user or app, or as a session, is not there for another mock backend."""
    writing = S.set(**{"user:tier": "gold", "app:version": 3}) >> A
    first, second = (mock_backend(default="ok") for _ in range(2))
    result = await writing.run("hi", backend=first)
    assert result.state == {"user:tier": "gold", "app:version": 3}
    assert (await A.run("hi", backend=first)).state == {"user:tier": "gold", "app:version": 3}
    assert (await A.run("hi", backend=second)).state == {}
    with pytest.raises(SessionError, match="There is no session"):
        await A.rewind(
            session_id=result.session_id, before_invocation_id=result.invocation_id, backend=second
        )


async def test_backends_may_share_a_service() -> None:
    """A service that is given, to the backend or to the run, counts."""
    service = InMemorySessionService()
    await (S.set(**{"user:tier": "gold"}) >> A).run("hi", backend=script(session_service=service))
    assert (await A.run("hi", backend=script(session_service=service))).state == {"user:tier": "gold"}
    options: Any = {"backend": mock_backend(default="ok"), "session_service": service}
    assert (await A.run("hi", **options)).state == {"user:tier": "gold"}


async def test_a_noted_call_does_not_change() -> None:
    """What was noted stays as it was, whatever happens to the request afterwards."""

    def meddle(callback_context: Any, llm_request: LlmRequest) -> None:
        llm_request.contents.append(content("from a callback"))

    def spoil(request: LlmRequest) -> str:
        request.contents.clear()
        request.config.system_instruction = "spoiled"
        return "ok"

    backend = mock_backend({"a": spoil})
    await A.instruct("Be brief.").before_model(meddle).run("hi", backend=backend)
    (noted,) = backend.calls["a"]
    assert seen(noted) == "hi\nfrom a callback"
    assert "Be brief." in system(noted)


async def test_uses_of_one_agent_share_its_script() -> None:
    """An agent in several places takes its responses in turn, and its calls stand together."""
    backend = mock_backend({"a": ["one", "two", "three"]})
    result = await (A >> A >> A).run("hi", backend=backend)
    assert [text for _, text in said(result)] == ["one", "two", "three"]
    assert [len(calls) for calls in backend.calls.values()] == [3]


async def test_one_use_can_have_a_script_of_its_own() -> None:
    """An entry for a derived name goes before the one for the agent."""
    backend = mock_backend({"a": "first", "a_2": "second"})
    assert said(await (A >> A).run("hi", backend=backend)) == [("a", "first"), ("a_2", "second")]
    assert list(backend.calls) == ["a", "a_2"]


async def test_text_is_streamed_word_by_word() -> None:
    """Streaming, text comes in words, and the pieces together are the whole."""
    events = [e async for e in A.stream("hi", backend=mock_backend({"a": "one two  three"}))]
    pieces = [e.content or "" for e in events if e.is_partial]
    assert len(pieces) > 2
    assert "".join(pieces) == events[-1].content == "one two  three"


async def test_an_async_iterable_is_streamed_as_it_comes() -> None:
    """Streaming, each piece of an async iterable is one event."""
    backend = mock_backend({"a": lambda request: chunks("on", "e two ", "three")})
    events = [e async for e in A.stream("hi", backend=backend)]
    assert [e.content for e in events] == ["on", "e two ", "three", "one two three"]


async def test_it_runs_everything_but_the_models() -> None:
    """Transforms, branches, callbacks and tools run as they do with real models."""
    order: list[str] = []

    def note(callback_context: Any, llm_request: LlmRequest) -> None:
        order.append("before")

    expression = S.set(x=1) >> FanOut(A.before_model(note), S.counter("x"))
    result = await expression.run("hi", backend=mock_backend({"a": "ok"}))
    assert result.state == {"x": 2}
    assert order == ["before"]


async def test_models_of_the_agents_are_not_asked() -> None:
    """A model that an agent names is replaced, so nothing can call out."""
    result = await Agent("a", "gemini-2.5-flash").run("hi", backend=mock_backend({"a": "scripted"}))
    assert result.text == "scripted"


async def test_usage_is_estimated() -> None:
    """Without a usage of its own a response counts as one call, with tokens by its length."""
    result = await ask(A, "x" * 40)
    ((key, usage),) = result.usage.items()
    assert key[0] == "a"
    assert (usage.calls, usage.output_tokens) == (1, 10)


def test_it_is_a_backend() -> None:
    """`mock_backend` gives a `MockBackend`, which keeps to the backend protocol."""
    from adk_fluent.backends.protocol import Backend

    backend = mock_backend({})
    assert isinstance(backend, MockBackend)
    assert isinstance(backend, Backend)


@pytest.mark.parametrize("responses", [[("a", "x")], "text", {3: "x"}])
def test_a_wrong_script_is_refused(responses: Any) -> None:
    """Responses are a mapping from agent names."""
    with pytest.raises(ArgumentError, match="agent names"):
        mock_backend(responses)


def test_a_wrong_way_to_exhaust_is_refused() -> None:
    """`exhaust` is `repeat` or `error`."""
    wrong: Any = "stop"
    with pytest.raises(ArgumentError, match="'repeat' or 'error'"):
        mock_backend({}, exhaust=wrong)


async def test_a_stream_of_whole_responses_is_given_as_it_is() -> None:
    """A stream may hold responses: pieces reach a run that streams, and the whole one every run."""

    async def answer(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=content("He"), partial=True)
        yield LlmResponse(content=content("Hello."), model_version="m-1")

    result = await A.run("hi", backend=mock_backend({"a": answer}))
    assert [(event.content, event.model) for event in result] == [("Hello.", "m-1")]
    stream = A.stream("hi", backend=mock_backend({"a": answer}))
    assert [event.content async for event in stream] == ["He", "Hello."]


async def test_a_recorded_call_says_what_tests_ask_for() -> None:
    """`.system`, `.texts` and `.tools` of a request are plain text; it equals the request of ADK."""

    def weather(city: str) -> str:
        """Say how the weather is."""
        return f"sunny in {city}"

    backend = mock_backend({"a": [call_tool("weather", city="Oslo"), "Sunny."]})
    agent = Agent("a").instruct("Help {name}.").tools(weather, T.google_search())
    await agent.run(["Hi", types.Part(text="there")], state={"name": "Ann"}, backend=backend)
    first, second = backend.calls["a"]
    assert_type(first, ModelRequest)
    assert_type(first.system.splitlines(), list[str])
    assert first.system.startswith("Help Ann.")
    assert (first.texts, second.texts) == (["Hi", "there"], ["Hi", "there"])
    assert first.tools == ["weather", "google_search"]
    plain = LlmRequest.model_construct(**dict(first))
    assert isinstance(first, LlmRequest)
    assert (first == first.model_copy(), first == second) == (True, False)
    assert (plain == first, first == plain, plain == second) == (True, True, False)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, ""),
        ("Help.", "Help."),
        (types.Part(text="Help."), "Help."),
        (types.Content(parts=[types.Part(text="Help."), types.Part(text="Now.")]), "Help.\n\nNow."),
        (["Help.", types.Part(text="Now.")], "Help.\n\nNow."),
    ],
)
def test_a_system_instruction_of_any_kind_is_text(given: Any, shown: str) -> None:
    """ADK takes text, parts and contents as an instruction."""
    config = types.GenerateContentConfig(system_instruction=given)
    assert ModelRequest(config=config).system == shown


@pytest.mark.parametrize("parts", [[], ["x", {"k": 1}], [["x"]]])
def test_parts_of_one_answer_are_texts_and_calls(parts: Any) -> None:
    """A list in a list holds nothing else, and something."""
    with pytest.raises(MockError, match="'a' holds "):
        mock_backend({"a": [parts]})
