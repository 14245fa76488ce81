"""Every place of a model of pydantic that can hold words, with a word put there."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from google.adk.models.llm_request import LlmRequest
from google.genai import types
from pydantic import BaseModel, create_model

from adk_fluent.middleware.filtering import KEPT

WORDLESS: Final = {
    bool: "is true or false",
    int: "is a number",
    float: "is a number",
    NoneType: "is no value at all",
    enum.Enum: "is one of the words of the provider",
    Literal: "is one of the words of the provider",
}
"""Types that hold no words, each with the reason."""

OTHERWISE: Final = {
    "GenerateContentConfig.tools": types.Tool,
    "GenerateContentConfig.response_schema": type,
    "FunctionDeclaration.parameters_json_schema": dict[str, Any],
    "FunctionDeclaration.response_json_schema": dict[str, Any],
    "GenerateContentConfig.response_json_schema": dict[str, Any],
}
"""Fields of which the annotation says less than the API takes."""

Planted = tuple[str, Any]
"""The path of a place, and a value with the word there."""


def planted(cls: type[BaseModel], word: str) -> list[Planted]:
    """Every place below a model, each with a model that holds the word there and nowhere else."""
    return list(_in_model(cls, word, ()))


def _in_model(cls: type[BaseModel], word: str, outer: tuple[type, ...]) -> Iterator[Planted]:
    for name, field in cls.model_fields.items():
        if name in KEPT:
            assert len(KEPT[name]) > 20, "each field that is kept has its reason"
            continue
        place = f"{cls.__name__}.{name}"
        for path, value in _in_type(OTHERWISE.get(place, field.annotation), word, (*outer, cls), place):
            if name in {"tools"} and not isinstance(value, list):
                value = [value]
            yield f"{name}{path}", cast(Any, cls).model_construct(**{name: value})


def _in_type(annotation: Any, word: str, outer: tuple[type, ...], place: str) -> Iterator[Planted]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is str:
        yield "", word
    elif annotation is bytes:
        yield "", word.encode()
    elif annotation is Any or annotation is dict:
        yield from _data(word)
    elif annotation is type:
        yield ":class", _described(word)
    elif annotation in WORDLESS or origin is Literal:
        return
    elif origin in {Union, UnionType, Annotated}:
        for each in arguments if origin is not Annotated else arguments[:1]:
            yield from _in_type(each, word, outer, place)
    elif origin is list or annotation is list:
        for path, value in _in_type(arguments[0] if arguments else Any, word, outer, place):
            yield f"[0]{path}", [value]
    elif origin is dict:
        of = arguments[1]
        if of is Any:
            yield from _data(word)
            return
        for path, value in _in_type(of, word, outer, place):
            yield f".key{path}", {"key": value}
            yield ".*", {word: value}
    elif isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in outer:
            for path, value in _in_model(annotation, word, outer):
                yield f".{path}", value
    elif annotation.__module__ in {"datetime", "typing", "types"}:  # other forms of a schema; a time
        return
    else:
        raise AssertionError(f"{place} holds {annotation}: say whether that can hold words")


def _data(word: str) -> Iterator[Planted]:
    """JSON with the word in each place, and what becomes JSON."""

    class Held(BaseModel):
        """A result of a tool."""

        held: str = word

    yield "{value}", {"value": word}
    yield "{key}", {word: 1}
    yield "{nested}", {"list": [{"value": [word]}]}
    yield "{json}", {"text": f'{{"said": "two\\nlines\\n{word}"}}'}
    yield "{model}", {"model": Held()}
    yield "{set}", {"set": {word}}
    yield "{bytes}", {"bytes": word.encode()}


@cache
def _described(word: str) -> type[BaseModel]:
    made = create_model("Answer", said=(str, ...))
    made.__doc__ = f"Ask {word}."
    made.model_rebuild(force=True)
    return made


def requests(word: str) -> list[Planted]:
    """A request to a model for each of its places that can hold words."""
    return planted(LlmRequest, word)
