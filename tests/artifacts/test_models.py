"""Artifacts that models see, and tools by which models handle artifacts themselves."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import A, Agent, C, Pipeline
from adk_fluent.artifacts.requests import File, Mime
from adk_fluent.backends.adk.artifacts.parts import shown, to_file
from adk_fluent.context.spec import Context
from adk_fluent.errors import ArtifactError
from adk_fluent.testing import call_tool, mock_backend

PNG = b"\x89PNG\x00"
FILES = Pipeline(
    A.save("cat.png", PNG),
    A.save("note.md", "# Note"),
    A.save("rows.csv", [{"a": 1}]),
    A.save("thing.bin", b"\x00" * 3),
    A.save("user:tone.txt", "warm"),
)


async def request(spec: Context, **state: Any) -> LlmRequest:
    """The request to an agent with a context, after another agent has spoken."""
    backend = mock_backend({"first": "FIRST", "eye": "seen"})
    await (FILES >> Agent("first") >> Agent("eye").context(spec)).run(
        "QUESTION", backend=backend, state=state
    )
    return backend.calls["eye"][0]


def said(sent: LlmRequest) -> list[str]:
    """The text of each content, and the types of what is no text."""
    found: list[str] = []
    for content in sent.contents:
        parts = [
            part.text or (part.inline_data.mime_type if part.inline_data else "")
            for part in content.parts or ()
        ]
        found.append(" | ".join(str(part) for part in parts))
    return found


async def test_a_picture_reaches_the_model_as_a_part() -> None:
    """The bytes are in the request, as the user's, before the conversation, which stays as it is."""
    sent = await request(A.for_llm("cat.png"))
    first, *others = sent.contents
    assert first.role == "user"
    assert first.parts is not None
    assert first.parts[0].text == "Artifact cat.png is:"
    assert first.parts[1].inline_data == types.Blob(data=PNG, mime_type="image/png")
    assert others == (await request(C.default())).contents


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("note.md", "# Note"),
        ("rows.csv", "a\n1\n"),
        ("thing.bin", "[thing.bin: application/octet-stream]"),
        ("user:tone.txt", "warm"),
    ],
)
async def test_unsupported_files_are_sent_as_a_note(name: str, text: str) -> None:
    """Text is sent as text; for other files the model receives a note."""
    assert said(await request(A.for_llm(name)))[0] == f"Artifact {name} is: | {text}"


NOTE, CAT = "Artifact note.md is: | # Note", "Artifact cat.png is: | image/png"


@pytest.mark.parametrize(
    ("spec", "before", "heard"),
    [
        (C.none() + A.for_llm("note.md"), [NOTE], False),
        (A.for_llm("note.md") + A.for_llm("cat.png") + A.for_llm("note.md"), [NOTE, CAT], True),
        (C.user_only() | A.for_llm("cat.png"), [CAT], False),
        ((C.user_only() | A.for_llm("cat.png")) + (C.none() | A.for_llm("note.md")), [CAT, NOTE], False),
        (C.from_state("k") + A.for_llm("note.md"), [NOTE], False),
        (C.when("k", A.for_llm("note.md")), [NOTE], True),
        (C.when("no", A.for_llm("note.md")), [], True),
        (C.window(1).as_contents() + A.for_llm("note.md"), [NOTE], True),
        (A.for_llm("note.md") | C.redact("Note"), [NOTE], True),
    ],
    ids=repr,
)
async def test_artifacts_join_other_specs(spec: Context, before: list[str], heard: bool) -> None:
    """`A.for_llm` adds each file once to other specs, and only if its condition holds."""
    sent = await request(spec, k="v")
    assert said(sent)[: len(before)] == before
    assert not any("Artifact" in text for text in said(sent)[len(before) :])
    config: Any = sent.config
    assert ("FIRST" in f"{sent.contents} {config.system_instruction}") is heard
    assert any("QUESTION" in text for text in said(sent))


async def test_artifacts_are_sent_with_every_call_of_a_turn() -> None:
    """After the agent has used a tool, its model is sent the artifact again."""

    def look() -> str:
        """Look around."""
        return "nothing"

    backend = mock_backend({"eye": [call_tool("look"), "done"]})
    await (FILES >> Agent("eye").tool(look).context(A.for_llm("note.md"))).run("go", backend=backend)
    assert [said(sent)[0] for sent in backend.calls["eye"]] == [NOTE, NOTE]


async def test_an_artifact_that_is_not_there() -> None:
    """The agent and the file are named before the model is asked."""
    backend = mock_backend({"eye": "never"})
    with pytest.raises(ArtifactError) as caught:
        await (FILES >> Agent("eye").context(A.for_llm("cat.jpg"))).run("go", backend=backend)
    assert (
        str(caught.value)
        == "Agent 'eye' needs artifact 'cat.jpg', and there is none. Did you mean 'cat.png'?"
    )
    assert "eye" not in backend.calls


