"""Functions of many shapes, run on every path: their source shows the keys that the runs show."""

# ruff: noqa: D103  # the name of each function says what it is

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from adk_fluent.ir.source import sightings

Shape = Callable[[Any], object]
SHAPES: dict[str, tuple[Shape, str]] = {}
"""Each function with its ground truth: `+k` if every path writes the key, `-k` if only some do."""


def shape(truth: str) -> Callable[[Shape], Shape]:
    """Enter a function in the table."""

    def enter(function: Shape) -> Shape:
        SHAPES[function.__name__] = function, truth
        return function

    return enter


# --- a run on each path -----------------------------------------------------------------------------

_choices: list[bool] = []
_taken: list[bool] = []


def flip() -> bool:
    """A condition that only a run knows."""
    _taken.append(_choices[len(_taken)] if len(_taken) < len(_choices) else False)
    return _taken[-1]


def load() -> int:
    """A call that may fail."""
    if flip():
        raise ValueError
    return 1


def some() -> list[int]:
    """No, one or two items."""
    return [1] * (flip() + flip())


class Watched(dict[str, object]):
    """A state that notes which keys are read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()
        self.written: set[str] = set()

    def __getitem__(self, key: str) -> object:
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        self.written.add(key)
        return super().setdefault(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        self.read.add(key)
        return super().pop(key, *default)

    def __delitem__(self, key: str) -> None:
        self.read.add(key)
        super().__delitem__(key)

    def __setitem__(self, key: str, value: object) -> None:
        self.written.add(key)
        super().__setitem__(key, value)

    def update(self, *others: Any, **more: Any) -> None:
        self.written |= dict(*others, **more).keys()
        super().update(*others, **more)

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self


def runs(function: Shape) -> Iterator[tuple[Watched, bool]]:
    """The state after each way through a function, and whether the function returned."""
    pending: list[list[bool]] = [[]]
    while pending:
        _choices[:], _taken[:] = pending.pop(), []
        state, ended = Watched(), True
        session = SimpleNamespace(state=state)
        try:
            function(SimpleNamespace(state=state, session=session))
        except (ValueError, KeyError):
            ended = False
        if len(_taken) < 9:
            pending += [[*_taken[:at], True] for at in range(len(_choices), len(_taken))]
        yield state, ended


# --- the shapes -------------------------------------------------------------------------------------


@shape("+k")
def both_ways_of_a_try(callback_context: Any) -> None:
    try:
        callback_context.state["k"] = load()
    except ValueError:
        callback_context.state["k"] = None


@shape("-k")
def a_try_that_gives_up(callback_context: Any) -> None:
    try:
        callback_context.state["k"] = load()
    except ValueError:
        print("failed")


@shape("+k")
def a_handler_that_raises(callback_context: Any) -> None:
    try:
        callback_context.state["k"] = load()
    except ValueError as error:
        raise KeyError("k") from error


@shape("+k")
def a_handler_that_returns_after_writing(callback_context: Any) -> None:
    try:
        found = load()
    except ValueError:
        callback_context.state["k"] = "none"
        return
    callback_context.state["k"] = found


@shape("-k")
def a_handler_that_returns_before(callback_context: Any) -> None:
    try:
        found = load()
    except ValueError:
        return
    callback_context.state["k"] = found


@shape("+k +l")
def try_else_finally(callback_context: Any) -> None:
    try:
        found = load()
    except ValueError:
        callback_context.state["k"] = 0
    else:
        callback_context.state["k"] = found
    finally:
        callback_context.state["l"] = 1


@shape("+k -l")
def a_finally_after_a_return(callback_context: Any) -> object:
    try:
        if flip():
            return None
        callback_context.state["l"] = 1
    finally:
        callback_context.state["k"] = 1
    return None


@shape("+k -l")
def a_write_before_what_may_fail(callback_context: Any) -> None:
    try:
        callback_context.state["k"] = 1
        callback_context.state["l"] = load()
    except ValueError:
        print("failed")


@shape("-k -l")
def a_write_after_what_may_fail(callback_context: Any) -> None:
    try:
        callback_context.state["l"] = load()
        callback_context.state["k"] = 1
    except ValueError:
        print("failed")


@shape("+k -l -m")
def if_elif_else(callback_context: Any) -> None:
    state = callback_context.state
    if flip():
        state["k"], state["l"] = 1, 2
    elif flip():
        state["k"] = 2
        state["m"] = 2
    else:
        state["k"] = 3


@shape("-k")
def if_elif(callback_context: Any) -> None:
    if flip():
        callback_context.state["k"] = 1
    elif flip():
        callback_context.state["k"] = 2


@shape("+k -l")
def a_choice_in_a_match(callback_context: Any) -> None:
    match load():
        case 1 if flip():
            callback_context.state["k"] = 1
        case 1 | 2:
            callback_context.state["k"] = callback_context.state["l"] = 2
        case other:
            callback_context.state["k"] = other


@shape("-k")
def a_match_without_the_rest(callback_context: Any) -> None:
    found: Any = flip()
    match found:  # pyright: ignore[reportMatchNotExhaustive]  # the point of it
        case True:
            callback_context.state["k"] = 1


@shape("+k")
def an_early_return_after_the_write(callback_context: Any) -> None:
    callback_context.state["k"] = 1
    if flip():
        return
    print("more")


@shape("-k +l")
def an_early_return_between(callback_context: Any) -> None:
    callback_context.state["l"] = 1
    if flip():
        return
    callback_context.state["k"] = 1


@shape("+k")
def a_with(callback_context: Any) -> None:
    with threading.Lock():
        callback_context.state["k"] = load()


@shape("-k")
def a_with_that_swallows(callback_context: Any) -> None:
    with contextlib.suppress(ValueError):
        callback_context.state["k"] = load()


class Quiet:
    """A context manager that swallows."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool:
        return kind is ValueError


