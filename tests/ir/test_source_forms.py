"""The forms in which people write keys, dicts and helpers: each is read, or stays unknown."""

# ruff: noqa: D103  # the name of each function says what it is
from __future__ import annotations

import functools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from enum import Enum, StrEnum
from typing import Any, Final

import pytest
from google.adk import agents
from google.adk.agents import BaseAgent
from google.adk.events import Event, EventActions
from google.adk.sessions.state import State
from google.adk.utils import instructions_utils
from google.adk.utils.instructions_utils import inject_session_state

from adk_fluent.adopt import adopt
from adk_fluent.ir.source import sightings

Shape = Callable[..., object]
READ: dict[str, tuple[Shape, str]] = {}
"""Each function with all that it does: `+k -k` it writes always or at times, `k! k~ k?` it reads, `/k` it
removes always, `=k ~k` it returns."""

KEY = "k"
BOTH: Final = ("a", "b")
DEFAULTS: Final = {"a": 1, "b": None}
settings = {"a": 1}


class Keys:
    DRAFT = "draft"


class Parts(Enum):
    A = "a"
    B = "b"


class Names(StrEnum):
    A = "a"


def form(truth: str) -> Callable[[Shape], Shape]:
    """Enter a function in the table."""

    def enter(function: Shape) -> Shape:
        READ[getattr(function, "__qualname__", f"{type(function).__name__} of {truth}")] = function, truth
        return function

    return enter


# --- dicts ------------------------------------------------------------------------------------------


@form("+a +b -c")
def updated_with_a_local_dict(callback_context: Any) -> None:
    found: dict[str, object] = {"a": 1}
    found["b"] = None
    if callback_context.user_id:
        found["c"] = 2
    print(len(found), json.dumps(found))
    callback_context.state.update(found)


@form("+a +b +c")
def updated_with_dict_calls(callback_context: Any) -> None:
    base = dict(a=1)  # noqa: C408  # the form that is meant
    callback_context.state.update(dict(base, b=2), **{"c": 3})


@form("+a +b -c")
def updated_with_spreads(callback_context: Any) -> None:
    base = {"a": 1}
    more = {"c": 1} if callback_context.user_id else {}
    callback_context.state.update({**base, "b": 2, **({"c": 1} if callback_context.user_id else {})})
    print(more)


@form("+a +b")
def grown(callback_context: Any) -> None:
    state = callback_context.session.state
    state |= {"a": 1}
    callback_context.session.state |= {"b": 1} | {}


@form("+a +b")
def updated_with_a_constant(callback_context: Any) -> None:
    callback_context.state.update(DEFAULTS)


@form("+a +b")
def updated_with_a_comprehension(callback_context: Any) -> None:
    callback_context.state.update({key: len(key) for key in BOTH})


@form("+a +b")
def updated_with_the_same_for_all(callback_context: Any) -> None:
    callback_context.state.update(dict.fromkeys(BOTH, ""))


@form("k? +k l? +l")
def set_by_default(callback_context: Any) -> None:
    callback_context.state.setdefault("k", 1)
    callback_context.state.setdefault("l")


@form("k? l! /k /l")
def removed(callback_context: Any) -> None:
    callback_context.session.state.pop("k", None)
    del callback_context.session.state["l"]


@form("a! =a =b ~c")
def returned_in_parts(state: Any) -> dict[str, object]:
    base: dict[str, object] = {"a": state["a"]}
    return {**base, "b": 1} | ({"c": 1} if state["a"] else {})


@form("a! =a +k")
def a_dict_that_is_only_a_value(tool_context: Any) -> dict[str, object]:
    held = {"x": 1}
    tool_context.state["k"] = held
    return {"a": tool_context.state["a"]}


# --- keys -------------------------------------------------------------------------------------------


class Saver:
    """A callback whose class names its keys."""

    KEY = "own"

    def __init__(self, target: str) -> None:
        self.target = target
        self.last = "none"

    def __call__(self, callback_context: Any) -> None:
        callback_context.state[self.KEY] = 1
        callback_context.state[self.target] = 2

    def save(self, callback_context: Any) -> None:
        self._save(callback_context, "x")
        self._keep(callback_context.state, key=self.target)

    def moving(self, callback_context: Any) -> None:
        self.last = "other"
        callback_context.state[self.last] = 1

    def _save(self, ctx: Any, name: str = "note") -> None:
        ctx.state[name] = self.KEY

    @staticmethod
    def _keep(state: Any, key: str) -> None:
        state[f"user:{key}"] = 1

    @classmethod
    def make(cls, callback_context: Any) -> None:
        callback_context.state[cls.KEY] = 1


