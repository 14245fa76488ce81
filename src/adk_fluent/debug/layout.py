"""The layout of a recording's file, and the checks that a file has it and that the installed ADK reads it."""

from __future__ import annotations

import base64
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from adk_fluent.backends.events import AgentEvent, Usage
from adk_fluent.debug.requests import DEEPEST, deeper_than
from adk_fluent.debug.values import Chunk, LLMInteraction, RecordedRun, SavedArtifact, ToolInteraction
from adk_fluent.errors import RecordingError, on_one_line

if TYPE_CHECKING:
    from adk_fluent.debug.recording import Recording

DEEPEST_FILE: Final = DEEPEST + 20
"""Levels of a file that is read; what is recorded stands in a few others."""


_URL_SAFE: Final = re.compile("[-_]")


def _base64(text: str) -> str:
    base64.b64decode(text, altchars="-_" if _URL_SAFE.search(text) else None)
    return text


Json = dict[str, Any]
Number = Annotated[int, Field(ge=0, le=2**53)]
Seconds = Annotated[float, Field(allow_inf_nan=False)]


class _Call(TypedDict, total=False):
    id: str | None
    name: str | None
    args: Json | None


class _Response(TypedDict, total=False):
    id: str | None
    name: str | None
    response: Json | None


class _Blob(TypedDict, total=False):
    data: Annotated[str, AfterValidator(_base64)] | None
    mime_type: str | None


class _Part(TypedDict, total=False):
    text: str | None
    thought: bool | None
    function_call: _Call | None
    function_response: _Response | None
    inline_data: _Blob | None


class _Content(TypedDict, total=False):
    role: str | None
    parts: list[_Part] | None


class _Tool(TypedDict, total=False):
    function_declarations: list[Json] | None


_Marks = TypedDict(
    "_Marks",
    {"adk_fluent.preface": list[str], "adk_fluent.discards": list[str], "adk_fluent.mock_state": Json},
    total=False,
)
"""What adk-fluent itself notes in the metadata of answers and events, and reads again."""


class _Answer(TypedDict, total=False):
    content: _Content | None
    partial: bool | None
    custom_metadata: _Marks | None


class _Request(TypedDict, total=False):
    model: str | None
    contents: list[_Content] | None
    tools: list[_Tool | str | list[Any]] | None
    options: Json | None


class _Actions(TypedDict, total=False):
    state_delta: Json | None


class _Earlier(TypedDict, total=False):
    author: Required[str]
    content: _Content | None
    actions: Json | None


class _Metadata(TypedDict, total=False):
    redact: list[str]
    default_model: str | None
    sees_races: bool


_NARROWER: Final[Mapping[type, Mapping[str, Any]]] = {
    AgentEvent: {"parts": list[_Part], "metadata": _Marks, "raw": None},
    Usage: {"spent": None},
    Chunk: {"response": _Answer},
    LLMInteraction: {"request": _Request},
    ToolInteraction: {"actions": _Actions},
    SavedArtifact: {"part": _Part | None},
    RecordedRun: {"prompt": _Content, "earlier": list[_Earlier]},
}
"""Value → fields of which a file says more than their type does; `None` for those that are in no file."""
_OF_RECORDINGS: Final[Mapping[str, Any]] = {"metadata": _Metadata}
"""Likewise of a recording itself."""


@cache
def _layout(kind: type[Any], whole: bool = False) -> Any:
    """The layout of a value in a file: its fields, of which only those without a default must be there."""
    narrower = _OF_RECORDINGS if whole else _NARROWER.get(kind, {})
    hints = get_type_hints(kind, localns={"Part": Any, "Event": Any})
    made: dict[str, Any] = {}
    for each in fields(kind):
        form = narrower[each.name] if each.name in narrower else _form(hints[each.name])
        if form is not None:
            needed = each.default is MISSING and each.default_factory is MISSING
            made[each.name] = Required[form] if needed else form
    typed: Any = TypedDict
    return typed(f"_{kind.__name__}", made, total=False)


