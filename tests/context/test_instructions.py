from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.artifacts import InMemoryArtifactService
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService
from google.adk.utils.instructions_utils import inject_session_state
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adk_fluent import Agent, C, Pipeline
from adk_fluent.backends.adk.steps.instructions import artifact_text
from adk_fluent.errors import MissingKeyError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.template import Placeholder, is_portable, placeholders, render, segments
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.support import ANYWAY
from tests.context.talk import contents, everything, last, system

STATE: dict[str, Any] = {"name": "Ann", "n": 3, "user:tier": "gold", "d": {"a": 1}}


async def said(instruction: Any, **options: Any) -> str:
    """The instruction as the model of an agent gets it."""
    agent: Expr[Any] = Agent("me").instruct(instruction)
    return system(await last(agent, "me", responses={"me": "M"}, state=STATE, **options))


def built(agent: Agent[Any]) -> LlmAgent:
    """The native agent, without its model."""
    native = mock_backend(default="x").compile(agent.to_ir()).app.root_agent
    assert isinstance(native, LlmAgent)
    return native


# --- templates ------------------------------------------------------------------------------------

TEMPLATES = [
    ("Hello {name}.", "Hello Ann."),
    ("{ name }{n}", "Ann3"),
    ("{user:tier} {missing?}.", "gold ."),
    ("{d}", "{'a': 1}"),
    ("no braces", "no braces"),
    ('Answer as {"name": "...", "age": 0}.', 'Answer as {"name": "...", "age": 0}.'),
    ('{"user": {"name": {name}, "n": {n}}}', '{"user": {"name": Ann, "n": 3}}'),
    ('{"who": {name}}', '{"who": Ann}'),
    ("{}", "{}"),
    ("{0} {a.b} {x!r} {a b}", "{0} {a.b} {x!r} {a b}"),
    ("def f(): return {k: v for k, v in x}", "def f(): return {k: v for k, v in x}"),
    (r"Write \{name} as it is.", "Write {name} as it is."),
    (r"\{name} is {name}", "{name} is Ann"),
    (r"\{artifact.cv}", "{artifact.cv}"),
    (r"\frac{a b}{c d}", r"\frac{a b}{c d}"),
    ("${name}", "${name}"),
    ("$ {name}", "$ Ann"),
    ("{{name}}", "Ann"),
    ("{{ name }}", "Ann"),
    ("{{not a key}}", "{{not a key}}"),
    ("{% if x %}", "{% if x %}"),
]


@pytest.mark.parametrize(("template", "expected"), TEMPLATES)
@pytest.mark.parametrize("context", [None, C.from_state("nothing")], ids=["plain", "with context"])
async def test_templates_are_rendered_alike_everywhere(template: str, expected: str, context: Any) -> None:
    """A template gives this text on every ADK release, with and without a context."""
    agent = Agent("me").instruct(template)
    agent = agent if context is None else agent.context(context)
    request = await last(agent, "me", responses={"me": "M"}, state=STATE)
    assert system(request) == expected


@pytest.mark.parametrize(("template", "expected"), TEMPLATES)
def test_rendering_is_a_pure_function(template: str, expected: str) -> None:
    """The renderer gives the same, without ADK."""

    def value(found: Placeholder) -> str:
        return str(STATE.get(found.key, ""))

    assert render(template, value) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab \"'", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from([None, 2]))
def test_json_just_works(value: object, indent: int | None) -> None:
    """No JSON document holds a placeholder, so any can stand in an instruction as it is."""
    document = json.dumps(value, indent=indent)
    assert placeholders(document) == ()
    assert render(document, lambda _: "!") == document
    assert is_portable(document)


@given(st.text('{}\\$ab?:." ', max_size=20))
def test_a_template_without_placeholders_is_itself(template: str) -> None:
    """Whatever its braces, a template without placeholders is only freed of the escapes of placeholders."""
    if not placeholders(template):
        assert render(template, lambda _: "!") == "".join(str(piece) for piece in segments(template))
        if "\\" not in template:
            assert render(template, lambda _: "!") == template