form("+own +draft")(Saver("draft"))
form("+x +user:draft")(Saver("draft").save)
form("+own")(Saver.make)


@form("+a +app:k +user:draft +a_k +temp:k")
def keys_put_together(callback_context: Any) -> None:
    state = callback_context.state
    state[Names.A] = 1
    state[State.APP_PREFIX + KEY] = 1
    state[f"user:{Keys.DRAFT}"] = 1
    state["_".join([Parts.A.value, KEY])] = 1
    state[State.TEMP_PREFIX + "k"] = 1


@form("+a +b a? b?")
def loops_over_keys(callback_context: Any) -> None:
    for key, value in DEFAULTS.items():
        if key not in callback_context.state:
            callback_context.state[key] = value


@form("+a +b +x_a +x_b")
def loops_over_members(callback_context: Any) -> None:
    for part in Parts:
        callback_context.state[part.value] = 1
    for number, key in enumerate(["a", "b"]):
        callback_context.state[f"x_{key}"] = number


@form("a! b!")
def joined_reads(context: Any) -> str:
    return ", ".join(context.state[key] for key in BOTH)


@form("a? b?")
def all_there(state: Any) -> bool:
    return all(state.get(key) for key in ("a", "b"))


# --- helpers and aliases ----------------------------------------------------------------------------


def save(ctx: Any, key: str = "note", value: object = None) -> None:
    ctx.state[key] = value


async def save_later(state: Any) -> None:
    state["k"] = 1


save_draft = functools.partial(save, key="draft")


@form("+k +draft +note")
def through_helpers(callback_context: Any) -> None:
    save(callback_context, "k")
    save_draft(callback_context)
    save(ctx=callback_context, value=1)


@form("+k")
async def through_an_async_helper(callback_context: Any) -> None:
    await save_later(callback_context.state)


@form("-k")
async def through_a_helper_that_never_runs(callback_context: Any) -> None:
    later = save_later(callback_context.state)
    print(later)


def put(session: Any) -> None:
    session.state["k"] = 1


@form("+k")
def through_the_session(callback_context: Any) -> None:
    put(callback_context.session)


form("+draft")(functools.partial(save, key="draft"))


@form("+k +l")
def aliases(callback_context: Any) -> None:
    ctx = callback_context
    first, second = ctx.state, 1
    first["k"] = second
    (again := ctx.state)["l"] = 1
    print(again.has_delta())


@form("+k -z")
def returned_events(node_input: Any) -> Event:
    if node_input.user_id:
        return Event(author="a", actions=EventActions(state_delta={"k": 1}))
    kept = {"k": 1, "z": 2}
    actions = EventActions(state_delta=kept)
    return Event(author="a", actions=actions)


@form("+k +l -m")
async def yielded_events(ctx: Any) -> AsyncIterator[Event]:
    event = Event(author="a", actions=EventActions(state_delta={"k": 1}))
    event.actions.state_delta["l"] = 2
    if ctx.user_id:
        event.actions.state_delta.update(m=3)
    yield event


@form("-k")
def an_event_that_goes_nowhere(ctx: Any) -> None:
    print(Event(author="a", actions=EventActions(state_delta={"k": 1})))


@form("-k")
def an_event_that_another_function_takes(ctx: Any) -> str:
    return repr(Event(author="a", actions=EventActions(state_delta={"k": 1})))


def traced(function: Shape) -> Shape:
    """A decorator that keeps its function."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> object:
        print("start")
        return function(*args, **kwargs)

    return wrapper


def guarded(function: Shape) -> Shape:
    """A decorator that swallows errors."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> object:
        try:
            return function(*args, **kwargs)
        except KeyError:
            return None

    return wrapper


@form("+k")
@traced
def decorated(callback_context: Any) -> None:
    callback_context.state["k"] = 1


@form("a? -k")
@guarded
def decorated_with_a_guard(callback_context: Any) -> None:
    callback_context.state["k"] = callback_context.state["a"]


