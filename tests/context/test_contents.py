from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.apps.app import App
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.load_artifacts_tool import load_artifacts_tool
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import Agent, C
from adk_fluent.backends.adk.running.backend import ADKBackend
from adk_fluent.config import CompactionConfig, ExecutionConfig
from adk_fluent.context.spec import Context
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.context.talk import ask, contents, everything, last, system

SAYS = {"writer": "W-TEXT", "critic": "C-TEXT", "me": "M-TEXT"}
PICTURE = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")


def lookup(city: str) -> str:
    """Look something up."""
    return f"sunny in {city}"


def pipeline(spec: Context) -> Any:
    """Two agents before the one whose context is looked at."""
    return Agent("writer") >> Agent("critic") >> Agent("me").instruct("Do it.").context(spec)


# --- the selection as messages --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (C.none(), ["SECOND"]),
        (C.user_only(), ["FIRST", "SECOND"]),
        (C.window(1), ["SECOND", "[writer] said: W-TEXT", "[critic] said: C-TEXT"]),
        (
            C.exclude_agents("writer"),
            ["FIRST", "[critic] said: C-TEXT", "M-TEXT", "SECOND", "[critic] said: C-TEXT"],
        ),
        (
            C.from_agents("me"),
            ["FIRST", "M-TEXT", "SECOND"],
        ),
        (
            C.window(1) | C.redact("TEXT|SECOND", replacement="#"),
            ["#", "[writer] said: W-#", "[critic] said: C-#"],
        ),
        (C.dedup(), ["FIRST", "[writer] said: W-TEXT", "[critic] said: C-TEXT", "M-TEXT", "SECOND"]),
        (C.project("files"), ["SECOND"]),
    ],
    ids=lambda value: repr(value) if isinstance(value, Context) else "",
)
async def test_the_selection_arrives_as_messages(spec: Context, expected: list[str]) -> None:
    """With `as_contents` the selection stands among the messages in order, and in no block."""
    request = await last(pipeline(spec.as_contents()), "me", "FIRST", "SECOND", responses=SAYS)
    assert [text for _, text in contents(request)] == expected
    assert system(request) == "Do it."
    roles = {text: role for role, text in contents(request)}
    assert roles.get("M-TEXT", "model") == "model"


async def test_the_whole_conversation_as_messages_is_adks_own() -> None:
    """`C.default().as_contents()` is what ADK itself would send."""
    one = await last(pipeline(C.default().as_contents()), "me", "FIRST", "SECOND", responses=SAYS)
    plain = Agent("writer") >> Agent("critic") >> Agent("me").instruct("Do it.")
    other = await last(plain, "me", "FIRST", "SECOND", responses=SAYS)
    assert one.contents == other.contents
    wide = await last(pipeline(C.window(99).as_contents()), "me", "FIRST", "SECOND", responses=SAYS)
    assert wide.contents == other.contents


async def test_state_stays_in_the_instruction() -> None:
    """Beside messages, values of the state are still shown in the block."""
    expression = Agent("writer").writes("draft") >> Agent("me").context(
        (C.window(1) + C.from_state("draft")).as_contents()
    )
    request = await last(expression, "me", "GO", responses=SAYS)
    assert system(request) == "<conversation_context>\n[draft]: W-TEXT\n</conversation_context>"
    assert [text for _, text in contents(request)] == ["GO", "[writer] said: W-TEXT"]


async def test_images_survive() -> None:
    """Images of earlier turns reach the model as images with `as_contents`, and as words without it."""
    prompts = (["what is this?", PICTURE], "and now?")
    me = Agent("me")
    request = await last(me.context(C.window(9).as_contents()), "me", *prompts, responses=SAYS)
    assert contents(request) == [
        ("user", "what is this? file image/png"),
        ("model", "M-TEXT"),
        ("user", "and now?"),
    ]
    assert request.contents[0].parts is not None
    assert request.contents[0].parts[1] == PICTURE
    request = await last(me.context(C.window(9)), "me", *prompts, responses=SAYS)
    assert contents(request) == [("user", "and now?")]
    assert "[user]: what is this? (attached: image/png)" in system(request)


