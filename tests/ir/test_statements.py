"""State keys that the source of ordinary functions shows, on each of their paths."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import pytest

from adk_fluent.ir.source import sightings
from adk_fluent.state import StateSchema, UserScoped

KEY = "global"
State = Mapping[str, Any]


class Keys:
    """Keys as constants of a class."""

    DRAFT = "draft"


class Parts(Enum):
    """Keys as members of an enumeration."""

    DRAFT = "draft"


class Names(str, Enum):  # noqa: UP042  # the older way
    """Keys that are texts too."""

    DRAFT = "name"


class Desk(StateSchema):
    """Keys as fields of a schema."""

    draft: Annotated[str, UserScoped]


@dataclass(frozen=True)
class Config:
    """Keys as settings."""

    key: str = "config"


CONFIG = Config()


def local_key(state: State) -> object:
    """Use a key by a local variable."""
    key = f"user:{KEY}"
    return state.get(key)


def rekeyed(state: State) -> object:
    """Asks for a key by a name that means something else inside."""
    key = "a"

    def inner(key: str) -> object:
        return state[key]

    return inner(key + "b")


def above(limit: float, key: str = "score") -> Callable[[State], bool]:
    """A factory of predicates."""
    return lambda state: state[key] > limit


def made(key: str) -> Callable[..., None]:
    """A factory of callbacks."""

    def note(callback_context: Any) -> None:
        callback_context.state[key] = 1

    return note


def helped(state: State) -> bool:
    """Hands the state to another function."""
    return is_long(state)


def is_long(view: State) -> bool:
    """Receive the state from another function."""
    return len(view["draft"]) > 9


def early(callback_context: Any) -> None:
    """Writes what is not there."""
    if "k" in callback_context.state:
        return
    callback_context.state["k"] = 1


def some_days(callback_context: Any) -> None:
    """Writes on one of two paths."""
    if time.time() > 1:
        callback_context.state["k"] = 1


def both_ways(callback_context: Any) -> None:
    """Writes on both paths."""
    state = callback_context.state
    if state.get("a"):
        state["k"] = 1
    else:
        state["k"] = 2


def absent(callback_context: Any) -> None:
    """Fills in a default by a guard."""
    state = callback_context.state
    if "k" not in state:
        state["k"] = []


def fails_without(state: State) -> dict[str, Any]:
    """Raises unless a key is there."""
    if not state.get("a"):
        raise ValueError("a")
    return {"k": state["a"]}


def built(state: State) -> dict[str, Any]:
    """Builds its result step by step."""
    out = {"k": 1}
    if state.get("a"):
        out["l"] = state["a"]
    return out


def tried(state: State) -> object:
    """Expects that a key is missing."""
    try:
        return state["a"]
    except KeyError:
        return None


def looped(callback_context: Any) -> None:
    """Writes in a loop, which may have no round."""
    for word in callback_context.state["a"]:
        callback_context.state["k"] = word


def counts(tool_context: Any) -> int:
    """Counts its calls."""
    tool_context.state["n"] = tool_context.state.get("n", 0) + 1
    return tool_context.state["n"]


def adds(tool_context: Any) -> None:
    """Extend the old value."""
    tool_context.state["n"] += 1


def updates(tool_context: Any) -> None:
    """Writes several."""
    tool_context.state.update({"k": 1}, l=2)


def empties(tool_context: Any) -> None:
    """Writes a key and empties it: ADK keeps the key, and its placeholder is empty text."""
    tool_context.state["k"] = 1
    tool_context.state["k"] = None


def matched(state: State) -> dict[str, Any]:
    """Chooses by a value."""
    match state["a"]:
        case "x":
            return {"k": 1}
        case _:
            return {"k": 2, "l": 3}


def handed(tool_context: Any) -> None:
    """Hands its context on."""
    print(tool_context)


def session(callback_context: Any) -> None:
    """Goes through the session."""
    held = callback_context.session.state
    held["k"] = 1


async def later(state: State) -> dict[str, Any]:
    """Is async."""
    return {"k": state["a"]}


def shadows(state: State) -> object:
    """Has another thing under the name of the state inside."""
    return sorted(state["a"], key=lambda state: state["b"])


def walrus(state: State) -> bool:
    """Takes a value and a decision at once."""
    return (found := state.get("a")) is not None and found > state["b"]


def rebound(state: State) -> object:
    """Makes its own thing of the state."""
    state = {**state}
    return state["a"]


class Counter:
    """An object that can be called."""

    def __call__(self, state: State) -> bool:
        return state["a"] > 1


first: Callable[[Any], object]
second: Callable[[Any], object]
first, second = (lambda s: s["x"]), (lambda s: s["y"])


def value_at(state: State, key: str) -> object:
    """Reads a key that its caller knows."""
    return state[key]


def unclear(tool: Any, args: Any) -> object:
    """Is given two things, neither of them known to be the state."""
    return args["a"]


def heard(callback_context: Any) -> None:
    """Looks at what was said."""
    callback_context.state["k"] = callback_context.session.events[-1]


# fmt: off
SHAPES: dict[str, tuple[Callable[[Any], object], str]] = {
    # Reads: "a!" each call needs it, "a~" some calls do, "a?" it may be missing.
    # Writes: "+k" each path, "-k" some; of a result, "=k" each, "~k" some.
    "a predicate": (lambda s: s["a"], "a!"),
    "a predicate with a default": (lambda s: s.get("a", 0) > 3, "a?"),
    "get, then compare": (lambda s: s.get("a") == "x", "a?"),
    "a guard in front": (lambda s: "a" in s and s["a"] > 3, "a?"),
    "a guard by get": (lambda s: s.get("a") and s["a"] > 3, "a?"),
    "a guard that negates": (lambda s: "a" not in s or s["a"] > 3, "a?"),
    "a second condition": (lambda s: s["a"] > 3 and s["b"], "a! b~"),
    "a choice": (lambda s: s["a"] if s.get("b") else 0, "a~ b?"),
    "a walrus": (walrus, "a? b~"),
    "a comprehension": (lambda s: [word for word in s["a"] if word in s["b"]], "a! b~"),
    "a name that is shadowed": (shadows, "a!"),
    "an f-string": (lambda s: f"{s['a']}: {s['b']!r}", "a! b!"),
    "a key of the module": (lambda s: s[KEY], "global!"),
    "a key of a class": (lambda s: s[Keys.DRAFT], "draft!"),
    "a key of a schema": (lambda s: s[Desk.draft], "user:draft!"),
    "a key of a schema in an f-string": (lambda s: f"{s[Desk.draft]!r}: {s['b']}", "user:draft! b!"),
    "a member of an enumeration": (lambda s: s[Parts.DRAFT.value] + s[Names.DRAFT], "draft! name!"),
    "a frozen value": (lambda s: s[CONFIG.key], "config!"),
    "a key that is put together": (lambda s: s["app:" + KEY] + s[f"{KEY}_x"], "app:global! global_x!"),
    "a local constant": (local_key, "user:global?"),
    "two on one line, first": (first, "x!"),
    "two on one line, second": (second, "y!"),
    "of a factory": (above(3), "score!"),
    "of a factory with another key": (above(3, "rank"), "rank!"),
    "partial": (functools.partial(value_at, key="a"), "a!"),
    "handed to a helper": (helped, "draft!"),
    "an object": (Counter(), "a!"),
    "tried": (tried, "a?"),
    "a step": (lambda s: {"k": s["a"]}, "a! =k"),
    "a step that removes": (lambda s: {"k": None}, "~k"),
    "a step on one way": (lambda s: {"k": 1} if s["a"] else None, "a! ~k"),
    "a step on both ways": (lambda s: {"k": 1} if s["a"] else {"k": 2, "l": 3}, "a! =k ~l"),
    "a step with dict()": (lambda s: dict(k=s.get("a", 1)), "a? =k"),  # noqa: C408  # the shape that is meant
    "a step built up": (built, "a? =k ~l"),
    "a step that fails without": (fails_without, "a? =k"),
    "a step by match": (matched, "a! =k ~l"),
    "an async step": (later, "a! =k"),
    "a callback": (made("k"), "+k"),
    "a callback that returns early": (early, "k? +k"),
    "a callback with a guard": (absent, "k? +k"),
    "a callback on one path": (some_days, "-k"),
    "a callback on both paths": (both_ways, "a? +k"),
    "a callback with a loop": (looped, "a! -k"),
    "a callback through the session": (session, "+k"),
    "a tool that counts": (counts, "n? +n"),
    "a tool that adds": (adds, "n! +n"),
    "a tool that updates": (updates, "+k +l"),
    "a tool that empties": (empties, "+k"),
}
HIDDEN: dict[str, Callable[[Any], object]] = {
    "the whole state": lambda s: len(s),
    "all items": lambda s: [key for key, _ in s.items()],
    "a key of a run": lambda s: s[s["a"]],
    "a spread": lambda s: {**s, "k": 1},
    "the state under its own name": rebound,
    "a context that goes on": handed,
    "the conversation": heard,
    "a name that means two things": rekeyed,
}
# fmt: on
_MARKS = {"required": "!", "lenient": "~", "optional": "?"}


def shown(function: Callable[..., object]) -> set[str]:
    """The keys that a function's source shows, in the marks of the table."""
    seen = sightings(function)
    assert seen.whole
    order = list(_MARKS)
    reads = sorted(seen.reads, key=lambda one: order.index(one.level), reverse=True)
    worst = {one.key: one.level for one in reads}
    return {
        *(f"{key}{_MARKS[level]}" for key, level in worst.items()),
        *(f"{'+' if one.always else '-'}{one.key}" for one in seen.writes),
        *(f"{'=' if one.always else '~'}{one.key}" for one in seen.returns),
    }