@given(st.text("{}ab ", max_size=20))
def test_braces_that_enclose_nothing_stay(template: str) -> None:
    """Rendering a placeholder as itself in braces leaves a template of single braces as it was."""
    if is_portable(template):
        assert render(template, lambda found: f"{{{found.key}}}").replace(" ", "") == template.replace(
            " ", ""
        )


PIECES = [
    "{name}",
    "{n}",
    "{ d }",
    "{gone?}",
    "{user:tier}",
    "{",
    "}",
    "{}",
    '{"a": 1}',
    "{{name}}",
    "$",
    "x ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=6))
def test_portable_templates_are_rendered_as_adk_does(pieces: list[str]) -> None:
    """Instructions are left to ADK only if ADK's own injection renders them to the same text."""
    template = "".join(pieces)
    if not is_portable(template):
        return
    session = SimpleNamespace(state=STATE)
    context: Any = SimpleNamespace(_invocation_context=SimpleNamespace(session=session), agent_name="me")
    native = asyncio.run(inject_session_state(template, context))
    assert native == render(template, lambda found: str(STATE.get(found.key, "")))


@pytest.mark.parametrize(
    ("template", "portable"),
    [("{name}", True), ("{a.b}", True), (r"\{name}", False), ("${name}", False), ("{{name}}", False)],
)
def test_text_stays_text_where_every_release_agrees(template: str, portable: bool) -> None:
    """An instruction is plain text for ADK unless its releases would render it differently."""
    native = built(Agent("me").instruct(template))
    assert isinstance(native.instruction, str) is portable
    assert is_portable(template) is portable


async def test_a_missing_key_is_explained_alike() -> None:
    """A missing key gives the same error in ADK and here; the error explains doubled braces."""
    messages: list[str] = []
    for agent in (
        Agent("me").instruct("{topik}"),
        Agent("me").instruct("{topik}").context(C.none()),
        Agent("me").instruct("{{topik}}"),
    ):
        pipeline = Agent("writer").writes("topic") >> agent
        with pytest.raises(MissingKeyError) as caught:
            await pipeline.run("GO", backend=mock_backend(default="x"), config=ANYWAY)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[2] == messages[0].replace(
        "If you mean the text {topik}, write \\{topik}.",
        "If {{topik}} is meant as the text {topik}, write \\{topik}: doubled braces are no escape.",
    )
    assert messages[2] != messages[0]
    assert "'me' needs state key 'topik'" in messages[0]
    assert "Did you mean 'topic'?" in messages[0]


async def test_global_instructions_follow_the_same_rules() -> None:
    """The root's global instruction is rendered like any other."""
    agent = Agent("me").global_instruct(r"All: \{name} {name}.").instruct("Own: {n}")
    request = await last(agent, "me", responses={"me": "M"}, state=STATE)
    assert system(request) == "All: {name} Ann.\n\nOwn: 3"


# --- artifacts ------------------------------------------------------------------------------------


async def with_artifact(agent: Agent[Any], part: types.Part) -> MockBackend:
    """Run an agent in a session that has an artifact called `cv`."""
    service = InMemoryArtifactService()
    place: dict[str, Any] = {"app_name": "adk_fluent_app", "user_id": "user", "session_id": "s"}
    await service.save_artifact(**place, filename="cv", artifact=part)
    backend = mock_backend({"me": "M"}, session_service=InMemorySessionService(), artifact_service=service)
    await agent.run("GO", backend=backend, session_id="s")
    return backend


@pytest.mark.parametrize("context", [None, C.none()], ids=["plain", "with context"])
@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (types.Part(text="I can cook."), "I can cook."),
        (types.Part.from_bytes(data=b"I can cook.", mime_type="text/plain"), "I can cook."),
        (types.Part.from_bytes(data=b'{"a": 1}', mime_type="application/json"), '{"a": 1}'),
        (types.Part.from_bytes(data=b"\x89", mime_type="image/png"), "[cv: image/png]"),
    ],
    ids=["text", "plain", "json", "image"],
)
async def test_artifacts_are_shown_as_text(part: types.Part, shown: str, context: Any) -> None:
    """`{artifact.name}` is the artifact's text, or what it is."""
    agent = Agent("me").instruct("CV: {artifact.cv}{artifact.letter?}")
    backend = await with_artifact(agent if context is None else agent.context(context), part)
    assert system(backend.calls["me"][0]) == f"CV: {shown}"


