"""The plugin that marks events, beside others: each has its turn, and what it makes of an event is marked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent import Agent, S, T, gate
from adk_fluent.config import ExecutionConfig
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool
from adk_fluent.visibility import VisibilityPlugin
from tests.backends.support import SERVICES, close, script, session_service

a, b = Agent("a"), Agent("b")
PIPELINE = a.writes("k") >> S.set(x=1) >> b.instruct("Use {k}.")
CLASSES = {"a": "internal", "set": "zero_cost", "b": "user"}
HI = types.Content(role="user", parts=[types.Part(text="hi")])
VISIBILITY = "adk_fluent.visibility"

Change = Callable[[Event], Event | None]


class Other(BasePlugin):
    """Notes every event it is asked about, and makes of it what `change` says."""

    def __init__(self, name: str, change: Change) -> None:
        super().__init__(name=name)
        self._change = change
        self.heard: list[tuple[str, str]] = []
        self.runs = 0

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Note it."""
        await asyncio.sleep(0)  # another run may go on here
        self.runs += 1

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        """Note it."""
        await asyncio.sleep(0)  # and here
        self.heard.append((event.author, words(event)))
        return self._change(event)


def words(event: Event) -> str:
    """What an event says."""
    return "".join(part.text or "" for part in (event.content and event.content.parts) or [])


def shouted(event: Event) -> types.Content | None:
    """What it says, in capitals."""
    if event.content is None:
        return None
    return types.Content(role="model", parts=[types.Part(text=words(event).upper())])


def watches(event: Event) -> None:
    """Leaves the event."""


def copies(event: Event) -> Event:
    """Puts a changed copy in its place."""
    return event.model_copy(update={"content": shouted(event)})


def replaces(event: Event) -> Event:
    """Puts an event in its place that says no more than who said what."""
    return Event(author=event.author, content=shouted(event))


def notes(event: Event) -> Event:
    """Puts an event with metadata of its own in its place."""
    return Event(author=event.author, content=shouted(event), custom_metadata={"noted": True})


def changes_some(event: Event) -> Event | None:
    """Changes what `a` says alone."""
    return copies(event) if event.author == "a" else None


def gives_back(event: Event) -> Event:
    """Gives the event back as it is."""
    return event


def others(changes: Sequence[Change]) -> list[Other]:
    """Plugins that make these changes."""
    return [Other(f"other_{place}", change) for place, change in enumerate(changes)]


async def played(
    plugins: Sequence[BasePlugin],
    service: BaseSessionService,
    expression: Expr[Any] = PIPELINE,
    **options: Any,
) -> tuple[list[Event], list[Event]]:
    """The events that ADK's own runner gives with these plugins, and those it has stored."""
    root = script({"a": "one", "b": "two"}).compile(expression.node).app.root_agent
    app = App(name="mine", root_agent=root, plugins=list(plugins))
    runner = Runner(app=app, session_service=service, auto_create_session=True)
    run = runner.run_async(user_id="user", session_id="s", new_message=HI, **options)
    given = [event async for event in run]
    session = await service.get_session(app_name="mine", user_id="user", session_id="s")
    assert session is not None
    return given, session.events


def marks(events: Sequence[Event]) -> list[tuple[str, object]]:
    """Who should see each event, as it is marked."""
    return [(event.author, (event.custom_metadata or {}).get(VISIBILITY)) for event in events]