async def test_an_image_of_the_current_message_is_always_sent() -> None:
    """Whatever the spec says, the current message keeps its parts; `redact` changes only its text."""
    for spec in (C.none(), C.from_state("x"), C.user_only(), C.redact("SECRET")):
        request = await last(Agent("me").context(spec), "me", ["a SECRET", PICTURE], responses=SAYS)
        shown = "[REDACTED]" if spec.op == "redact" else "SECRET"
        assert contents(request) == [("user", f"a {shown} file image/png")]


async def test_an_image_that_an_agent_made() -> None:
    """An image in another agent's answer is selected with it."""
    made = types.Content(role="model", parts=[types.Part(text="Here."), PICTURE])
    spec = C.from_agents("writer").as_contents()
    request = await last(pipeline(spec), "me", "GO", responses={**SAYS, "writer": made})
    assert contents(request) == [("user", "GO"), ("user", "[writer] said: Here. file image/png")]


async def test_tool_use_arrives_as_tool_use() -> None:
    """Earlier tool calls of the agent and their results are real ones, in pairs."""
    me = Agent("me").tool(lookup).context(C.window(9).as_contents())
    says = {"me": [call_tool("lookup", city="Rome"), "M-1", call_tool("lookup", city="Oslo"), "M-2"]}
    request = await last(me, "me", "FIRST", "SECOND", responses=says)
    assert contents(request) == [
        ("user", "FIRST"),
        ("model", "call lookup"),
        ("user", "result {'result': 'sunny in Rome'}"),
        ("model", "M-1"),
        ("user", "SECOND"),
        ("model", "call lookup"),
        ("user", "result {'result': 'sunny in Oslo'}"),
    ]


async def test_tool_use_that_lost_its_half_becomes_words() -> None:
    """A call selected without its result is sent as text, since no provider takes it alone."""
    me = Agent("me").tool(lookup).context(C.select(type="tool_call").as_contents())
    says = {"me": [call_tool("lookup", city="Rome"), "M-1", "M-2"]}
    request = await last(me, "me", "FIRST", "SECOND", responses=says)
    assert contents(request) == [("model", '(calls lookup({"city": "Rome"}))'), ("user", "SECOND")]


async def test_compacted_tool_use_is_text() -> None:
    """`compact` makes one text of a finished call and its result, also as messages."""
    me = Agent("me").tool(lookup).context(C.compact().as_contents())
    says = {"me": [call_tool("lookup", city="Rome"), "M-1", "M-2"]}
    request = await last(me, "me", "FIRST", "SECOND", responses=says)
    assert contents(request) == [
        ("user", "FIRST"),
        ("model", '(lookup({"city": "Rome"}) gave {"result": "sunny in Rome"})\nM-1'),
        ("user", "SECOND"),
    ]


async def test_redacted_results_stay_results() -> None:
    """`redact` changes what is in a result; it stays a result of its call."""
    me = Agent("me").tool(lookup).context(C.redact("Rome", replacement="#").as_contents())
    says = {"me": [call_tool("lookup", city="Rome"), "in Rome", "M-2"]}
    backend = await ask(me, "Rome?", "SECOND", responses=says)
    assert contents(backend.calls["me"][1]) == [
        ("user", "#?"),
        ("model", "call lookup"),
        ("user", "result {'result': 'sunny in #'}"),
    ]
    assert [text for _, text in contents(backend.calls["me"][2])] == [
        "#?",
        "call lookup",
        "result {'result': 'sunny in #'}",
        "in #",
        "SECOND",
    ]


async def test_history_is_never_changed() -> None:
    """Whatever contexts do, the session keeps what was really said."""
    service = InMemorySessionService()
    backend = mock_backend(SAYS, session_service=service)
    for spec in (C.redact("SECRET|TEXT"), C.none(), C.compact().as_contents()):
        result = await pipeline(spec).run("a SECRET", backend=backend)
        session = await service.get_session(
            app_name="adk_fluent_app", user_id="user", session_id=result.session_id
        )
        assert session is not None
        said = ["".join(p.text or "" for p in e.content.parts or []) for e in session.events if e.content]
        assert said == ["a SECRET", "W-TEXT", "C-TEXT", "M-TEXT"]


# --- what others add to the request ---------------------------------------------------------------


