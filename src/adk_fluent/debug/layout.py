"""The layout of a recording's file, and the check that a file has it."""

from __future__ import annotations

import base64
import re
import reprlib
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, NotRequired, Required

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from adk_fluent.debug.requests import DEEPEST, deeper_than

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


class _Request(TypedDict, total=False):
    model: str | None
    contents: list[_Content] | None
    tools: list[_Tool | str | list[Any]] | None
    options: Json | None


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


class _Failure(TypedDict, total=False):
    type: Required[str]
    message: str
    status: int | None
    bases: list[str]


class _Chunk(TypedDict, total=False):
    response: Required[_Answer]
    at: Seconds
    seq: Number


class _Place(TypedDict, total=False):
    branch: str | None
    run: Number
    seq: Number
    at: Seconds


class _Asked(_Place, total=False):
    agent_name: Required[str]
    call: Number
    error: _Failure | None
    started: Number
    ended: Number | None
    given_up: Number | None
    limit: Number | None
    seconds: Seconds


class _ModelCall(_Asked, total=False):
    operation: str | None
    model: str | None
    request: _Request
    prompt: list[str]
    state: Json | None
    chunks: list[_Chunk]
    remembered: bool


class _Actions(TypedDict, total=False):
    state_delta: Json | None


class _Artifact(TypedDict, total=False):
    filename: Required[str]
    version: Number
    part: _Part | None


class _ToolCall(_Asked, total=False):
    tool_name: Required[str]
    call_id: str
    args: Json
    actions: _Actions
    artifacts: list[_Artifact]
    inside: bool


class _Earlier(TypedDict, total=False):
    author: Required[str]
    content: _Content | None
    actions: Json | None


class _Run(TypedDict, total=False):
    prompt: _Content
    session_id: str
    user_id: str
    state: Json
    invocation_id: str
    streaming: bool
    live: bool
    error: _Failure | None
    left: bool
    artifacts: list[_Artifact]
    earlier: list[_Earlier]


class _End(_Place, total=False):
    agent_name: Required[str]


class _BranchFailure(_Place, total=False):
    step: Required[str]
    child: Number


class _Choice(_Place, total=False):
    contest: Required[str]
    winner: str
    began: Number
    taken: list[str]


class _EventCall(TypedDict):
    tool_name: str
    args: Json
    call_id: str


class _EventResponse(TypedDict):
    tool_name: str
    result: Any
    call_id: str


class _Pending(TypedDict):
    id: str
    agent: str
    message: str
    payload: Json
    kind: NotRequired[str]


class _Usage(TypedDict, total=False):
    calls: Number
    input_tokens: Number
    output_tokens: Number
    cached_tokens: Number


class _Event(TypedDict, total=False):
    author: Required[str]
    content: str | None
    state_delta: Json
    artifact_delta: dict[str, Number]
    transfer_to: str | None
    escalate: bool
    tool_calls: list[_EventCall]
    tool_responses: list[_EventResponse]
    is_final: bool
    is_partial: bool
    end_of_agent: bool
    agent_state: Json | None
    metadata: _Marks
    timestamp: Seconds
    id: str
    invocation_id: str
    parts: list[_Part]
    branch: str | None
    model: str | None
    usage: _Usage | None
    error: str | None
    pending: list[_Pending]
    visibility: str
    session_id: str
    input_transcription: str | None
    output_transcription: str | None
    turn_complete: bool
    interrupted: bool


class _Step(_Place, total=False):
    event: Required[_Event]
    changed: Json
    lost: bool
    given: list[Number]


class _Metadata(TypedDict, total=False):
    redact: list[str]
    default_model: str | None
    sees_races: bool


class _File(TypedDict, total=False):
    ir_hash: str
    pipeline: str
    runs: list[_Run]
    steps: list[_Step]
    llm_interactions: list[_ModelCall]
    tool_interactions: list[_ToolCall]
    ends: list[_End]
    begins: list[_End]
    failures: list[_BranchFailure] | None
    choices: list[_Choice]
    spans: list[Json]
    places: dict[str, str]
    versions: dict[str, str]
    metadata: _Metadata


def damage(found: Mapping[str, Any]) -> str | None:
    """What is wrong with the content of a file, and where in it; `None` if it has the layout of a recording.

    What the layout does not know, such as fields of a later minor version, is not looked at.

    >>> damage({"steps": [{"event": {"author": "a"}, "seq": "x"}]})
    "steps[0].seq is 'x'; it should be a valid integer"
    >>> damage({"steps": [{}], "runs": []})
    'steps[0].event is missing'
    """
    if deeper_than(found, DEEPEST_FILE):
        return f"it is nested too deep (more than {DEEPEST_FILE} levels)"
    try:
        _checks().validate_python(found, strict=True)
    except ValidationError as error:
        return _said(error)
    return _foreign_run(found)


@cache
def _checks() -> TypeAdapter[_File]:
    return TypeAdapter(_File)


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