def unmarked(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Everything of each event but the marks and what is new in each run."""
    plain: list[dict[str, Any]] = []
    for event in events:
        fields = event.model_dump(mode="json", exclude={"id", "timestamp", "invocation_id"})
        kept = {k: v for k, v in (event.custom_metadata or {}).items() if not k.startswith("adk_fluent.")}
        plain.append({**fields, "custom_metadata": kept or None})
    return json.loads(json.dumps(plain, default=str))


FAMILIES: list[tuple[Change, ...]] = [
    *((change,) for change in (watches, copies, replaces, notes, changes_some, gives_back)),
    (watches, watches),
    (changes_some, watches),
    (watches, replaces, watches),
]
PLACES = [(family, place) for family in FAMILIES for place in range(len(family) + 1)]


async def test_what_is_stored_is_the_same_in_memory_and_in_a_database(tmp_path: Path) -> None:
    """Of an event that ADK has stored before it asks plugins, memory holds the same as a database."""
    stored: list[Any] = []
    for kind in ("memory", "database"):
        service = session_service(kind, tmp_path)
        stored.append(marks((await played([VisibilityPlugin(PIPELINE)], service))[1]))
        await close(service)
    assert stored[0] == stored[1]


@pytest.mark.parametrize("kind", SERVICES)
@pytest.mark.parametrize(
    ("family", "place"),
    PLACES,
    ids=[f"{'-'.join(change.__name__ for change in family)}-{place}" for family, place in PLACES],
)
async def test_marks_are_all_that_the_plugin_adds(
    family: tuple[Change, ...], place: int, kind: str, tmp_path: Path
) -> None:
    """Wherever it stands, the others hear and change what they would without it, and what comes is marked."""
    alone, beside = others(family), others(family)
    plugins = [*beside[:place], VisibilityPlugin(PIPELINE), *beside[place:]]
    found: list[tuple[Any, Any]] = []
    for run, these in enumerate((alone, plugins)):
        (tmp_path / str(run)).mkdir()
        service = session_service(kind, tmp_path / str(run))
        given, stored = await played(these, service, run_config=RunConfig(custom_metadata={"run": "this"}))
        await close(service)
        found.append((unmarked(given), unmarked(stored)))
        if these is plugins:
            assert marks(given) == [("a", "internal"), ("set", "zero_cost"), ("b", "user")]
    assert found[0] == found[1]
    assert [plugin.heard for plugin in alone] == [plugin.heard for plugin in beside]


async def test_a_plugin_added_to_the_app_has_its_turn() -> None:
    """A plugin that a user appends to `to_app()` hears every event, and the events are marked."""
    backend, mine = script({"a": "one", "b": "two"}), Other("mine", watches)
    app = backend.compile(PIPELINE.node).published()
    app.plugins.append(mine)
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    given = [e async for e in runner.run_async(user_id="user", session_id="s", new_message=HI)]
    assert mine.heard == [("a", "one"), ("set", ""), ("b", "two")]
    assert dict(marks(given)) == CLASSES


async def test_an_event_that_others_have_looked_at_is_not_touched() -> None:
    """Beside a plugin that looks at events, marks are put on copies: what it has kept stays as it was."""
    kept: list[Event] = []

    def keep(event: Event) -> None:
        kept.append(event)

    for place in (0, 1):
        plugins: list[BasePlugin] = [Other("keeper", keep)]
        plugins.insert(place, VisibilityPlugin(PIPELINE))
        given, _ = await played(plugins, InMemorySessionService())
        assert dict(marks(given)) == CLASSES
    assert len(kept) == 6
    assert {mark for _, mark in marks(kept)} == {None}


@pytest.mark.parametrize("change", [watches, gives_back])
async def test_what_asks_a_person_is_for_the_user(change: Change) -> None:
    """The request of a hidden gate is marked as the user's, whether or not a plugin gives it back."""
    expression = a >> gate(is_asked, message="Send it?").hide() >> b
    plugins = [Other("other", change), VisibilityPlugin(expression)]
    given, _ = await played(plugins, InMemorySessionService(), expression)
    asking = [event for event in given if event.long_running_tool_ids]
    assert [mark for _, mark in marks(asking)] == ["user"]


def is_asked(state: object) -> bool:
    """A predicate."""
    return True


@pytest.mark.parametrize("author", ["a", "b"])
async def test_a_replacement_is_marked_by_its_author(author: str) -> None:
    """A plugin may put an event of another agent in the place of one: the mark is that agent's."""

    def renamed(event: Event) -> Event:
        return Event(author=author, content=event.content)

    given, _ = await played([VisibilityPlugin(PIPELINE), Other("other", renamed)], InMemorySessionService())
    assert marks(given) == [(author, CLASSES[author])] * 3


async def test_two_marking_plugins_ask_the_others_once() -> None:
    """A second such plugin, with classes of its own, changes nothing about whose turn it is."""
    mine = Other("mine", watches)
    first, second = VisibilityPlugin(PIPELINE), VisibilityPlugin(PIPELINE, name="second")
    given, _ = await played([first, mine, second], InMemorySessionService())
    assert [author for author, _ in mine.heard] == ["a", "set", "b"]
    assert dict(marks(given)) == CLASSES


async def test_an_error_of_a_plugin_is_the_run_s() -> None:
    """A plugin that raises stops the run as ADK has it, and the error names that plugin."""

    def fail(event: Event) -> None:
        raise ValueError("boom")

    for place in (0, 1):
        plugins: list[BasePlugin] = [Other("mine", fail)]
        plugins.insert(place, VisibilityPlugin(PIPELINE))
        with pytest.raises(RuntimeError, match=r"Error in plugin 'mine' during 'on_event_callback' .*: boom"):
            await played(plugins, InMemorySessionService())


async def test_concurrent_runs_ask_each_plugin_once_an_event() -> None:
    """Runs that share a runner do not take or double each other's turns, from the first run on."""
    mine, yours = Other("mine", watches), Other("yours", watches)
    backend = script({"a": "one", "b": "two"})
    root = backend.compile(PIPELINE.node).app.root_agent
    app = App(name="mine", root_agent=root, plugins=[mine, yours, VisibilityPlugin(PIPELINE)])
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)

    async def one(session: str) -> list[Event]:
        run = runner.run_async(user_id="user", session_id=session, new_message=HI)
        return [event async for event in run]

    runs = await asyncio.gather(*(one(f"s{number}") for number in range(8)))
    assert all(dict(marks(given)) == CLASSES for given in runs)
    assert (mine.runs, yours.runs) == (8, 8)
    for plugin in (mine, yours):
        assert sorted(plugin.heard) == sorted([("a", "one"), ("set", ""), ("b", "two")] * 8)


