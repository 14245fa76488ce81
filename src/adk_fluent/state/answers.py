"""Structured answers: their value, which `ask` returns, and the state that they write.

State holds JSON types alone. So a value is the same in the run that wrote it and in a run that reads it from
a session store. Pydantic is imported when the first answer is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, cast, get_args, get_origin

from adk_fluent.errors import AnswerError, ExpressionError, StateKeyError, StateTypeError
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.fidelity import type_text, unstorable
from adk_fluent.state.field_types import (
    fault,
    field_title,
    field_type,
    loss_of_value,
    misfit_of,
    readable_type,
)

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

    from adk_fluent.ir.nodes import AgentNode

# --- from text to a value -------------------------------------------------------------------------

_LANGUAGE: Final = re.compile(r"""\A[A-Za-z]\w*(?=[\s{\["])""")


def unfenced(text: str) -> str:
    """Remove the Markdown fence around an answer, if there is one; ADK removes it, too.

    >>> unfenced("```json\\n[1]\\n```"), unfenced("[1]")
    ('[1]', '[1]')
    """
    whole = text.strip()
    if len(whole) < 6 or not (whole.startswith("```") and whole.endswith("```")):
        return text
    inside = whole[3:-3].strip()
    language = _LANGUAGE.match(inside)
    return inside[language.end() :].strip() if language else inside


class AnswerType:
    """The type of an agent's answers.

    Attributes:
        schema: the argument of `.returns()`: a type, or a JSON schema, which names no Python type.
    """

    __slots__ = ("_adapter", "schema")

    def __init__(self, schema: Any) -> None:
        self.schema: Any = schema
        self._adapter: TypeAdapter[Any] | None = None

    def parse(self, text: str, agent: str, key: str | None = None) -> Any:
        """Parse an answer to its type.

        Args:
            agent: the agent that answered, for the message.
            key: the state key for the answer, for the message.

        Raises:
            AnswerError: the answer is not JSON of that type, or a session store cannot hold it: it has NaN,
                infinity, the character U+0000 or half a character.
        """
        answer = unfenced(text)
        try:
            value = json.loads(answer) if self._is_untyped else self.adapter.validate_json(answer)
        except ValueError as error:  # pydantic's and json's errors are both
            raise self._error(text, agent, key, fault(error, _json_value(answer))) from error
        if refusal := unstorable(value):
            raise self._error(text, agent, key, refusal)
        return value

    def _error(self, text: str, agent: str, key: str | None, problem: str) -> AnswerError:
        stored = f" for state key {key!r}" if key else ""
        return AnswerError(
            f"{agent!r} answered {text!r:.80}{stored}, which is not a {self.name}: {problem}.",
            agent=agent,
            reason=f"{problem}.",
        )

    def data(self, text: str, agent: str, key: str | None = None, *, as_adk: bool = False) -> Any:
        """Parse an answer to JSON types, for state. Fields that are `None` stay, so it reads back equal.

        Args:
            as_adk: store what ADK does: fields of models are Python values, and left out if they are `None`.

        Raises:
            AnswerError: the answer is not JSON of that type, or state would lose a part, as of a `SecretStr`.
        """
        value = self.parse(text, agent, key)
        if self._is_untyped:
            return value
        from pydantic_core import to_json

        stored = self.adapter.dump_python(value, mode="json")
        if lost := loss_of_value(self.adapter, value, stored, to_json(stored)):
            raise self._error(text, agent, key, lost)
        return self._as_adk(value, text) if as_adk else stored

    def _as_adk(self, value: Any, text: str) -> Any:
        """The data that ADK stores: Python values of a model or a list of models; else the JSON as it is."""
        held = get_args(self.schema)[0] if get_origin(self.schema) is list else self.schema
        if hasattr(held, "model_fields"):
            return self.adapter.dump_python(value, exclude_none=True)
        return json.loads(unfenced(text))

    @property
    def name(self) -> str:
        """The name of the type in messages."""
        return "JSON value" if self._is_untyped else type_text(self.schema)

    @property
    def takes_none(self) -> bool:
        """True if the type is `T | None`, so that an empty answer is valid."""
        return type(None) in get_args(self.schema) or self.schema is Any

    @property
    def adapter(self) -> TypeAdapter[Any]:
        """Pydantic's validator of the type; built once, because that is slow."""
        if self._adapter is None:
            from pydantic import TypeAdapter

            self._adapter = TypeAdapter(readable_type(self.schema))
        return self._adapter

    @property
    def _is_untyped(self) -> bool:
        is_schema_object = hasattr(self.schema, "model_dump") and not isinstance(self.schema, type)
        return isinstance(self.schema, Mapping) or is_schema_object  # a dict, or a Schema of google.genai


def answer_type(schema: Any) -> AnswerType:
    """The answer type for an argument of `.returns()`; the same object for the same type."""
    try:
        return _answer_type(schema)
    except TypeError:  # a JSON schema cannot be hashed
        return AnswerType(schema)


_answer_type = lru_cache(maxsize=1024)(AnswerType)


def _json_value(text: str) -> object:
    """The value of a JSON text; `None` if the text is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


# --- from an answer to state ----------------------------------------------------------------------


def is_structured(node: AgentNode) -> bool:
    """True if an agent stores its answer as data, not as text."""
    stores_whole = _declared_schema(node) is not None and isinstance(node.output_key, str)
    return stores_whole or bool(answered_fields(node))


def writes_of(node: AgentNode, text: str) -> dict[str, Any]:
    """The state that a structured answer writes: key → value of JSON types.

    Raises:
        AnswerError: the answer does not match the type in `.returns()`.
        StateTypeError: the answer is not a JSON object, or a value does not have its field's type.
        StateKeyError: the answer lacks a field.
    """
    schema, fields = _declared_schema(node), node.written_fields
    if schema is None:
        return _values(node.name, _json_object(node.name, text, fields), fields)
    kind = answer_type(schema)
    if answered_fields(node):
        answer = kind.parse(text, node.name)
        if answer is None:  # the earlier values of the keys do not belong to this answer
            return dict.fromkeys(field.key for field in fields)
        return _values(node.name, {field.name: getattr(answer, field.name) for field in fields}, fields)
    key = str(node.output_key)
    if not fields:
        return {key: kind.data(text, node.name, key, as_adk=node.annotations.adopted is not None)}
    answer = kind.parse(text, node.name, key)
    return {key: None if answer is None else field_type(fields[0]).dump(answer, misfit_of(node.name))}


def _json_object(agent: str, text: str, fields: tuple[StateFieldRef, ...]) -> Mapping[str, Any]:
    keys = ", ".join(field.key for field in fields)
    try:
        answer: object = json.loads(unfenced(text))
    except ValueError as error:
        raise StateTypeError(
            f"Agent {agent!r} must answer in JSON to write {keys}, but said {text!r:.60}: {error}."
        ) from None
    if not isinstance(answer, dict):
        raise StateTypeError(
            f"Agent {agent!r} must answer with a JSON object to write {keys}, but said {text!r:.60}."
        )
    return cast("dict[str, Any]", answer)


def _values(agent: str, answer: Mapping[str, Any], fields: tuple[StateFieldRef, ...]) -> dict[str, Any]:
    return {field.key: _value(agent, answer, field) for field in fields}


def _value(agent: str, answer: Mapping[str, Any], field: StateFieldRef) -> Any:
    value = answer.get(field.name)
    if value is None and not field.allows_none:
        near = did_you_mean(field.name, answer)
        raise StateKeyError(f"Agent {agent!r} answered without {field_title(field)}, which it writes.{near}")
    return field_type(field).dump(value, misfit_of(agent))


# --- which fields, and of what type ---------------------------------------------------------------


def answered_fields(node: AgentNode) -> tuple[StateFieldRef, ...]:
    """The fields whose values are parts of the agent's JSON answer.

    There are none if the whole answer is the value of one field: a text for a `str`, or the type in
    `.returns()` for a field of that type or of that type or `None`.
    """
    fields = node.written_fields
    schema = _declared_schema(node)
    if len(fields) != 1:
        return fields
    if schema is None:
        return () if fields[0].is_text else fields
    return () if _have_same_types(_members(fields[0].type), _members(schema)) else fields


def _members(kind: Any) -> list[Any]:
    """The members of a union type without `None`; for another type, the type itself."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [member for member in members if member is not type(None)]


def _have_same_types(first: list[Any], second: list[Any]) -> bool:
    """True if two lists hold the same types in any order. JSON schemas have no hash, so sets do not work."""
    return all(kind in second for kind in first) and all(kind in first for kind in second)


def answer_schema(node: AgentNode) -> Any:
    """The type of an answer with `answered_fields`: the type in `.returns()`, or a model of the fields."""
    return _declared_schema(node) or _model_of_fields(f"{node.name}_answer", node.written_fields)


def asked_schema(node: AgentNode) -> Any:
    """The required type of an agent's answer, from `.returns()` or the fields it writes; `None` for text."""
    return answer_schema(node) if node.written_fields and answered_fields(node) else _declared_schema(node)


def returned_type(node: AgentNode) -> AnswerType | None:
    """The type of an agent's answers; `None` if it answers in text."""
    schema = asked_schema(node)
    return None if schema is None else answer_type(schema)


def check_answer(node: AgentNode) -> None:
    """Check that the type of an agent's answer has all fields that the agent writes.

    Raises:
        ExpressionError: the type in `.returns()` lacks a field.
    """
    schema = _declared_schema(node)
    for kind in () if schema is None else _members(schema):
        model_fields = cast("Mapping[str, Any]", getattr(kind, "model_fields", None) or {})
        for field in answered_fields(node):
            if field.name not in model_fields:
                raise ExpressionError(
                    f"Agent {node.name!r} writes field {field.name!r}, which its answer, {type_text(kind)}, "
                    f"does not have.{did_you_mean(field.name, model_fields)} Add it there, or leave out "
                    ".returns()."
                )


def _declared_schema(node: AgentNode) -> Any:
    return None if node.output_schema in (UNSET, None) else node.output_schema


@lru_cache(maxsize=1024)
def _model_of_fields(name: str, fields: tuple[StateFieldRef, ...]) -> type[BaseModel]:
    """A pydantic model of these fields, under their plain names."""
    from pydantic import create_model

    definitions: dict[str, Any] = {
        field.name: (readable_type(field.annotation), None if field.allows_none else ...) for field in fields
    }
    return create_model(name, **definitions)
