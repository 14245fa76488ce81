"""Answers that stand in for a model's where nobody says what it would answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import FirstMatch, Repeated
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.predicates import Match
from adk_fluent.state.answers import answer_type, asked_schema
from adk_fluent.state.field_types import fault

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest

_FORMATS: Final[Mapping[str, str]] = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT1S",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "email": "name@example.com",
    "uri": "https://example.com/",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "json-string": "{}",
}
"""Text of the formats that pydantic puts into JSON schemas; the addresses are those reserved for examples."""


_LISTED: Final = re.compile(r"\^?\(?(?:\?:)?([\w -]+)(?:\|[\w -]+)*\)?\$?")
"""A pattern that lists texts, such as `^(pass|fail)$`."""


def stand_in(node: AgentNode, root: Node) -> str:
    """What the model of an agent answers for want of anything better.

    An agent that returns a type gives the smallest instance of it; one whose answer a route or loop compares
    gives the first value that is asked for; every other one says that this is its answer.

    Args:
        root: the tree it stands in.

    Raises:
        ArgumentError: no instance of the type can be made up; the message says what to give instead.
    """
    schema = asked_schema(node)
    if schema is not None:
        return json.dumps(_instance(schema, node.name))
    wanted = first_wanted(root).get(node.output_key) if isinstance(node.output_key, str) else None
    return wanted if wanted is not None else f"(what {node.name} answers)"


def by_tool(words: str) -> Callable[[LlmRequest], Any]:
    """An answer by ADK's tool for typed answers, where the model is offered it; else, and after it, in words.

    Older models answer an agent with a type and tools so; ADK decides it by the model.

    Args:
        words: the answer, as JSON.
    """

    def answer(request: LlmRequest) -> Any:
        if (declared := _answer_tool(request)) is None:
            return words
        names: Mapping[str, Any] = _parameters(declared).get("properties") or {}
        value: object = json.loads(words)
        given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        is_whole = isinstance(value, dict) and (len(names) != 1 or given.keys() <= names.keys())
        return _call(given if is_whole else {next(iter(names), "response"): cast(object, value)})

    return answer


ANSWER_TOOL: Final = "set_model_response"
"""ADK's tool by which a model gives a typed answer."""


def _call(arguments: Mapping[str, Any]) -> Any:
    from adk_fluent.backends.mock import call_tool  # with ADK, which whoever has a request has imported

    return call_tool(ANSWER_TOOL, **arguments)


def _answer_tool(request: LlmRequest) -> Any:
    """The declaration of that tool in a request; `None` without one, or if the model has just called it."""
    last = (request.contents[-1].parts or ()) if request.contents else ()
    if any(part.function_response and part.function_response.name == ANSWER_TOOL for part in last):
        return None
    offered = (getattr(tool, "function_declarations", None) or () for tool in request.config.tools or ())
    return next((one for some in offered for one in some if one.name == ANSWER_TOOL), None)


def _parameters(declared: Any) -> Mapping[str, Any]:
    """The JSON schema of what a declared function takes."""
    schema: Any = getattr(declared, "parameters_json_schema", None)
    if schema is None and declared.parameters is not None:
        schema = declared.parameters.model_dump(mode="json", exclude_none=True)
    return cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}


def in_form(agent: str, words: str) -> Callable[[LlmRequest], Any]:
    """What an agent outside the tree answers: the smallest instance of the type that its request asks for.

    It answers by ADK's tool for typed answers where its request offers that.

    A node of a graph may run such an agent.

    Args:
        words: what it answers if its request asks for no type.
    """

    def answer(request: LlmRequest) -> Any:
        if (declared := _answer_tool(request)) is not None:
            taken = _parameters(declared)
            return _call(smallest(taken, _definitions(taken)))
        config: Any = request.config
        schema = config.response_schema or getattr(config, "response_json_schema", None)
        return json.dumps(_instance(schema, agent)) if schema else words

    return answer