# AgentTool of newer ADKs hands plugins to its runner in a way that ADK itself deprecates.
@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
async def test_plugins_hear_what_runs_inside_a_tool() -> None:
    """Inside an `AgentTool`, whose runner has the same plugins, each has its turn as well."""
    backend = script({"outer": [call_tool("inner", request="go"), "done"], "inner": "found"})
    inner = backend.compile(Agent("inner").node).app.root_agent
    outer = Agent("outer").tool(AgentTool(inner))  # pyright: ignore[reportArgumentType]  # ADK 2 allows more roots
    mine = Other("mine", watches)
    root = backend.compile(outer.node).app.root_agent
    app = App(name="mine", root_agent=root, plugins=[mine, VisibilityPlugin(outer)])
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    given = [e async for e in runner.run_async(user_id="user", session_id="s", new_message=HI)]
    assert ("inner", "found") in mine.heard
    assert [author for author, _ in mine.heard if author == "outer"] == ["outer"] * 3
    assert set(marks(given)) == {("outer", "user")}


async def test_resuming_keeps_the_plugins_in_order() -> None:
    """A run that goes on after a person answered asks the plugins like any other."""
    mine = Other("mine", watches)
    expression = a >> gate(is_asked, message="Send it?") >> b
    backend, service = script({"a": "one", "b": "two"}), InMemorySessionService()
    app = backend.compile(expression.node, ExecutionConfig()).published()
    app.plugins.insert(0, mine)
    runner = Runner(app=app, session_service=service, auto_create_session=True)
    given = [e async for e in runner.run_async(user_id="user", session_id="s", new_message=HI)]
    (asking,) = [event for event in given if event.long_running_tool_ids]
    (call,) = asking.get_function_calls()
    answer = types.FunctionResponse(id=call.id, name=call.name, response={"confirmed": True})
    message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    rest = runner.run_async(
        user_id="user", session_id="s", invocation_id=asking.invocation_id, new_message=message
    )
    given += [event async for event in rest]
    assert [said for said in mine.heard if said[1]] == [("a", "one"), ("b", "two")]
    assert len(mine.heard) == len(given)
    assert None not in [mark for _, mark in marks(given)]


async def test_what_happens_inside_a_tool_stays_internal() -> None:
    """So it does where a plugin replaces the event, and an agent around the tool has the author's name."""
    helper = (S.set(x=1) >> b).named("helper")
    expression = (a.tools(T.agent(helper)) >> b).named("all")
    replies = {"a": [call_tool("helper", request="go"), "one"], "b": ["inside", "two"]}
    mine = Other("mine", lambda event: Event(author=event.author, content=shouted(event)))
    app = script(replies).compile(expression.node).published()
    app.plugins.insert(0, mine)
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    given = [e async for e in runner.run_async(user_id="user", session_id="s", new_message=HI)]
    assert [mark for author, mark in marks(given) if author == "b"] == ["internal", "user"]
