"""Typed state at run time: answers become the values of fields, and writes keep to a bound schema."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
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
    fields = {field.key: field for field in schema.fields().values()}
    async with aclosing(events) as checked:
        async for event in checked:
            if event.actions.state_delta and not event.partial:
                _check(schema, fields, event)
            yield event


def _check(schema: type[StateSchema], fields: Mapping[str, StateFieldRef], event: Event) -> None:
    for key, value in event.actions.state_delta.items():
        field = fields.get(key)
        if field is None:
            if ":" not in key and not key.startswith("_"):  # other scopes, and ADK's own bookkeeping
                raise StateKeyError(
                    f"Agent {event.author!r} wrote state key {key!r}, which {schema.__name__} does not "
                    f"declare.{did_you_mean(key, fields)} Declare it there, or write another key."
                )
        elif value is not None:
            field_type(field).load(value, _whose(event.author))