@form("draft! user:tier?")
async def instructed(ctx: Any) -> str:
    return await inject_session_state("Improve {draft} for {user:tier?}. {artifact.cv.md}", ctx)


@form("draft!")
async def instructed_by_a_module(readonly_context: Any) -> str:
    template = f"Improve {{{Keys.DRAFT}}}."
    return await instructions_utils.inject_session_state(template, readonly_context)


# --- what stays unknown -----------------------------------------------------------------------------

UNKNOWN: list[Shape] = []


@UNKNOWN.append
def updated_with_what_it_is_given(tool_context: Any, values: Any) -> None:
    tool_context.state.update(values)


@UNKNOWN.append
def a_key_of_the_model(tool_context: Any, key: str = "note") -> None:
    tool_context.state[key] = 1


@UNKNOWN.append
def a_key_that_changes(state: Any, key: str = "note") -> object:
    key = key + str(len(key))
    return state[key]


@UNKNOWN.append
def updated_with_a_setting(callback_context: Any) -> None:
    callback_context.state.update(settings)


@UNKNOWN.append
def a_dict_that_others_fill(callback_context: Any) -> None:
    found = {"a": 1}
    fill(found)
    callback_context.state.update(found)


def fill(found: dict[str, int]) -> None:
    found["b"] = 2


@UNKNOWN.append
def all_keys_of_a_run(callback_context: Any) -> None:
    for key in callback_context.user_id:
        callback_context.state[key] = 1


@UNKNOWN.append
@functools.lru_cache
def cached(callback_context: Any) -> None:
    callback_context.state["k"] = 1


def meddling(function: Shape) -> Shape:
    """A decorator that writes something else."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> object:
        kwargs["callback_context"].state["x"] = 1
        return function(*args, **kwargs)

    return wrapper


@UNKNOWN.append
@meddling
def decorated_by_a_meddler(callback_context: Any) -> None:
    callback_context.state["k"] = 1


UNKNOWN.append(Saver("draft").moving)


# --- the promises -----------------------------------------------------------------------------------

_MARKS: Final = {"required": "!", "lenient": "~", "optional": "?"}


@pytest.mark.parametrize("name", READ)
def test_each_form_is_read(name: str) -> None:
    """Keys, dicts and helpers that the source shows for certain need no declaration."""
    function, truth = READ[name]
    seen = sightings(function)
    order = list(_MARKS)
    worst = {one.key: one.level for one in sorted(seen.reads, key=lambda one: -order.index(one.level))}
    assert seen.whole
    assert {
        *(f"{key}{_MARKS[level]}" for key, level in worst.items()),
        *(f"{'+' if one.always else '-'}{one.key}" for one in seen.writes),
        *(f"{'=' if one.always else '~'}{one.key}" for one in seen.returns),
        *(f"{'/' if one.always else '?'}{one.key}" for one in seen.removes),
    } == set(truth.split())


@pytest.mark.parametrize("function", UNKNOWN)
def test_uncertain_forms_stay_unknown(function: Shape) -> None:
    """A key or a dict that only a run knows is never guessed."""
    assert not sightings(function).whole


def silent(callback_context: Any) -> None:
    pass


class Own(BaseAgent):
    """An agent that writes one key in each run, and another where something calls a method."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, actions=EventActions(state_delta={"k": 1}))

    async def noted(self, ctx: Any) -> AsyncIterator[Event]:
        yield Event(author=self.name, actions=EventActions(state_delta={"l": 1}))


def test_an_agent_always_writes_what_its_run_always_yields() -> None:
    """ADK calls the method of the run each time; of other methods it is not known."""
    assert {one.key: one.always for one in sightings(Own).writes} == {"k": True, "l": False}


@pytest.mark.parametrize("skipped", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # ADK's own, of its composites
def test_the_check_counts_on_what_such_an_agent_writes(skipped: bool) -> None:
    """The next agent finds the key of such an agent, unless a callback may answer in its place."""
    native: Any = agents
    reader = native.LlmAgent(name="reader", instruction="{k}", model="m")
    own = Own(name="own", before_agent_callback=silent if skipped else None)
    report = adopt(native.SequentialAgent(name="all", sub_agents=[own, reader])).check()
    assert ("produced by own" in str(report)) is not skipped