async def test_a_missing_artifact_is_explained() -> None:
    """A required artifact that is not there stops the run, naming agent and artifact."""
    with pytest.raises(MissingKeyError, match="'me' needs artifact 'letter'"):
        await with_artifact(Agent("me").instruct("{artifact.letter}"), types.Part(text="x"))


def test_an_artifact_in_another_place() -> None:
    """An artifact that is only a link is named with its type."""
    part = types.Part.from_uri(file_uri="gs://b/x", mime_type="video/mp4")
    assert artifact_text(part, "film") == "[film: video/mp4]"
    assert artifact_text(types.Part(), "film") == "[film: no content]"


# --- prompt and context together ------------------------------------------------------------------

CONTEXT = "<conversation_context>\n[name]: Ann\n</conversation_context>"


def greet(ctx: Any) -> str:
    """An instruction as a function."""
    return f"Hi {ctx.state['name']}."


@pytest.mark.parametrize("instruction", ["Hi {name}.", greet], ids=["text", "function"])
@pytest.mark.parametrize("context_first", [True, False])
async def test_neither_overwrites_the_other(instruction: Any, context_first: bool) -> None:
    """The instruction comes first and the block after it, in whatever order they were given."""
    agent = Agent("me")
    if context_first:
        agent = agent.reads("name").instruct(instruction)
    else:
        agent = agent.instruct(instruction).reads("name")
    request = await last(agent, "me", responses={"me": "M"}, state=STATE)
    assert system(request) == f"Hi Ann.\n\n{CONTEXT}"


async def test_a_function_is_used_as_it_is() -> None:
    """The result of an instruction function is no template; the function may be async."""

    async def later(ctx: Any) -> str:
        return f"{ctx.agent_name}: {{name}}"

    for agent in (Agent("me").instruct(later), Agent("me").instruct(later).reads("name")):
        request = await last(agent, "me", responses={"me": "M"}, state=STATE)
        assert system(request).startswith("me: {name}")


async def test_values_are_not_templates() -> None:
    """Braces in the state or in what was said are never filled."""
    agent = Agent("writer") >> Agent("me").instruct("{x}").context(C.window(1) + C.from_state("x"))
    request = await last(agent, "me", "{name}", responses={"writer": "{n}", "me": "M"}, state={"x": "{y}"})
    assert (
        system(request) == "{y}\n\n<conversation_context>\n[x]: {y}\n[writer]: {n}\n</conversation_context>"
    )
    assert contents(request) == [("user", "{name}")]


async def test_a_static_instruction_stays_static() -> None:
    """With a static instruction, it alone is the system instruction; the rest comes as content before
    the user's message, so that a provider's cache of the static part holds."""
    agent = Agent("me").static("STATIC").instruct("Dynamic {name}.").reads("name")
    requests: list[LlmRequest] = []
    for prompt in ("ONE", "TWO"):
        requests.append(await last(agent, "me", prompt, responses={"me": "M"}, state=STATE))
    assert system(requests[0]) == system(requests[1]) == "STATIC"
    for request, prompt in zip(requests, ("ONE", "TWO"), strict=True):
        (_, dynamic), (role, message) = contents(request)
        assert f"Dynamic Ann.\n\n{CONTEXT}" in dynamic
        assert (role, message) == ("user", prompt)


async def test_a_static_instruction_and_nothing_else() -> None:
    """If context and instruction are empty, nothing is added beside the static part."""
    for agent in (Agent("me").static("STATIC").context(C.none()), Agent("me").static("STATIC").reads("x")):
        request = await last(agent, "me", "GO", responses={"me": "M"})
        assert system(request) == "STATIC"
        assert contents(request) == [("user", "GO")]


async def test_a_static_instruction_with_tools_in_between() -> None:
    """In a turn with tool calls the dynamic part still comes once, and calls stay paired."""

    def look() -> str:
        """Look."""
        return "seen"

    agent = Agent("me").static("STATIC").instruct("Dynamic.").tool(look).context(C.none())
    request = await last(agent, "me", "GO", responses={"me": [call_tool("look"), "M"]})
    text = everything(request)
    assert text.count("Dynamic.") == 1
    assert text.count("GO") == 1
    shown = [text for _, text in contents(request)]
    assert shown.index("call look") + 1 == shown.index("result {'result': 'seen'}")