async def test_additions_of_tools_to_a_request_stay() -> None:
    """An artifact that ADK's tool loads into the request is there, since the context is applied before."""
    backend = MockBackend(
        {"me": [call_tool("load_artifacts", artifact_names=["note.txt"]), "done"]},
        session_service=InMemorySessionService(),
    )
    me = Agent("me").tool(load_artifacts_tool).context(C.none())
    services = backend.services()
    assert services.artifact_service is not None
    assert services.session_service is not None
    await services.session_service.create_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    await services.artifact_service.save_artifact(
        app_name="adk_fluent_app",
        user_id="user",
        session_id="s",
        filename="note.txt",
        artifact=types.Part(text="THE NOTE"),
    )
    await me.run("GO", backend=backend, session_id="s")
    assert "THE NOTE" in everything(backend.calls["me"][-1])


async def test_callbacks_of_the_user_see_the_request_as_it_is_sent() -> None:
    """Before-model callbacks get the context already applied, and can change it."""
    seen: list[Any] = []

    def look(callback_context: Any, llm_request: LlmRequest) -> None:
        seen.append(contents(llm_request))
        llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="ADDED")]))

    me = Agent("me").context(C.none()).before_model(look)
    request = await last(Agent("writer") >> me, "me", "GO", responses=SAYS)
    assert seen == [[("user", "GO")]]
    assert contents(request) == [("user", "GO"), ("user", "ADDED")]


async def test_plugins_see_the_request_as_it_is_sent() -> None:
    """Plugins run before callbacks, and still get the context already applied."""
    seen: list[Any] = []

    class Watching(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
            seen.append((system(llm_request), contents(llm_request)))

    class Watched(MockBackend):
        def plugins(self) -> list[BasePlugin]:
            return [*super().plugins(), Watching(name="watching")]

    backend = Watched(SAYS, session_service=InMemorySessionService())
    await (Agent("writer") >> Agent("me").context(C.window(1))).run("GO", backend=backend)
    block = "<conversation_context>\n[writer]: W-TEXT\n</conversation_context>"
    assert seen[-1] == (block, [("user", "GO")])


async def test_code_that_a_model_runs_stays() -> None:
    """Code that ran in this turn, and its output, reach the model like the results of tools."""
    me = Agent("me").code_executor(UnsafeLocalCodeExecutor()).context(C.none())
    answers = ["```python\nprint(6 * 7)\n```", "It is 42."]
    request = await last(Agent("writer") >> me, "me", "GO", responses={**SAYS, "me": answers})
    text = str(request.contents)
    assert "6 * 7" in text
    assert "42" in text
    assert "W-TEXT" not in text


async def test_runs_at_the_same_time_are_separate() -> None:
    """One compiled agent serves several runs at once; each sees its own conversation."""
    backend = MockBackend(
        {"writer": lambda request: f"ABOUT {contents(request)[-1][1]}", "me": "M"},
        session_service=InMemorySessionService(),
    )
    expression = Agent("writer") >> Agent("me").context(C.window(1))
    await expression.map([f"Q{number}" for number in range(6)], concurrency=6, backend=backend)
    shown = sorted((text, system(r)) for r in backend.calls["me"] for _, text in contents(r))
    assert shown == [
        (f"Q{i}", f"<conversation_context>\n[writer]: ABOUT Q{i}\n</conversation_context>") for i in range(6)
    ]


# --- rewinds, summaries, sessions -----------------------------------------------------------------


@pytest.mark.parametrize("spec", [C.window(9), C.user_only(), C.window(9).as_contents()], ids=repr)
async def test_a_rewound_run_does_not_come_back(spec: Context) -> None:
    """A run that was undone is gone from every selection."""
    me = Agent("me").context(spec)
    backend = mock_backend({"me": ["M-1", "M-2", "M-3"]}, session_service=InMemorySessionService())
    await me.run("KEPT", backend=backend, session_id="s")
    undone = await me.run("UNDONE", backend=backend, session_id="s")
    await me.rewind(session_id="s", before_invocation_id=undone.invocation_id, backend=backend)
    await me.run("NOW", backend=backend, session_id="s")
    text = everything(backend.calls["me"][-1])
    assert "KEPT" in text
    assert "UNDONE" not in text
    assert "M-2" not in text


async def _with_summary(service: InMemorySessionService) -> None:
    """A session in which ADK summarized the first turn."""
    session = await service.create_session(app_name="adk_fluent_app", user_id="user", session_id="s")

    def said(author: str, text: str, at: float) -> Event:
        role = "user" if author == "user" else "model"
        content = types.Content(role=role, parts=[types.Part(text=text)])
        return Event(author=author, invocation_id=f"i{int(at)}", timestamp=at, content=content)

    summary = EventCompaction(
        start_timestamp=1.0,
        end_timestamp=2.0,
        compacted_content=types.Content(role="model", parts=[types.Part(text="SUMMARY")]),
    )
    made = Event(author="user", invocation_id="c", timestamp=2.5, actions=EventActions(compaction=summary))
    for event in (said("user", "U-1", 1.0), said("me", "M-1", 2.0), made, said("user", "U-2", 3.0)):
        await service.append_event(session, event)
    await service.append_event(session, said("me", "M-2", 4.0))


@pytest.mark.parametrize(
    ("spec", "shown", "hidden"),
    [
        (C.dedup(), ["SUMMARY", "U-2", "M-2"], ["U-1", "M-1"]),
        (C.dedup().as_contents(), ["SUMMARY", "U-2", "M-2"], ["U-1", "M-1"]),
        (C.user_only(), ["U-1", "U-2"], ["SUMMARY", "M-1", "M-2"]),
        (C.from_agents("me"), ["U-1", "M-1", "U-2", "M-2"], ["SUMMARY"]),
        (C.window(2), ["U-2", "M-2"], ["SUMMARY", "U-1"]),
        (C.none(), [], ["SUMMARY", "U-1", "U-2", "M-1", "M-2"]),
    ],
    ids=lambda value: repr(value) if isinstance(value, Context) else "",
)
async def test_summaries_that_adk_made(spec: Context, shown: list[str], hidden: list[str]) -> None:
    """The conversation as a whole has ADK's summary; what is chosen by author or turn has the events."""
    service = InMemorySessionService()
    await _with_summary(service)
    backend = mock_backend(SAYS, session_service=service)
    await Agent("me").context(spec).run("NOW", backend=backend, session_id="s")
    text = everything(backend.calls["me"][-1])
    assert [part for part in shown if part not in text] == []
    assert [part for part in hidden if part in text] == []


async def test_a_native_runner_gets_the_context_too() -> None:
    """An agent that was built applies its context on any ADK runner."""
    backend = MockBackend(SAYS, session_service=InMemorySessionService())
    root = backend.compile(pipeline(C.user_only()).to_ir()).app.root_agent
    service = InMemorySessionService()
    runner = Runner(app=App(name="app", root_agent=root), session_service=service)
    await service.create_session(app_name="app", user_id="u", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="GO")])
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
        pass
    assert contents(backend.calls["me"][-1]) == [("user", "GO")]


