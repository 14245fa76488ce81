"""State that a caller gives to a run, a preview or a check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.state.fidelity import check_storable


def given_state(state: object) -> Mapping[str, Any]:
    """Check the argument `state=`: a mapping with text keys; `None` is an empty mapping.

    Raises:
        ArgumentError: the argument is not such a mapping.
        StateTypeError: a session store cannot hold a value, such as NaN.

    >>> given_state({"topic": "tea"}), given_state(None)
    ({'topic': 'tea'}, {})
    """
    if state is None:
        return {}
    if not isinstance(state, Mapping):
        raise ArgumentError(
            'state= takes a mapping of keys to values, such as {"topic": "tea"}, '
            f"not {type(state).__name__} {state!r:.40}."
        )
    for key in cast("Mapping[object, Any]", state):
        if not isinstance(key, str):
            raise ArgumentError(f"state= takes keys of text; {key!r:.40} is of type {type(key).__name__}.")
    given = cast("Mapping[str, Any]", state)
    check_storable(given, "state= has")
    return given
