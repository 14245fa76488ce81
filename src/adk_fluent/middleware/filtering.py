"""One function applied to every text of a request, an answer or a value: keys, files and schemas too."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from email.message import Message
from enum import Enum
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_origin

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from pydantic import BaseModel

T = TypeVar("T")

KEPT: Final[Mapping[str, str]] = {
    "thought_signature": "bytes that the provider signed; it refuses changed ones",
    "continuation_token": "bytes that the provider made; it refuses changed ones",
    "http_options": "how the request is sent: address, headers, client; its `extra_body` is changed",
    "create_http_options": "how a cache is made: address, headers and client",
    "tools_dict": "the objects that are called here; their declarations, which are sent, are in `config`",
    "live_connect_config": "is sent in live conversations alone, which are refused",
}
"""Fields that are not changed, each with the reason."""

IDENTIFIERS: Final = frozenset(
    {
        *("model", "role", "name", "id", "type", "format", "mime_type", "cached_content"),
        *("previous_interaction_id", "allowed_function_names", "ref", "required", "property_ordering"),
    }
)
"""Fields by which something is found: one that is an identifier, without `@` and spaces, stays as it is."""

_SCHEMAS: Final = frozenset({"response_schema", "response_json_schema", "parameters_json_schema"})
_SCHEMA_NAMES: Final = frozenset({"$ref", "ref", "type", "format", "required", "propertyOrdering"})
_IDENTIFIER: Final = re.compile(r"[A-Za-z_#$][\w.:/$+-]*", re.ASCII)
_TEXTUAL: Final = ("text/", "json", "xml", "yaml", "javascript", "csv", "python")

_LEAST: Final = 10_000_000
"""The least number that can be personal data: a telephone number of eight digits."""


class Filter:
    """Applies a function to the texts of requests, answers and values.

    A value that is not JSON, such as a model of pydantic, a set or a date, becomes what JSON holds of it, if
    the function changes something in that. If it changes nothing, the very object that was given is returned.

    Args:
        text: the function.
        code: the function for programs that a model wrote; by default the same.
        numbers: whether whole numbers in values count as texts.
        names: names of parameters of tools, which stay as they are; a request adds those that it declares.

    Example:
        >>> Filter(str.upper).data({"a": [b"b", ("c", 1)]})
        {'A': [b'B', ['C', 1]]}
    """

    def __init__(
        self,
        text: Callable[[str], str],
        code: Callable[[str], str] | None = None,
        *,
        numbers: bool = False,
        names: set[str] | None = None,
    ) -> None:
        self._text, self._code, self._numbers = text, code or text, numbers
        self._names = set[str]() if names is None else names

    # --- requests and answers ---------------------------------------------------------------------

    def request(self, request: LlmRequest) -> None:
        """Change a request itself, so that traces and logs show what is sent; what it is made of stays."""
        names = sorted(type(request).model_fields, key=lambda name: name != "config")  # it declares the tools
        for name in names:
            given = getattr(request, name)
            if (made := self._field(name, given)) is not given:
                setattr(request, name, made)

    def model(self, model: T) -> T:
        """A model of google-genai or ADK with its texts changed; the same object where none is."""
        given = cast("BaseModel", model)
        update: dict[str, Any] = {}
        for name, value in (*given.__dict__.items(), *(given.__pydantic_extra__ or {}).items()):
            if value is not None and (made := self._field(name, value, given)) is not value:
                update[name] = made
        return cast(T, given.model_copy(update=update)) if update else model

    def _field(self, name: str, value: Any, of: BaseModel | None = None) -> Any:
        if name in KEPT:
            return self._options(value) if name == "http_options" and value is not None else value
        if isinstance(value, str):
            if isinstance(value, Enum):  # one of the provider's words
                return value
            if name in IDENTIFIERS:
                return self._identifier(value)
            return self._code(value) if name == "code" else self._text(value)
        if isinstance(value, bytes):
            return self._bytes(value, getattr(of, "mime_type", None))
        if name in _SCHEMAS:
            schema = _json_schema(value) if _is_type(value) else value
            return _unless(schema, self._schema(schema), value)
        if name in IDENTIFIERS and isinstance(value, list):
            return _same(value, [self._identifier(str(each)) for each in cast("list[Any]", value)])
        if name in {"properties", "defs"} and isinstance(value, dict):
            return self._keyed(cast("dict[str, Any]", value), self._declared, self._any)
        if name == "args" and isinstance(value, dict):
            return self._keyed(cast("dict[str, Any]", value), self._parameter, self.data)
        if name in {"response", "part_metadata", "custom_metadata"} and isinstance(value, dict):
            return self.data(value)
        return self._any(value)

    def _any(self, value: Any) -> Any:
        """A value of a field: a model, some of them, or data; other objects stay."""
        if _is_model(value):
            return self.model(value)
        if isinstance(value, list):
            listed = cast("list[Any]", value)
            return _same(listed, [self._any(each) for each in listed])
        return self.data(value) if isinstance(value, str | bytes | Mapping | tuple | Set) else value

    def _options(self, options: Any) -> Any:
        body = getattr(options, "extra_body", None)
        made = self.data(body)
        return options if made is body else options.model_copy(update={"extra_body": made})

    # --- names and schemas ------------------------------------------------------------------------

    def _identifier(self, text: str) -> str:
        return text if _IDENTIFIER.fullmatch(text) else self._text(text)

    def _declared(self, name: str) -> str:
        if (made := self._identifier(name)) == name:
            self._names.add(name)
        return made

    def _parameter(self, name: str) -> str:
        return name if name in self._names else self._text(name)

    def _schema(self, schema: Any) -> Any:
        """A JSON schema as data: what it names stays, what it describes is changed."""
        if isinstance(schema, list):
            listed = cast("list[Any]", schema)
            return _same(listed, [self._schema(each) for each in listed])
        if not isinstance(schema, dict):
            return self._any(schema)
        given = cast("dict[str, Any]", schema)
        values = {key: self._schema_value(key, value) for key, value in given.items()}
        return self._keyed(_same(given, values), self._declared, lambda value: value)

    def _schema_value(self, key: str, value: Any) -> Any:
        if key not in _SCHEMA_NAMES or isinstance(value, dict):
            return self._schema(value)
        if isinstance(value, list):
            listed = cast("list[Any]", value)
            return _same(listed, [self._identifier(str(each)) for each in listed])
        return self._identifier(value) if isinstance(value, str) else value

    # --- values -----------------------------------------------------------------------------------

    def data(self, value: Any) -> Any:
        """A value with all its texts changed, keys of mappings too."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return _unless(value.value, self.data(value.value), value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(cast(bytes, value))
        if isinstance(value, Mapping):
            return self._keyed(cast("Mapping[Any, Any]", value), self._key, self.data)
        if isinstance(value, list | tuple | Set):
            listed = cast("Iterable[Any]", value)
            return _same(cast(Any, listed), [self.data(each) for each in listed])
        if isinstance(value, Iterator):  # to read it is to use it up
            return cast(Any, value)
        return self.model(value) if _is_google(value) else self._object(value)

    def _key(self, key: Any) -> Any:
        if isinstance(key, str | int | float | bytes | None):
            return self.data(key)
        text = str(key)
        return _unless(text, self._text(text), key)

    def parameters(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a tool with their values changed; the names of its parameters stay."""
        return self._keyed(args, lambda name: name, self.data)

    def _object(self, value: Any) -> Any:
        """What is no JSON, as it will be in JSON, if that holds a text that is to be changed."""
        from pydantic_core import to_jsonable_python

        if _is_model(value):
            data = value.model_dump(warnings=False)
        elif is_dataclass(value) and not isinstance(value, type):
            data = {field.name: getattr(value, field.name) for field in fields(value)}
        else:
            data = to_jsonable_python(value, fallback=str, inf_nan_mode="constants")
        return _unless(data, self.data(data), value)

    def _number(self, value: float) -> Any:
        if not self._numbers or abs(value) < _LEAST or not float(value).is_integer():
            return value
        text = str(int(value))
        made = self._text(text)
        return value if made == text else made

    def _bytes(self, value: bytes, mime: str | None = None) -> Any:
        data = bytes(value)
        for encoding in _encodings(data, mime):
            try:
                text = data.decode(encoding)
            except (UnicodeDecodeError, LookupError):
                continue
            made = self._text(text)
            return value if made == text else _encoded(made, encoding)
        return value

    def _keyed(self, given: Any, name: Callable[[Any], Any], value: Callable[[Any], Any]) -> Any:
        made: dict[Any, Any] = {}
        counts = Counter[Any]()
        same = True
        for key, item in given.items():
            named, new = name(key), value(item)
            same = same and new is item and named == key
            counts[named] += 1
            made[named if counts[named] == 1 else f"{named} ({counts[named]})"] = new
        return given if same else made


def _is_model(value: object) -> bool:
    """Whether a value is a model of pydantic."""
    return hasattr(type(value), "model_fields")


def _is_google(value: object) -> bool:
    """Whether a value is a model of google-genai or ADK, whose class must stay."""
    return _is_model(value) and type(value).__module__.startswith("google.")


def _same(given: Any, made: dict[str, Any] | list[Any]) -> Any:
    """What was given, if what was made of it has the same items."""
    if isinstance(made, dict):
        return given if all(made[key] is given[key] for key in given) else made
    return given if all(new is old for new, old in zip(made, given, strict=True)) else made


def _unless(before: Any, after: Any, same: Any) -> Any:
    """`same`, if nothing changed from `before` to `after`."""
    return same if after is before else after


def _encodings(data: bytes, mime: str | None) -> Iterable[str]:
    """Encodings that bytes may be text in, the likeliest first; none for what is known to be no text."""
    kind = Message()
    kind["content-type"] = mime or "application/octet-stream"
    charset = kind.get_param("charset")
    if isinstance(charset, str):
        yield charset
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield "utf-16"
    yield "utf-8"
    if any(word in kind.get_content_type() for word in _TEXTUAL):
        yield "latin-1"


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _is_type(schema: object) -> bool:
    """Whether a schema is given as a class, or as another type such as `list[Invoice]`."""
    return isinstance(schema, type | UnionType) or get_origin(schema) is not None


@lru_cache(maxsize=256)
def _json_schema(schema: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(schema).json_schema()