def _form(hint: Any) -> Any:
    """What a file holds of a value of this type."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if hint in (int, float):
        return Number if hint is int else Seconds
    if kind in (Union, UnionType):
        return Union[tuple(map(_form, inner))]  # noqa: UP007  # of types that are known only here
    if kind is tuple or kind is list:
        return list[_form(inner[0])]
    if kind in (dict, Mapping):
        return dict[str, _form(inner[1])]
    if kind is Literal:
        return str
    return _layout(kind) if is_dataclass(kind) else hint


def damage(found: Mapping[str, Any], kind: type[Any]) -> str | None:
    """What is wrong with the content of a file, and where in it; `None` if it has the layout of a recording.

    What the layout does not know, such as fields of a later minor version, is not looked at.

    Args:
        found: the content of the file.
        kind: the class of recordings.

    >>> from adk_fluent.debug import Recording
    >>> damage({"steps": [{"event": {"author": "a"}, "seq": "x"}]}, Recording)
    "steps[0].seq is 'x'; it should be a valid integer"
    >>> damage({"steps": [{}], "runs": []}, Recording)
    'steps[0].event is missing'
    """
    if deeper_than(found, DEEPEST_FILE):
        return f"it is nested too deep (more than {DEEPEST_FILE} levels)"
    try:
        _checks(kind).validate_python(found, strict=True)
    except ValidationError as error:
        return _said(error)
    return _foreign_run(found)


@cache
def _checks(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(_layout(kind, whole=True))


def _said(error: ValidationError) -> str:
    """Of all that a check found, the first."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = place_of(first["loc"])
    if first["type"] == "missing":
        return f"{place} is missing"
    should = first["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return f"{place} is {reprlib.repr(first['input']):.60}; it {should}"


def place_of(path: tuple[int | str, ...]) -> str:
    """A place in a file, as a person writes it.

    >>> place_of(("steps", 3, "event", "tool_calls", 0))
    'steps[3].event.tool_calls[0]'
    """
    said = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    whole = " ".join(said.removeprefix(".").split())  # a key may be any text
    return whole if len(whole) < 120 else f"{whole[:120]}..."


def _foreign_run(found: Mapping[str, Any]) -> str | None:
    runs = len(found.get("runs", ()))
    for part in ("steps", "llm_interactions", "tool_interactions", "ends", "begins", "failures", "choices"):
        for number, each in enumerate(found.get(part) or ()):
            if each.get("run", 0) >= runs:
                return f"{part}[{number}] belongs to run {each.get('run', 0)}, of {runs}"
    return None


def check_readable(recording: Recording) -> None:
    """Refuse what the installed ADK cannot read, before anything runs.

    Raises:
        RecordingError: something in it is no message, answer or action of ADK.
    """
    for place, make in _natives(recording):
        try:
            make()
        except ValueError as error:
            what = on_one_line(error)
            raise RecordingError(
                f"{place} of this recording cannot be read by the installed google-adk: {what:.160}. "
                "Record it again."
            ) from error


def _natives(recording: Recording) -> Iterator[tuple[str, Callable[[], object]]]:
    """Place → what makes ADK's value of what was recorded there."""
    from adk_fluent.backends.adk.api import parts, recorded

    for number, run in enumerate(recording.runs):
        yield f"runs[{number}].prompt", partial(parts.content_from, run.prompt)
        for place, data in enumerate(run.earlier):
            yield f"runs[{number}].earlier[{place}]", partial(parts.session_event, data, {})
    for number, call in enumerate(recording.llm_interactions):
        for piece, chunk in enumerate(call.chunks):
            place = f"llm_interactions[{number}].chunks[{piece}].response"
            yield place, partial(parts.response_from, chunk.response)
    for number, used in enumerate(recording.tool_interactions):
        yield f"tool_interactions[{number}].actions", partial(parts.actions_from, used.actions)
    for artifact in recording.saved_artifacts().values():
        yield (
            f"Artifact {artifact.filename!r}",
            partial(recorded.check_artifact, artifact.version, artifact.part),
        )
