"""What a case asserts by itself: words of the answer, and values of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from adk_fluent.errors import what_happened
from adk_fluent.eval.cases import FluentCase, State, key_of
from adk_fluent.eval.metrics import CONTAINS, STATE
from adk_fluent.eval.results import Score
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.predicates import at_once


def asserted(
    case: FluentCase, answer: str, state: Mapping[str, Any], after: Mapping[str, Mapping[str, Any]]
) -> Iterator[Score]:
    """What the assertions of a case say.

    Args:
        answer: the last answer.
        state: the state at the end.
        after: agent → the state right after its last words.
    """
    if (wanted := case.expected_response_contains) is not None:
        found = wanted in answer
        why = () if found else (f"the answer does not contain {wanted!r}: {answer!r:.120}",)
        yield Score(CONTAINS, float(found), 1.0, found, why)
    if case.state_assertions or case.state_after:
        wrong = tuple(_wrong(case.state_assertions or {}, state, "at the end"))
        for agent, assertions in (case.state_after or {}).items():
            if agent in after:
                wrong += tuple(_wrong(assertions, after[agent], f"after {agent}"))
            else:
                wrong += (f"{agent} said and wrote nothing, so there is no state after it",)
        yield Score(STATE, float(not wrong), 1.0, not wrong, wrong)


def _wrong(assertions: State, state: Mapping[str, Any], when: str) -> Iterator[str]:
    for field, expected in assertions.items():
        key = key_of(field)
        value = state.get(key)
        if (problem := _problem(value, expected)) is not None:
            held = f"is {value!r:.80}" if key in state else "is not set"
            yield f"state[{key!r}] {held} {when}{problem}"


def _problem(value: object, expected: object) -> str | None:
    """What is wrong with a value, or nothing."""
    if isinstance(expected, type):
        return None if isinstance(value, expected) else f", not a {expected.__name__}"
    if not callable(expected):
        # a model that a step wrote is there as a dict after a reload
        plain = getattr(expected, "model_dump", None)
        same = value == expected or (plain is not None and value == plain())
        return None if same else f", not {expected!r:.80}"
    name = function_name(expected, "the predicate")
    try:
        said = cast("Callable[[object], object]", expected)(value)
        return None if at_once(said, name, "A case's state") else f", which {name} refuses"
    except Exception as error:  # noqa: BLE001  # a predicate that cannot be asked is not fulfilled
        return f", and {name} raised {what_happened(error)}"
