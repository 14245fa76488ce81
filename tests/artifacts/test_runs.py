"""Artifacts in runs: on ADK's services and Runner, in every composite, after pauses and restarts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService, FileArtifactService, InMemoryArtifactService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent import A, Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race
from adk_fluent.errors import ADKFluentError, ArtifactError, StateKeyError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import declares
from adk_fluent.state import StateSchema
from adk_fluent.testing import MockBackend, call_tool, mock_backend

WRITER = Agent("writer").writes("report")
PLACE: Any = {"app_name": "adk_fluent_app", "user_id": "user"}


def service_of(kind: str, folder: Path) -> BaseArtifactService:
    """A fresh artifact service."""
    return InMemoryArtifactService() if kind == "memory" else FileArtifactService(str(folder / "artifacts"))


def services(folder: Path) -> dict[str, Any]:
    """Services on disk, as a new process would open them."""
    return {
        "session_service": SqliteSessionService(str(folder / "sessions.db")),
        "artifact_service": service_of("file", folder),
    }


async def versions(service: BaseArtifactService, filename: str, session: str) -> list[int]:
    """The versions of an artifact."""
    return await service.list_versions(**PLACE, session_id=session, filename=filename)


async def content(service: BaseArtifactService, filename: str, session: str) -> types.Blob | None:
    """The latest version of an artifact."""
    part = await service.load_artifact(**PLACE, session_id=session, filename=filename)
    return part.inline_data if part else None


# --- what a run does ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_published_value_can_be_read_back(kind: str, tmp_path: Path) -> None:
    """A value becomes a version with its type and metadata, the event names it, and it can be read back."""
    service = service_of(kind, tmp_path)
    backend = mock_backend({"writer": "# Tea"}, artifact_service=service)
    pipeline = WRITER.artifacts(
        A.publish("report.md", metadata={"by": "writer"}), A.list(), A.version("report.md")
    ) >> A.snapshot("report.md", into_key="copy")
    result = await pipeline.run("go", backend=backend, session_id="s")
    assert result.by("publish")[0].artifact_delta == {"report.md": 0}
    assert result.state == {
        "report": "# Tea",
        "artifacts": ["report.md"],
        "report_version": 0,
        "copy": "# Tea",
    }
    blob = await content(service, "report.md", "s")
    assert blob is not None
    assert (blob.data, blob.mime_type) == (b"# Tea", "text/markdown")
    (told,) = await service.list_artifact_versions(**PLACE, session_id="s", filename="report.md")
    assert told.custom_metadata == {"by": "writer"}


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_versions(kind: str, tmp_path: Path) -> None:
    """Each save is a version; any of them can be read; all of them are deleted together."""
    backend = mock_backend({}, artifact_service=service_of(kind, tmp_path))
    saves = A.save("n.json", [1]) >> A.save("n.json", [2]) >> A.save("other.md", "x")
    reads = A.snapshot("n.json", "first", version=0, decode="json") >> A.snapshot("n.json", decode="json")
    result = await (saves >> reads >> A.version("n.json") >> A.delete("n.json") >> A.list()).run(
        "go", backend=backend
    )
    assert result.state == {"first": [1], "n": [2], "n_version": 1, "artifacts": ["other.md"]}
    assert result.by("save_2")[0].artifact_delta == {"n.json": 1}


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_scope_of_a_user(kind: str, tmp_path: Path) -> None:
    """An artifact with a name that starts with `user:` is present in all sessions of the user."""
    backend = mock_backend({}, artifact_service=service_of(kind, tmp_path))
    save = A.save("prefs.json", {"dark": True}, scope="user") >> A.save("own.md", "x")
    await save.run("go", backend=backend, session_id="one")
    read = A.snapshot("prefs.json", decode="json", scope="user") >> A.list()
    result = await read.run("go", backend=backend, session_id="two")
    assert result.state == {"prefs": {"dark": True}, "artifacts": ["user:prefs.json"]}


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_items_that_save_one_file_at_the_same_time(kind: str, tmp_path: Path) -> None:
    """Each item of a map gets a separate version, and a separate file if the item names it."""
    service = service_of(kind, tmp_path)
    backend = mock_backend({}, artifact_service=service)
    body = A.publish("all.md", from_key="_item") >> A.publish("{_item}.md", from_key="_item")
    items = [f"i{number}" for number in range(8)]
    await (S.set(items=items) >> map_over("items", body, concurrency=8)).run(
        "go", backend=backend, session_id="s"
    )
    assert await versions(service, "all.md", "s") == list(range(8))
    for item in items:
        blob = await content(service, f"{item}.md", "s")
        assert blob is not None
        assert blob.data == item.encode()


async def test_many_at_once() -> None:
    """Several pairs are saved by one step and one event, or none of them."""
    backend = mock_backend({})
    many = A.publish_many(("a.md", "x"), ("b.csv", "rows")) >> A.snapshot_many(("a.md", "p"), ("b.csv", "q"))
    state = {"x": "text", "rows": [{"n": 1}]}
    result = await many.run("go", backend=backend, state=state, session_id="s")
    assert result.by("publish_many")[0].artifact_delta == {"a.md": 0, "b.csv": 0}
    assert (result.state["p"], result.state["q"]) == ("text", "n\n1\n")
    with pytest.raises(ArtifactError, match=r"Step 'publish_many': A\.publish_many: state key 'rows' is"):
        await A.publish_many(("c.md", "x"), ("c.png", "rows")).run(
            "go", backend=backend, state={"x": "text", "rows": "no picture"}, session_id="t"
        )
    listed = await A.list().run("go", backend=backend, session_id="t")
    assert listed.state["artifacts"] == []


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_file_without_content(kind: str, tmp_path: Path) -> None:
    """Empty text is a file like any other."""
    backend = mock_backend({}, artifact_service=service_of(kind, tmp_path))
    result = await (A.save("a.md", "") >> A.load("a.md") >> A.version("a.md")).run("go", backend=backend)
    assert result.state == {"a": "", "a_version": 0}


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("name", ["e", "e.bin", "user:e"])
async def test_a_file_without_bytes(kind: str, name: str, tmp_path: Path) -> None:
    """Empty bytes are a file like any other, whatever its type, for a step and for a tool of ADK's own."""
    backend = mock_backend({}, artifact_service=service_of(kind, tmp_path))
    result = await (A.save(name, b"") >> A.load(name) >> A.list()).run("go", backend=backend)
    assert (result.state["e"], result.state["artifacts"]) == ("", [name])
    result = await A.load(name).run("go", backend=backend, session_id=result.session_id)
    assert result.state["e"] == ""