@pytest.mark.parametrize("name", SHAPES)
def test_an_ordinary_function_is_read(name: str) -> None:
    """A write on all paths is certain, one on some paths is not; a guard means that a key may be missing."""
    function, expected = SHAPES[name]
    assert shown(function) == set(expected.split())


@pytest.mark.parametrize("name", HIDDEN)
def test_what_source_does_not_show_stays_unknown(name: str) -> None:
    """A function that hands the state on, or asks for keys that only a run tells, may touch any."""
    assert not sightings(HIDDEN[name]).whole


@pytest.mark.parametrize("function", [print, unclear])
def test_a_function_without_source_or_state_stays_unknown(function: Callable[..., object]) -> None:
    """A built-in has no source, and with two parameters it is open which one is the state."""
    assert not sightings(function).whole


def test_the_same_lambda_elsewhere_has_its_own_keys() -> None:
    """Functions of one factory have separate keys, by the variables that they hold."""
    assert [one.key for one in sightings(above(1, "a")).reads] == ["a"]
    assert [one.key for one in sightings(above(1, "b")).reads] == ["b"]


def test_only_the_state_decides() -> None:
    """A predicate that looks at a clock, or at a list outside, may answer otherwise though no key changed."""
    calls: list[int] = []
    tests: list[Callable[[Any], object]] = [
        lambda s: s["a"] > 1,
        lambda s: s["a"] > time.time(),
        lambda s: s["a"] > len(calls),
    ]
    assert [sightings(test).by_state for test in tests] == [True, False, False]