async def test_the_anatomy_agrees_with_the_request() -> None:
    """The artifact stands under context, and the conversation as before."""
    eye = Agent("eye").context(C.from_state("k") + A.for_llm("cat.png") + A.for_llm("note.md"))
    assert (
        eye.llm_anatomy()["eye"].context == "state[\"k\"] injected, artifact 'cat.png', 'note.md' sent along"
    )
    whole = Agent("eye").context(A.for_llm("cat.png")).llm_anatomy()["eye"]
    assert whole.context == "artifact 'cat.png' sent along"
    assert "user" in whole.certain


def test_a_link_is_sent_as_it_is() -> None:
    """A file in another place is left to the model; as state it is not known."""
    part = types.Part(file_data=types.FileData(file_uri="gs://x/film.mp4", mime_type="video/mp4"))
    content = shown(part, "film")
    assert content.parts is not None
    assert content.parts[1] == part
    assert to_file(part) == File(None, "video/mp4")
    assert to_file(types.Part()) == File(None, "unknown content")
    assert to_file(types.Part(text="é")) == File("é".encode(), Mime.TEXT)


# --- tools ----------------------------------------------------------------------------------------


async def test_a_model_saves_lists_and_loads() -> None:
    """An artifact that a model saves is a version like any other; one that it loads is sent to it."""
    tools = (A.tool.save(), A.tool.load(), A.tool.list())
    backend = mock_backend(
        {
            "clerk": [
                call_tool("save_artifact", filename="plan.md", content="# Plan"),
                call_tool("save_artifact", filename="plan.md", content="# Better plan"),
                call_tool("list_artifacts"),
                call_tool("load_artifacts", artifact_names=["plan.md"]),
                "done",
            ]
        }
    )
    result = await (Agent("clerk").tools(*tools) >> A.load("plan.md")).run("go", backend=backend)
    assert result.state["plan"] == "# Better plan"
    assert [event.artifact_delta for event in result if event.artifact_delta] == [
        {"plan.md": 0},
        {"plan.md": 1},
    ]
    answers = [answer.result for event in result for answer in event.tool_responses]
    assert answers[1:3] == [{"filename": "plan.md", "version": 1}, {"artifacts": ["plan.md"]}]
    assert said(backend.calls["clerk"][4])[-1] == "Artifact plan.md is: | # Better plan"


async def test_a_model_receives_the_error_of_its_call() -> None:
    """An invalid name or content is an answer of the tool, and the run continues."""
    wrong = [("", "x"), ("../x", "x"), ("cat.png", "no base64!")]
    calls = [call_tool("save_artifact", filename=name, content=content) for name, content in wrong]
    result = (
        await Agent("clerk").tool(A.tool.save()).run("go", backend=mock_backend({"clerk": [*calls, "done"]}))
    )
    assert [answer.result for event in result for answer in event.tool_responses] == [
        {"error": "The filename '' is empty."},
        {"error": "The filename '../x' leads out of its folder."},
        {"error": "The content is text, and image/png needs bytes, or text in base64."},
    ]


async def test_the_tools_say_what_they_take() -> None:
    """A model is given names, descriptions and parameters, without the context that ADK fills in."""
    backend = mock_backend({"clerk": "done"})
    await Agent("clerk").tools(A.tool.save(), A.tool.load(), A.tool.list()).run("go", backend=backend)
    (sent,) = backend.calls["clerk"]
    assert set(sent.tools_dict) == {"save_artifact", "load_artifacts", "list_artifacts"}
    config: Any = sent.config
    (save,) = [d for tool in config.tools for d in tool.function_declarations if d.name == "save_artifact"]
    schema: Any = save.parameters_json_schema or save.parameters.model_dump()
    assert set(schema["properties"]) == {"filename", "content"}
    assert "new version" in save.description


@pytest.mark.parametrize("kind", ["save", "load", "list"])
async def test_tools_on_a_runner_without_an_artifact_service(kind: str) -> None:
    """One line names agent and tool, and what to give the Runner."""
    tool = {"save": A.tool.save(), "load": A.tool.load(), "list": A.tool.list()}[kind]
    arguments = {"save": {"filename": "a.md", "content": "x"}, "load": {"artifact_names": ["a"]}, "list": {}}[
        kind
    ]
    call = call_tool(tool.name, **arguments)
    mocked = mock_backend({"clerk": [call, "done"]}).compile(Agent("clerk").tool(tool).node)
    runner = Runner(app=mocked.app, session_service=InMemorySessionService(), auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="go")])
    with pytest.raises(ArtifactError) as caught:
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass
    assert str(caught.value).startswith(
        f"Agent 'clerk': its tool '{tool.name}' needs an artifact service, and"
    )


async def test_tools_use_the_service_of_the_run() -> None:
    """Artifacts from earlier runs are listed for the model."""
    service = InMemoryArtifactService()
    backend = mock_backend({"clerk": [call_tool("list_artifacts"), "done"]}, artifact_service=service)
    await A.save("old.md", "x").run("go", backend=backend, session_id="s")
    result = await Agent("clerk").tool(A.tool.list()).run("go", backend=backend, session_id="s")
    assert [a.result for event in result for a in event.tool_responses] == [{"artifacts": ["old.md"]}]
