"""How an agent's answer becomes state when it writes fields of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.errors import ExpressionError, did_you_mean
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.fields import StateFieldRef

if TYPE_CHECKING:
    from pydantic import BaseModel

    from adk_fluent.ir.nodes import AgentNode


def answered_fields(node: AgentNode) -> tuple[StateFieldRef, ...]:
    """The fields whose values are taken out of the agent's JSON answer.

    None of them when the whole answer is the value of one field: text for a `str`, the model that `returns`
    names for a field of that type.
    """
    fields = node.written_fields
    schema = _returned(node)
    if len(fields) == 1 and (fields[0].type == schema if schema is not None else fields[0].is_text):
        return ()
    return fields


def answer_schema(node: AgentNode) -> Any:
    """The type of an answer that holds `answered_fields`: what `returns` names, or one made of the fields."""
    return _returned(node) or _model(f"{node.name}_answer", node.written_fields)


def asked_schema(node: AgentNode) -> Any:
    """The type an agent's answer must have, said by `returns` or by the fields it writes; `None` for text."""
    return answer_schema(node) if node.written_fields and answered_fields(node) else _returned(node)


def check_answer(node: AgentNode) -> None:
    """Refuse an agent that must answer with fields which the type of its answer does not have.

    Raises:
        ExpressionError: the type that `returns` names lacks a field.
    """
    schema = _returned(node)
    if schema is None:
        return
    known = cast("Mapping[str, Any]", getattr(schema, "model_fields", None) or {})
    for field in answered_fields(node):
        if field.name not in known:
            name = getattr(schema, "__name__", schema)
            raise ExpressionError(
                f"Agent {node.name!r} writes field {field.name!r}, which its answer, {name}, does not have."
                f"{did_you_mean(field.name, known)} Add it there, or leave out .returns()."
            )


def _returned(node: AgentNode) -> Any:
    return None if node.output_schema in (UNSET, None) else node.output_schema


@lru_cache(maxsize=1024)
def _model(name: str, fields: tuple[StateFieldRef, ...]) -> type[BaseModel]:
    """A pydantic model of these fields, under their plain names."""
    from pydantic import create_model

    definitions: dict[str, Any] = {
        field.name: (field.annotation, None if field.allows_none else ...) for field in fields
    }
    return create_model(name, **definitions)
