"""What a structured answer is: the value that `ask` gives, and what it puts into state.

State holds JSON types alone, so that it is the same in the run that wrote it and in one that reads it back
from a session store. Pydantic is imported when the first answer is read.
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
from adk_fluent.ir.fields import StateFieldRef
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.faults import fault, shown
from adk_fluent.state.fidelity import unstorable
from adk_fluent.state.members import readable
from adk_fluent.state.values import changed, field_type, named, whose

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

    from adk_fluent.ir.nodes import AgentNode

# --- from text to a value -------------------------------------------------------------------------

_LANGUAGE: Final = re.compile(r"""\A[A-Za-z]\w*(?=[\s{\["])""")


def unfenced(text: str) -> str:
    """An answer without the Markdown fence around it, if there is one; ADK, too, takes it off.

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
        schema: what `returns` got: a type, or a JSON schema, which says nothing about a Python type.
    """

    __slots__ = ("_adapter", "schema")

    def __init__(self, schema: Any) -> None:
        self.schema: Any = schema
        self._adapter: TypeAdapter[Any] | None = None

    def parse(self, text: str, agent: str, key: str | None = None) -> Any:
        """An answer as its type.

        Args:
            agent: who gave it, for the message.
            key: the state key that it is for, likewise.

        Raises:
            AnswerError: it is not JSON of that type, or holds what a session store cannot: NaN, infinity,
                the character U+0000 or half a character.
        """
        answer = unfenced(text)
        try:
            value = json.loads(answer) if self._is_untyped else self.adapter.validate_json(answer)
        except ValueError as error:  # pydantic's and json's errors are both
            raise self._error(text, agent, key, fault(error, _json(answer))) from error
        if wrong := unstorable(value):
            raise self._error(text, agent, key, wrong)
        return value

    def _error(self, text: str, agent: str, key: str | None, wrong: str) -> AnswerError:
        stored = f" for state key {key!r}" if key else ""
        return AnswerError(
            f"{agent!r} answered {text!r:.80}{stored}, which is not a {self.name}: {wrong}.",
            agent=agent,
            reason=f"{wrong}.",
        )

    def data(self, text: str, agent: str, key: str | None = None) -> Any:
        """An answer as state holds it: JSON types. Fields that are `None` stay, so it reads back equal.

        Raises:
            AnswerError: it is not JSON of that type, or state would lose a part, as of a `SecretStr`.
        """
        value = self.parse(text, agent, key)
        if self._is_untyped:
            return value
        from pydantic_core import to_json

        stored = self.adapter.dump_python(value, mode="json")
        if wrong := changed(self.adapter, value, stored, to_json(stored)):
            raise self._error(text, agent, key, wrong)
        return stored

    @property
    def name(self) -> str:
        """The type as messages name it."""
        return "JSON value" if self._is_untyped else shown(self.schema)

    @property
    def takes_none(self) -> bool:
        """Whether no answer is one, too: the type is `T | None`."""
        return type(None) in get_args(self.schema) or self.schema is Any

    @property
    def adapter(self) -> TypeAdapter[Any]:
        """Pydantic's validator of the type; made once, since that takes a while."""
        if self._adapter is None:
            from pydantic import TypeAdapter

            self._adapter = TypeAdapter(readable(self.schema))
        return self._adapter

    @property
    def _is_untyped(self) -> bool:
        is_value = hasattr(self.schema, "model_dump") and not isinstance(self.schema, type)
        return isinstance(self.schema, Mapping) or is_value  # a dict, or a Schema of google.genai


def answer_type(schema: Any) -> AnswerType:
    """The type of answers that `returns` got; the same object for the same type."""
    try:
        return _answer_type(schema)
    except TypeError:  # a JSON schema cannot be hashed
        return AnswerType(schema)


_answer_type = lru_cache(maxsize=1024)(AnswerType)


def _json(text: str) -> object:
    """What JSON text holds; `None` where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


# --- from an answer to state ----------------------------------------------------------------------


def is_structured(node: AgentNode) -> bool:
    """Whether an agent stores its answer as data, instead of as the text it is."""
    return bool(answered_fields(node)) or (_returned(node) is not None and isinstance(node.output_key, str))


def writes_of(node: AgentNode, text: str) -> dict[str, Any]:
    """The state that the answer of such an agent writes: JSON types under their keys.

    Raises:
        AnswerError: the answer is not what the agent `returns`.
        StateTypeError: it is no JSON object, or a value is not of its field's type.
        StateKeyError: it lacks a field.
    """
    schema, fields = _returned(node), node.written_fields
    if schema is None:
        return _values(node.name, _object(node.name, text, fields), fields)
    of = answer_type(schema)
    if answered_fields(node):
        answer = of.parse(text, node.name)
        if answer is None:  # what the keys held before is no part of this answer
            return dict.fromkeys(field.key for field in fields)
        return _values(node.name, {field.name: getattr(answer, field.name) for field in fields}, fields)
    key = str(node.output_key)
    if not fields:
        return {key: of.data(text, node.name, key)}
    answer = of.parse(text, node.name, key)
    return {key: None if answer is None else field_type(fields[0]).dump(answer, whose(node.name))}


def _object(agent: str, text: str, fields: tuple[StateFieldRef, ...]) -> Mapping[str, Any]:
    listed = ", ".join(field.key for field in fields)
    try:
        answer: object = json.loads(unfenced(text))
    except ValueError as error:
        raise StateTypeError(
            f"Agent {agent!r} must answer in JSON to write {listed}, but said {text!r:.60}: {error}."
        ) from None
    if not isinstance(answer, dict):
        raise StateTypeError(
            f"Agent {agent!r} must answer with a JSON object to write {listed}, but said {text!r:.60}."
        )
    return cast("dict[str, Any]", answer)


def _values(agent: str, answer: Mapping[str, Any], fields: tuple[StateFieldRef, ...]) -> dict[str, Any]:
    return {field.key: _value(agent, answer, field) for field in fields}


def _value(agent: str, answer: Mapping[str, Any], field: StateFieldRef) -> Any:
    value = answer.get(field.name)
    if value is None and not field.allows_none:
        near = did_you_mean(field.name, answer)
        raise StateKeyError(f"Agent {agent!r} answered without {named(field)}, which it writes.{near}")
    return field_type(field).dump(value, whose(agent))


# --- which fields, and of what type ---------------------------------------------------------------


def answered_fields(node: AgentNode) -> tuple[StateFieldRef, ...]:
    """The fields whose values are taken out of the agent's JSON answer.

    None of them when the whole answer is the value of one field: text for a `str`, the model that `returns`
    names for a field of that type, or of that type or `None`.
    """
    fields = node.written_fields
    schema = _returned(node)
    if len(fields) != 1:
        return fields
    is_whole = fields[0].is_text if schema is None else _same(_present(fields[0].type), _present(schema))
    return () if is_whole else fields


def _present(kind: Any) -> list[Any]:
    """What a type may be beside `None`, which says that there is nothing."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [member for member in members if member is not type(None)]


def _same(some: list[Any], others: list[Any]) -> bool:
    """Whether two lists hold the same types, in any order; JSON schemas cannot be put into sets."""
    return all(kind in others for kind in some) and all(kind in some for kind in others)


def answer_schema(node: AgentNode) -> Any:
    """The type of an answer that holds `answered_fields`: what `returns` names, or one made of the fields."""
    return _returned(node) or _model(f"{node.name}_answer", node.written_fields)


def asked_schema(node: AgentNode) -> Any:
    """The type an agent's answer must have, said by `returns` or by the fields it writes; `None` for text."""
    return answer_schema(node) if node.written_fields and answered_fields(node) else _returned(node)


def returned_type(node: AgentNode) -> AnswerType | None:
    """The type of an agent's answers; `None` if it answers in text."""
    schema = asked_schema(node)
    return None if schema is None else answer_type(schema)


def check_answer(node: AgentNode) -> None:
    """Refuse an agent that must answer with fields which the type of its answer does not have.

    Raises:
        ExpressionError: the type that `returns` names lacks a field.
    """
    schema = _returned(node)
    for kind in () if schema is None else _present(schema):
        known = cast("Mapping[str, Any]", getattr(kind, "model_fields", None) or {})
        for field in answered_fields(node):
            if field.name not in known:
                raise ExpressionError(
                    f"Agent {node.name!r} writes field {field.name!r}, which its answer, {shown(kind)}, does "
                    f"not have.{did_you_mean(field.name, known)} Add it there, or leave out .returns()."
                )


def _returned(node: AgentNode) -> Any:
    return None if node.output_schema in (UNSET, None) else node.output_schema


@lru_cache(maxsize=1024)
def _model(name: str, fields: tuple[StateFieldRef, ...]) -> type[BaseModel]:
    """A pydantic model of these fields, under their plain names."""
    from pydantic import create_model

    definitions: dict[str, Any] = {
        field.name: (readable(field.annotation), None if field.allows_none else ...) for field in fields
    }
    return create_model(name, **definitions)
