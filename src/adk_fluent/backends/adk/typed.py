"""Typed state at run time: answers become the values of fields, and writes keep to a bound schema."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Any, cast

from google.adk.events.event import Event

from adk_fluent.errors import StateKeyError, StateTypeError, did_you_mean
from adk_fluent.ir.fields import StateFieldRef
from adk_fluent.state.schema import StateSchema
from adk_fluent.state.values import field_type, named


def values_of(agent: str, text: str, fields: tuple[StateFieldRef, ...]) -> dict[str, Any]:
    """The state that an answer in JSON writes: one value per field, under its key.

    Raises:
        StateTypeError: the answer is no JSON object, or a value is not of its field's type.
        StateKeyError: the answer lacks a field.
    """
    try:
        answer: object = json.loads(text)
    except ValueError as error:
        raise StateTypeError(
            f"Agent {agent!r} must answer in JSON to write {_listed(fields)}, but said {text!r:.60}: {error}."
        ) from None
    if not isinstance(answer, dict):
        raise StateTypeError(
            f"Agent {agent!r} must answer with a JSON object to write {_listed(fields)}, but said "
            f"{text!r:.60}."
        )
    values = cast("dict[str, Any]", answer)
    return {field.key: _value(agent, values, field) for field in fields}


def _value(agent: str, values: Mapping[str, Any], field: StateFieldRef) -> Any:
    value = values.get(field.name)
    if value is None and not field.allows_none:
        near = did_you_mean(field.name, values)
        raise StateKeyError(f"Agent {agent!r} answered without {named(field)}, which it writes.{near}")
    return field_type(field).dump(value, _whose(agent))


def _listed(fields: tuple[StateFieldRef, ...]) -> str:
    return ", ".join(field.key for field in fields)


def _whose(agent: str) -> str:
    return f"Agent {agent!r} wrote what does not fit: "


async def keeping_to(
    schema: type[StateSchema], events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """The events, unchanged, as long as what they write fits the schema.

    Raises:
        StateKeyError: a session key is written that the schema does not declare.
        StateTypeError: a value is not of the type that the schema declares.
    """
    async with aclosing(events) as checked:
        async for event in checked:
            if not event.partial:
                check_writes(schema, event.author, event.actions.state_delta)
            yield event


def check_writes(schema: type[StateSchema], agent: str, delta: Mapping[str, Any]) -> None:
    """Refuse what an agent writes that does not fit the schema; keys of other scopes may be undeclared.

    Raises:
        StateKeyError: a session key that the schema does not declare.
        StateTypeError: a value that is not of the type that the schema declares.
    """
    for key, value in delta.items():
        field = _by_key(schema).get(key)
        if field is None:
            if ":" not in key and not key.startswith("_"):  # ADK keeps its own books under such names
                raise StateKeyError(
                    f"Agent {agent!r} wrote state key {key!r}, which {schema.__name__} does not declare."
                    f"{did_you_mean(key, _by_key(schema))} Declare it there, or write another key."
                )
        elif value is not None:
            field_type(field).load(value, _whose(agent))


@lru_cache(maxsize=256)
def _by_key(schema: type[StateSchema]) -> Mapping[str, StateFieldRef]:
    return {field.key: field for field in schema.fields().values()}
