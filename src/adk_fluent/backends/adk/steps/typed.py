"""Typed state at run time: writes keep to the schema that is bound."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Any

from google.adk.events.event import Event

from adk_fluent.errors import StateKeyError
from adk_fluent.ir.fields import StateFieldRef
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.schema import StateSchema
from adk_fluent.state.values import field_type, whose


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
            field_type(field).load(value, whose(agent))


@lru_cache(maxsize=256)
def _by_key(schema: type[StateSchema]) -> Mapping[str, StateFieldRef]:
    return {field.key: field for field in schema.fields().values()}