@shape("-k +l")
def a_with_of_a_class_that_swallows(callback_context: Any) -> None:
    with Quiet():
        callback_context.state["k"] = load()
    callback_context.state["l"] = 1


@contextlib.contextmanager
def logged() -> Generator[None]:
    """A context manager that swallows."""
    try:
        yield
    except ValueError:
        print("failed")


@contextlib.contextmanager
def timed() -> Generator[None]:
    """A context manager that swallows nothing."""
    try:
        yield
    finally:
        print("done")


@shape("-k")
def a_with_of_a_function_that_swallows(callback_context: Any) -> None:
    with logged():
        callback_context.state["k"] = load()


@shape("+k")
def a_with_of_a_function(callback_context: Any) -> None:
    with timed():
        callback_context.state["k"] = load()


@shape("-k +l")
def a_loop_and_its_else(callback_context: Any) -> None:
    for one in some():
        callback_context.state["k"] = one
    else:
        callback_context.state["l"] = 1


@shape("-k -l")
def a_loop_that_breaks(callback_context: Any) -> None:
    for one in some():
        if flip():
            callback_context.state["k"] = one
            break
    else:
        callback_context.state["l"] = 1


@shape("+k -l")
def a_loop_that_writes_either_way(callback_context: Any) -> None:
    for one in some():
        if flip():
            callback_context.state["k"] = one
            break
    else:
        callback_context.state["k"] = 0
        callback_context.state["l"] = 0


@shape("+k")
def a_loop_until_it_works(callback_context: Any) -> None:
    while True:
        try:
            callback_context.state["k"] = load()
            break
        except ValueError:
            if flip():
                raise


@shape("+k")
def a_loop_over_retries(callback_context: Any) -> None:
    for _ in range(2):
        try:
            callback_context.state["k"] = load()
            return
        except ValueError:
            continue
    callback_context.state["k"] = None


@shape("+k")
def a_loop_while_missing(callback_context: Any) -> None:
    while not callback_context.state.get("k"):
        if not flip():
            callback_context.state["k"] = load()


@shape("+a +b -c")
def a_loop_over_keys(callback_context: Any) -> None:
    for key in ("a", "b"):
        callback_context.state[key] = None
    for key in ("c",):
        if flip():
            continue
        callback_context.state[key] = 1


@shape("+k")
def a_guard_by_a_name(callback_context: Any) -> None:
    found = callback_context.state.get("k")
    if found is None:
        callback_context.state["k"] = []


@shape("+k")
def a_guard_with_a_default(callback_context: Any) -> None:
    if callback_context.state.get("k", "") == "":
        callback_context.state["k"] = "new"


@shape("+k")
def a_flag(callback_context: Any) -> None:
    is_new = "k" not in callback_context.state
    if is_new:
        callback_context.state["k"] = 1


@shape("-k +l")
def a_write_that_is_taken_back(callback_context: Any) -> None:
    callback_context.session.state["k"] = 1
    callback_context.session.state["l"] = 1
    if flip():
        del callback_context.session.state["k"]


@shape("+k")
def a_removal_before_the_write(callback_context: Any) -> None:
    callback_context.session.state.pop("k", None)
    callback_context.session.state["k"] = load()


@shape("-k")
def a_removal_in_a_try(callback_context: Any) -> None:
    state = callback_context.session.state
    state["k"] = 1
    try:
        state.pop("k")
        state["k"] = load()
    except ValueError:
        print("failed")


@shape("-k")
def a_removal_in_a_loop(callback_context: Any) -> None:
    state = callback_context.session.state
    state["k"] = 1
    for _ in some():
        state.pop("k", None)


@shape("+k")
def a_helper_inside(callback_context: Any) -> None:
    def save(value: int) -> None:
        callback_context.state["k"] = value

    save(load())


@shape("-k")
def a_helper_inside_that_gives_up(callback_context: Any) -> None:
    def save() -> None:
        if flip():
            return
        callback_context.state["k"] = 1

    save()


@shape("-k")
def an_expression_that_ends_early(callback_context: Any) -> None:
    _ = flip() and callback_context.state.setdefault("k", 1)


@shape("+k")
def a_choice_of_writes(callback_context: Any) -> None:
    state = callback_context.state
    _ = state.update(k=1) if flip() else state.setdefault("k", 2)


# --- the promise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_every_path_is_followed(name: str) -> None:
    """A key is certain exactly if it is there after every run that returns, and every read is reported."""
    function, truth = SHAPES[name]
    made = list(runs(function))
    kept = [set(state) for state, ended in made if ended]
    written = set[str]().union(*(state.written for state, _ in made))
    always = written & kept[0].intersection(*kept[1:])
    assert set(truth.split()) == {f"{'+' if key in always else '-'}{key}" for key in written}
    seen = sightings(function)
    assert seen.whole
    assert {f"{'+' if one.always else '-'}{one.key}" for one in seen.writes} == set(truth.split())
    assert {one.key for one in seen.reads} == set[str]().union(*(state.read for state, _ in made))