def first_wanted(root: Node) -> Mapping[str, str]:
    """State key → the first value that a route, or else a loop, compares it with."""
    found: dict[str, str] = {}
    ways = [node.runs for node in walk(root)]
    tests = [test for runs in ways if isinstance(runs, FirstMatch) for test in runs.tests]
    tests += [runs.until for runs in ways if isinstance(runs, Repeated) and runs.until]
    for test in tests:
        if isinstance(test, Match) and test.op in ("eq", "contains") and test.value is not None:
            found.setdefault(test.key, str(test.value))
    return found


def _instance(schema: Any, agent: str) -> Any:
    """The smallest JSON value of a type, or of a JSON schema."""
    if hasattr(schema, "model_dump") and not isinstance(schema, type):  # a Schema of google.genai
        return smallest(schema.model_dump(mode="json", exclude_none=True), {})
    if isinstance(schema, Mapping):
        return smallest(cast("Mapping[str, Any]", schema), _definitions(cast("Mapping[str, Any]", schema)))
    adapter = answer_type(schema).adapter
    described = adapter.json_schema()
    value: Any = None
    try:
        value = smallest(described, _definitions(described))
        adapter.validate_json(json.dumps(value))
    except (ValueError, LookupError) as error:  # a pattern that nothing made up fits, or a type without end
        why = fault(error, value) if isinstance(error, ValueError) else f"{error} is inside itself"
        raise ArgumentError(
            f"The script cannot make up an answer of {agent!r}: {why}. "
            f"Give one: responses={{{agent!r}: ...}}."
        ) from error
    return value


def _definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return schema.get("$defs") or {}


def smallest(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """The smallest value that a JSON schema describes, as far as its usual keywords tell.

    >>> smallest({"type": "array", "items": {"type": "integer", "minimum": 3}, "minItems": 2}, {})
    [3, 3]

    Raises:
        LookupError: every value holds one of its own kind; the message names it.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        inside = {other: kind for other, kind in definitions.items() if other != name}
        return smallest(definitions[name], inside)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf", "allOf", "any_of"):
        if schema.get(choice):
            return _chosen(schema[choice], definitions)
    kind: object = schema.get("type")
    if isinstance(kind, list):
        kind = cast("list[object]", kind)[0]
    make = _MAKERS.get(str(kind).lower())
    return make(schema, definitions) if make else {}


def _chosen(choices: Sequence[Mapping[str, Any]], definitions: Mapping[str, Any]) -> Any:
    """The smallest value of the first choice that has one."""
    for choice in choices[:-1]:
        try:
            return smallest(choice, definitions)
        except LookupError:
            continue
    return smallest(choices[-1], definitions)


def _object(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    return {name: smallest(properties[name], definitions) for name in schema.get("required") or ()}


def _array(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Any]:
    fixed = [smallest(item, definitions) for item in schema.get("prefixItems") or ()]
    more = int(schema.get("minItems") or schema.get("min_items") or 0) - len(fixed)
    return fixed + [smallest(schema.get("items") or {}, definitions) for _ in range(more)]


def _string(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    listed = _LISTED.fullmatch(str(schema.get("pattern") or ""))
    text = listed[1] if listed else _FORMATS.get(str(schema.get("format")), "text")
    shortest, longest = int(schema.get("minLength") or 0), schema.get("maxLength")
    return text.ljust(shortest, "x")[:longest]


def _integer(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> int:
    return int(_number(schema, definitions))


def _number(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> float:
    if (least := schema.get("minimum")) is not None:
        return least
    if (below := schema.get("exclusiveMinimum")) is not None:
        above = schema.get("exclusiveMaximum", schema.get("maximum"))
        return (below + above) / 2 if above is not None and above <= below + 1 else below + 1
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    return 0 if most is None or most > 0 else most - 1


def _boolean(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    return False


def _null(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> None:
    return None


_MAKERS: Final = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
}