async def test_the_history_of_a_model_server_is_not_used() -> None:
    """A model that keeps the conversation on its server gets a request that stands for itself."""
    requests: list[LlmRequest] = []

    class Remembering(Gemini):
        _count: int = PrivateAttr(default=0)

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            requests.append(llm_request)
            self._count += 1
            content = types.Content(role="model", parts=[types.Part(text=f"M-{self._count}")])
            yield LlmResponse(content=content, interaction_id=f"interaction-{self._count}")

    def previous(spec: Context) -> Any:
        model = Remembering(model="gemini-2.5-flash", use_interactions_api=True)
        return Agent("me", model).context(spec)

    for spec, remembers in ((C.default(), True), (C.none(), False), (C.window(1).as_contents(), False)):
        requests.clear()
        async with previous(spec).session(backend=ADKBackend(InMemorySessionService())) as chat:
            await chat.send("FIRST")
            await chat.send("SECOND")
        assert bool(requests[-1].previous_interaction_id) is remembers
        assert ("FIRST" in everything(requests[-1])) is False or spec == C.default()


async def test_compaction_can_be_configured() -> None:
    """A context works beside ADK's own compaction of events."""
    config = ExecutionConfig(compaction=CompactionConfig(interval=2, overlap=1))
    backend = mock_backend(default="SAID", session_service=InMemorySessionService())
    async with Agent("me").context(C.user_only()).session(backend=backend, config=config) as chat:
        for number in range(4):
            await chat.send(f"Q{number}")
    (request,) = [r for r in backend.calls["me"] if contents(r) == [("user", "Q3")]]
    assert system(request).count("[user]: Q") == 3