async def test_nothing_happens_unless_the_predicate_holds() -> None:
    """`A.when` runs its operations or leaves everything as it is."""
    backend = mock_backend({})
    step = A.when(lambda state: state["n"] > 1, A.save("a.md", "x") >> A.version("a.md"))
    assert "a_version" not in (await step.run("go", backend=backend, state={"n": 1})).state
    result = await step.run("go", backend=backend, state={"n": 2})
    assert result.state["a_version"] == 0
    assert result.by("when")[0].artifact_delta == {"a.md": 0}


async def test_a_bound_schema_holds_for_what_is_loaded() -> None:
    """A key that the schema does not declare cannot be loaded into the state."""

    class Desk(StateSchema):
        text: str

    step = (A.save("a.md", "x") >> A.snapshot("a.md", "txt")).schema(Desk)
    with pytest.raises(StateKeyError, match="txt"):
        await step.run("go", backend=mock_backend({}))


# --- composites -----------------------------------------------------------------------------------

SAVE, LOAD = A.save("n.md", "kept"), A.snapshot("n.md", into_key="n")
COMPOSITES: dict[str, Expr[Any]] = {
    "pipeline": Pipeline(SAVE, LOAD),
    "fan-out": FanOut(SAVE, Agent("a")) >> LOAD,
    "loop": Loop(SAVE, LOAD, max_iterations=1),
    "fallback": (A.load("missing.md") // SAVE) >> LOAD,
    "race": race(SAVE, SAVE.named("same")) >> LOAD,
    "route": Route("k").eq("v", SAVE).otherwise(Agent("a")) >> LOAD,
    "map": map_over("items", SAVE) >> LOAD,
    "timeout": (SAVE >> LOAD).timeout(60),
    "conditional": SAVE.proceed_if(lambda state: True) >> LOAD,
    "delegate": Agent("boss").delegate((SAVE >> LOAD).named("filing")),
    "after an agent": Agent("a").artifacts(SAVE, LOAD),
}


@pytest.mark.parametrize("name", COMPOSITES)
async def test_in_every_composite(name: str) -> None:
    """A step can read an artifact that another step saved, and the run's events report each save."""
    responses = {"a": "A", "boss": call_tool("transfer_to_agent", agent_name="filing")}
    state = {"k": "v", "items": ["one"]}
    result = await COMPOSITES[name].run("go", backend=mock_backend(responses), state=state)
    assert result.state["n"] == "kept"
    assert [e.artifact_delta for e in result if e.artifact_delta] == [{"n.md": 0}]


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # of ADK's own AgentTool
async def test_inside_an_agent_that_is_a_tool() -> None:
    """A pipeline behind a tool saves artifacts in the session of the agent that called it."""
    backend = mock_backend({"boss": [call_tool("filing", request="go"), "done"], "inner": "text"})
    inner = Agent("inner").writes("t").artifacts(A.publish("t.md"), A.version("t.md"), A.delete("no.md"))
    boss = Agent("boss").tool(AgentTool(inner.named("filing").build()))
    result = await (boss >> A.load("t.md")).run("go", backend=backend)
    assert result.state["t"] == "text"
    assert result.state["t_version"] == 0


# --- pauses, restarts, rewinds --------------------------------------------------------------------

ASK = gate(declares(reads=[])(lambda state: True), message="Go on?")
PAUSES: dict[str, Callable[[Expr[Any]], Expr[Any]]] = {
    "a sequence": lambda step: step >> ASK,
    "a branch beside": lambda step: FanOut(step, ASK),
    "a loop": lambda step: Loop(step, ASK, max_iterations=1),
    "a branch of a route": lambda step: Route("k").otherwise(step >> ASK),
    "a map": lambda step: S.set(items=[1]) >> map_over("items", step >> ASK),
    "a fallback": lambda step: (step >> ASK) // Agent("never"),
    "a race": lambda step: race(step >> ASK, Agent("slow") >> A.load("missing.md")),
}


@pytest.mark.parametrize("where", PAUSES)
@pytest.mark.parametrize(
    "step", [A.save("n.md", "x"), A.when("on", A.delete("old.md") >> A.save("n.md", "x"))]
)
async def test_nothing_is_done_twice_after_a_pause(where: str, step: Expr[Any], tmp_path: Path) -> None:
    """A run that resumes in another process does not save artifacts from before the pause again."""
    pipeline = PAUSES[where](step) >> A.version("n.md")
    responses = {"slow": "late"}
    paused = await pipeline.run(
        "go", backend=mock_backend(responses, **services(tmp_path)), session_id="s", state={"on": True}
    )
    (asked,) = paused.pending
    backend = mock_backend(responses, **services(tmp_path))
    result = await pipeline.resume(session_id="s", approvals={asked.id: True}, backend=backend)
    assert result.pending == []
    assert result.state["n_version"] == 0


async def test_a_deletion_is_not_repeated_after_a_pause(tmp_path: Path) -> None:
    """A branch that only deleted has finished: it does not delete what was saved since."""
    pipeline = FanOut(A.delete("n.md"), ASK >> A.save("n.md", "new"), Agent("a")) >> A.load("n.md")
    backend = mock_backend({"a": "A"}, **services(tmp_path))
    paused = await pipeline.run("go", backend=backend, session_id="s")
    again = mock_backend({"a": "A"}, **services(tmp_path))
    await A.save("n.md", "meanwhile").run("x", backend=again, session_id="s")
    result = await pipeline.resume(session_id="s", approvals={paused.pending[0].id: True}, backend=again)
    assert result.state["n"] == "new"
    assert await versions(services(tmp_path)["artifact_service"], "n.md", "s") == [0, 1]


async def test_after_a_restart(tmp_path: Path) -> None:
    """Files on disk are there for a later run of the session in another process."""
    first = mock_backend({"writer": "text"}, **services(tmp_path))
    await WRITER.artifacts(A.publish("report.md")).run("go", backend=first, session_id="s")
    second = mock_backend({"reader": "read"}, **services(tmp_path))
    reader = A.snapshot("report.md", "copy") >> Agent("reader").instruct("{copy} {artifact.report.md}")
    await reader.run("go", backend=second, session_id="s")
    config: Any = second.calls["reader"][0].config
    assert config.system_instruction.startswith("text text")


async def test_a_rewind_takes_artifacts_back() -> None:
    """After a rewind the file is what it was then, and one that was not there then is not there."""
    backend = mock_backend({})
    save = A.publish("n.md", from_key="said")
    line = S.capture("said") >> save
    first = await line.run("one", backend=backend, session_id="s")
    second = await line.run("two", backend=backend, session_id="s")
    read = A.load("n.md")
    assert (await read.run("x", backend=backend, session_id="s")).state["n"] == "two"
    await line.rewind(session_id="s", before_invocation_id=second[0].invocation_id, backend=backend)
    assert (await read.run("x", backend=backend, session_id="s")).state["n"] == "one"
    await line.rewind(session_id="s", before_invocation_id=first[0].invocation_id, backend=backend)
    with pytest.raises(ArtifactError, match=r"Step 'load' needs artifact 'n\.md', and there is none"):
        await read.run("x", backend=backend, session_id="s")


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_rewind_leaves_no_file_behind(kind: str, tmp_path: Path) -> None:
    """A file that was not there then is not listed, and one that was there has the content it had."""
    backend = mock_backend({}, **(services(tmp_path) if kind == "file" else {}))
    on: dict[str, Any] = {"session_id": "s", "backend": backend}
    load = A.load("n.md")
    save = S.capture("said") >> A.publish("n.md", from_key="said")
    for _ in range(2):  # the numbers of versions start again
        first = await save.run("one", **on)
        second = await (save >> save).run("two", **on)
        await save.rewind(before_invocation_id=second.invocation_id, **on)
        assert (await load.run("x", **on)).state["n"] == "one"
        third = await save.run("three", **on)
        await save.rewind(before_invocation_id=third.invocation_id, **on)
        assert (await load.run("x", **on)).state["n"] == "one"
        await save.rewind(before_invocation_id=first.invocation_id, **on)
        assert (await A.list("names").run("x", **on)).state["names"] == []


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_rewind_restores_what_a_program_put_there(kind: str, tmp_path: Path) -> None:
    """A version that no run has saved is there again, with its type and metadata, also if it is empty."""
    service = service_of(kind, tmp_path)
    place: dict[str, Any] = {**PLACE, "session_id": "s", "filename": "n.csv"}
    empty = types.Part(inline_data=types.Blob(data=b"", mime_type="text/csv"))
    await service.save_artifact(**place, artifact=empty, custom_metadata={"by": "me"})
    on: dict[str, Any] = {"session_id": "s", "backend": mock_backend({}, artifact_service=service)}
    run = await A.save("n.csv", "a,b").run("x", **on)
    await A.list("names").rewind(before_invocation_id=run.invocation_id, **on)
    told = await service.get_artifact_version(**place)
    assert told is not None
    assert (told.custom_metadata, told.mime_type) == ({"by": "me"}, "text/csv")
    assert (await A.load("n.csv").run("x", **on)).state["n"] in ("", b"")


async def test_a_rewind_leaves_files_of_the_user() -> None:
    """A file of the user, which other sessions share, stays as it is, as in ADK."""
    on: dict[str, Any] = {"session_id": "s", "backend": mock_backend({})}
    run = await (A.save("user:n.md", "one") >> A.save("m.md", "two")).run("x", **on)
    await A.list("names").rewind(before_invocation_id=run.invocation_id, **on)
    assert (await A.list("names").run("x", **on)).state["names"] == ["user:n.md"]


async def test_a_rewind_that_cannot_take_files_back_changes_nothing() -> None:
    """If the artifact service fails, the error names it, and the state stays unchanged."""

    class Full(InMemoryArtifactService):
        async def delete_artifact(self, **place: Any) -> None:
            raise OSError("the disk is gone")

    on: dict[str, Any] = {"session_id": "s", "backend": mock_backend({}, artifact_service=Full())}
    run = await (S.set(x=1) >> A.save("n.md", "one")).run("x", **on)
    with pytest.raises(ArtifactError, match=r"rewind\(\): .*'n\.md' raised.*disk is gone"):
        await A.list("names").rewind(before_invocation_id=run.invocation_id, **on)
    assert (await S.identity().run("x", **on)).state["x"] == 1


# --- ADK's own Runner -----------------------------------------------------------------------------


async def natively(expression: Expr[Any], **options: Any) -> dict[str, Any]:
    """The state after a run on ADK's own Runner."""
    sessions = InMemorySessionService()
    runner = Runner(app=expression.to_app(), session_service=sessions, auto_create_session=True, **options)
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        deltas = [event.actions.artifact_delta async for event in events if event.actions.artifact_delta]
    session = await sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    assert session is not None
    return {**session.state, "deltas": deltas}


async def test_on_the_runner_of_adk() -> None:
    """`to_app()` on ADK's own Runner saves and loads as ours does."""
    line = S.capture("said") >> A.publish("said.md") >> A.snapshot("said.md", "copy")
    state = await natively(line, artifact_service=InMemoryArtifactService())
    assert state == {"said": "go", "copy": "go", "deltas": [{"said.md": 0}]}


@pytest.mark.parametrize(
    "step", [A.save("a.md", "x"), A.load("a.md"), A.list(), A.delete("a"), A.version("a")]
)
async def test_a_runner_without_an_artifact_service(step: Expr[Any]) -> None:
    """One line names the step and what to give the Runner; what needs no files needs no service."""
    with pytest.raises(ArtifactError) as caught:
        await natively(step)
    assert str(caught.value) == (
        f"Step {step.node.label!r} needs an artifact service, and this Runner has none. Give it one: "
        "Runner(..., artifact_service=InMemoryArtifactService()), from google.adk.artifacts."
    )
    state = await natively(S.set(rows=[{"a": 1}]) >> A.as_csv("rows") >> A.when("no", step))
    assert state["rows"] == "a\n1\n"


# --- what goes wrong ------------------------------------------------------------------------------


class Broken(InMemoryArtifactService):
    """A service whose disk is full."""

    async def save_artifact(self, **arguments: Any) -> int:
        raise OSError("No space left\non device")


PICTURE = types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png"))
WRONG: list[tuple[Expr[Any], str]] = [
    (A.load("n.md"), "Step 'load' needs artifact 'n.md', and there is none. There is 'cat.png'."),
    (A.load("cats.png"), "Step 'load' needs artifact 'cats.png', and there is none. Did you mean 'cat.png'?"),
    (A.version("n.md"), "Step 'version' needs artifact 'n.md', and there is none. There is 'cat.png'."),
    (
        A.snapshot("cat.png", version=3),
        "Step 'snapshot' needs version 3 of artifact 'cat.png', and there is version 0.",
    ),
    (
        A.load("cat.png"),
        "Step 'load': A.load: 'cat.png' is no UTF-8 text but 4 bytes of image/png; decode='base64' ",
    ),
    (
        A.snapshot("cat.png", decode="json").named("reader"),
        "Step 'reader': A.snapshot: 'cat.png' is no UTF-8 text but 4 bytes of image/png; decode='base64' ",
    ),
    (
        A.publish("n.md", from_key="nothing"),
        "Step 'publish': A.publish needs state key 'nothing', which is not set.",
    ),
    (
        A.publish("n.json", from_key="odd"),
        "Step 'publish': A.publish: state key 'odd' cannot be written as JSON: Object of type complex is not "
        "JSON serializable.",
    ),
    (
        A.publish("n.png", from_key="text"),
        "Step 'publish': A.publish: state key 'text' is text, and image/png needs bytes, or text in base64.",
    ),
    (A.as_csv("text"), "Step 'as_csv': A.as_csv('text'): the value is no table but str 'plain text'"),
    (A.from_json("text"), "Step 'from_json': A.from_json('text'): the value is no JSON: Expecting value"),
    (A.from_csv("rows"), "Step 'from_csv': A.from_csv('rows'): the value is no text but list [1]."),
    (
        A.when(lambda state: state["no"], A.delete("x")),
        "Step 'when' in A.when: its predicate '<lambda>' needs",
    ),
    (A.publish("{no}.md", from_key="text"), "Step 'publish': A.publish needs state key 'no' for the name"),
    (
        A.publish("{up}", from_key="text"),
        "Step 'publish': A.publish: '{up}' became '../x', which leads out of",
    ),
]


@pytest.mark.parametrize(
    ("step", "message"), WRONG, ids=lambda value: value if isinstance(value, str) else ""
)
async def test_errors_are_one_line_that_names_the_step(step: Expr[Any], message: str) -> None:
    """A file that is not there, a value or content that does not fit: step, file or key, and what to do."""
    service = InMemoryArtifactService()
    await service.save_artifact(**PLACE, session_id="s", filename="cat.png", artifact=PICTURE)
    backend = mock_backend({}, artifact_service=service)
    state = {"text": "plain text", "rows": [1], "odd": 1j, "up": "../x"}
    with pytest.raises(ADKFluentError) as caught:
        await step.run("go", backend=backend, state=state, session_id="s")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


async def test_a_service_that_fails_is_named() -> None:
    """An error of the artifact service is one line with its name, and is chained as the cause."""
    backend = mock_backend({}, artifact_service=Broken())
    with pytest.raises(ArtifactError) as caught:
        await A.save("a.md", "x").run("go", backend=backend)
    assert str(caught.value) == (
        "Step 'save': Broken.save_artifact for 'a.md' raised OSError: No space left on device."
    )
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_missing_artifact_is_a_failure_that_a_fallback_catches() -> None:
    """`//` continues with the next alternative."""
    expression = (A.load("cache.md") >> Agent("a")) // Agent("b")
    assert await expression.ask_async("go", backend=mock_backend({"b": "from b"})) == "from b"


async def test_an_error_names_at_most_ten_files() -> None:
    """An error about a missing file names at most ten of the existing files."""
    backend: MockBackend = mock_backend({})
    saves = Pipeline(*(A.save(f"{number:02}.md", "x") for number in range(13)))
    with pytest.raises(ArtifactError) as caught:
        await (saves >> A.load("wanted.csv")).run("go", backend=backend)
    assert str(caught.value).endswith("'08.md', '09.md' and 3 more.")


# --- other targets --------------------------------------------------------------------------------


@pytest.mark.newest
async def test_on_the_workflow_target() -> None:
    """A `Workflow` runs the operations too, and its events say what was saved."""
    from google.adk.apps.app import App

    root = (S.capture("said") >> A.publish("said.md") >> A.snapshot("said.md", "copy")).build(
        target="workflow"
    )
    sessions = InMemorySessionService()
    runner = Runner(
        app=App(name="flow", root_agent=root),
        session_service=sessions,
        artifact_service=InMemoryArtifactService(),
        auto_create_session=True,
    )
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        deltas = [event.actions.artifact_delta async for event in events if event.actions.artifact_delta]
    session = await sessions.get_session(app_name="flow", user_id="u", session_id="s")
    assert session is not None
    assert session.state["copy"] == "go"
    assert deltas == [{"said.md": 0}]
