"""A damaged recording is refused in one line, or it is still one: nothing else comes of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adk_fluent.debug import Recorder, Recording, diff_events, diff_recordings
from adk_fluent.debug.diffing import similarity
from adk_fluent.debug.requests import lines_between
from adk_fluent.errors import ADKFluentError, RecordingError
from tests.debug.pipelines import PIPELINES, run_all
from tests.debug.releases import PIPELINE
from tests.limits import in_thread
from tests.sampling import examples

Place = tuple[str | int, ...]

FOLDER: Final = Path(__file__).parents[1] / "debug"
NAMES: Final = [*sorted(path.name for path in FOLDER.glob("recorded-*.json")), *PIPELINES]
VALUES: Final[list[Any]] = [
    *(None, True, 0, -1, 1.5, 1e308, 10**30, 10**400, "", "x", "7", "\ud800"),
    *([], {}, [1], {"a": 1}, [[]], [None], {"parts": None}, {"parts": [None]}, {"parts": 3}),
    *("x" * 100_000, "a\n" * 10_000),
]
CODE: Final = "1e999", "NaN", "1" * 5_000, "[" * 130 + "]" * 130, "[" * 900 + "]" * 900
"""What is put into the text itself, which Python cannot write."""


@cache
def whole(name: str) -> tuple[str, Any]:
    """A real recording and its pipeline: one of a file, or a fresh one of two turns."""
    if name not in PIPELINES:
        return (FOLDER / name).read_text(), PIPELINE
    expression, script = PIPELINES[name]
    tape = Recorder()
    asyncio.run(run_all(expression, script, tape))
    return tape.get_recording().to_json(), expression


@pytest.fixture(autouse=True, scope="module")
def recorded() -> None:
    """Records before there are examples: a pipeline draws random ids, which examples must not."""
    for name in NAMES:
        whole(name)


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from cast("dict[str, Any]", value).items()
    if isinstance(value, list):
        yield from enumerate(cast("list[Any]", value))


def _places(value: Any, path: Place = ()) -> Iterator[Place]:
    for key, item in _items(value):
        yield (*path, key)
        yield from _places(item, (*path, key))


def _around(value: Any, place: Place) -> Any:
    for key in place[:-1]:
        value = value[key]
    return value


def _damage(draw: Callable[[st.SearchStrategy[Any]], Any], data: Any, kind: str, value: Any) -> None:
    places = list(_places(data))
    place: Place = draw(st.sampled_from(places))
    around, key = _around(data, place), cast(Any, place[-1])
    if kind == "delete":
        del around[key]
    elif kind == "retype":
        around[key] = draw(value)
    elif kind == "duplicate":
        twice = [around[key], deepcopy(around[key])]
        if type(key) is int:
            around[key : key + 1] = twice
        else:
            around[key] = twice
    else:
        other: Place = draw(st.sampled_from(places))
        common = min(len(place), len(other))
        if other[:common] != place[:common]:
            beside = _around(data, other)
            around[key], beside[other[-1]] = beside[other[-1]], around[key]


@st.composite
def damaged(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[str, str]:
    """The name of a recording, and its text after some damage."""
    name: str = draw(st.sampled_from(NAMES))
    text, _ = whole(name)
    kinds = ["delete", "delete", "duplicate", "retype", "swap", "truncate", "code"]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        if kind == "truncate":
            return name, text[: draw(st.integers(0, len(text) - 1))]
        data = json.loads(text)
        if kind == "code":
            _damage(draw, data, "retype", st.just("<CODE>"))
            return name, json.dumps(data).replace('"<CODE>"', draw(st.sampled_from(CODE)))
        _damage(draw, data, kind, st.sampled_from(VALUES))
        text = json.dumps(data)
    return name, text


async def use(recording: Recording, before: Recording, expression: Any) -> None:
    """Do all that can be done with a recording; an error of ours is an answer, too."""
    diff = diff_recordings(before, recording)
    assert str(diff)
    assert diff.to_html()
    assert diff_events(recording.events, before.events).summary
    assert [str(recording.at(step)) for step in range(len(recording.steps) + 1)]
    assert Recording.from_json(recording.to_json()) == recording
    for make in (recording.to_case, lambda: compile(recording.to_test("shop.it:it"), "test", "exec")):
        with suppress(ADKFluentError):
            make()
    with suppress(ADKFluentError):
        assert str(diff_recordings(recording, await recording.replay(expression)))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_a_damaged_recording_works_or_is_refused(case: tuple[str, str]) -> None:
    """Whatever is lost, doubled, retyped or moved in a file: it is read, or refused in one line."""
    name, text = case
    before, expression = whole(name)
    recording, said = None, "r.json is fine"
    try:
        recording = Recording.from_json(text, "r.json")
    except RecordingError as error:
        said = str(error)
    assert re.fullmatch("r.json is .{0,400}", said)
    if recording is not None:
        work = use(recording, Recording.from_json(before), expression)
        asyncio.run(in_thread(asyncio.run, work))


async def test_texts_of_many_lines_are_compared() -> None:
    """Two answers of thousands of lines are compared, and every line that differs is shown."""
    old, new = ("\n".join(f"{word} {n} of it" for n in range(3_000)) for word in ("line", "lime"))
    assert len(await in_thread(lambda: list(lines_between(old, new)))) == 6_000
    lines = [f"line {n}" for n in range(3_000)]
    swapped = [*lines[:-2], lines[-1], lines[-2]]
    assert len(list(lines_between("\n".join(lines), "\n".join(swapped)))) == 4
    assert await in_thread(similarity, "a " * 50_000, "a " * 49_999 + "b") > 0.9