async def test_an_agent_without_an_instruction() -> None:
    """A context needs no instruction, and without anything to show adds nothing."""
    request = await last(Agent("me").reads("name"), "me", responses={"me": "M"}, state=STATE)
    assert system(request) == CONTEXT
    request = await last(Agent("me").context(C.none()), "me", responses={"me": "M"}, state=STATE)
    assert system(request) == ""


async def test_structured_answers_with_a_context() -> None:
    """An output schema and a context go together."""
    from pydantic import BaseModel

    class Answer(BaseModel):
        n: int

    agent = Agent("me").instruct("Count.").reads("name").returns(Answer)
    backend = mock_backend({"me": {"n": 4}}, session_service=InMemorySessionService())
    result = await agent.run("GO", backend=backend, state=STATE)
    assert result.output == Answer(n=4)
    assert system(backend.calls["me"][0]) == f"Count.\n\n{CONTEXT}"


# --- pauses ---------------------------------------------------------------------------------------


async def test_a_context_holds_after_a_pause() -> None:
    """After a person approved a tool, the model sees its call with the result, and still its context."""
    done: list[str] = []

    def pay(amount: int) -> str:
        """Pay."""
        done.append(str(amount))
        return f"paid {amount}"

    agent = Agent("me").instruct("Pay.").tool(pay, require_confirmation=True).reads("name")
    expression = Pipeline(Agent("writer").writes("w"), agent)
    backend = mock_backend(
        {"writer": "W-TEXT", "me": [call_tool("pay", amount=5), "M"]},
        session_service=InMemorySessionService(),
    )
    paused = await expression.run("GO", backend=backend, state=STATE)
    (pending,) = paused.pending
    assert done == []
    result = await expression.resume(
        session_id=paused.session_id, approvals={pending.id: True}, backend=backend
    )
    assert result.text == "M"
    assert done == ["5"]
    request = backend.calls["me"][-1]
    assert system(request) == f"Pay.\n\n{CONTEXT}"
    shown = [text for _, text in contents(request)]
    assert shown[0] == "GO"
    assert shown.count("call pay") == 1
    assert "result {'result': 'paid 5'}" in shown[-1]
    assert "W-TEXT" not in everything(request)


async def test_a_helper_is_not_in_the_way_of_a_pause() -> None:
    """Tokens of a helper model are reported, and a paused run still resumes."""
    calls: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        calls.append(amount)
        return "paid"

    agent = Agent("me").tool(pay, require_confirmation=True).context(C.summarize())
    script = {"writer": "W", "me": [call_tool("pay", amount=5), "M"], "me:summarize": "SHORT"}
    service = InMemorySessionService()
    expression = Agent("writer") >> agent
    paused = await expression.run("GO", backend=mock_backend(script, session_service=service))
    # Another process: nothing is kept, so the helper is asked again when the run resumes.
    other = mock_backend({**script, "me": "M"}, session_service=service)
    result = await expression.resume(
        session_id=paused.session_id, approvals={paused.pending[0].id: True}, backend=other
    )
    assert (result.text, calls) == ("M", [5])
    assert len(other.calls["me:summarize"]) == 1


# --- the other target -----------------------------------------------------------------------------


@pytest.mark.newest
async def test_contexts_on_the_workflow_target() -> None:
    """An agent of a native `Workflow` gets the same context, and its input once."""
    from google.adk.apps.app import App
    from google.adk.runners import Runner

    from adk_fluent.backends.adk.compile.workflow import build_workflow

    backend = mock_backend({"writer": "W-TEXT", "me": "M"})
    expression = Agent("writer").writes("draft") >> Agent("me").instruct("Do it.").reads("draft")
    root = build_workflow(expression.to_ir(), backend.model_for)
    service = InMemorySessionService()
    await service.create_session(app_name="app", user_id="u", session_id="s")
    runner = Runner(app=App(name="app", root_agent=root), session_service=service)
    message = types.Content(role="user", parts=[types.Part(text="GO")])
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
        pass
    request = backend.calls["me"][-1]
    assert "[draft]: W-TEXT" in system(request)
    assert contents(request) == [("user", "W-TEXT")]
