"""Reports as JSON, and back; files are written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from adk_fluent.errors import EvalError
from adk_fluent.eval.results import CaseResult, Score, TurnResult

if TYPE_CHECKING:
    from adk_fluent.eval.report import FluentEvalReport

FORMAT: Final = "adk-fluent.eval-report"
VERSION: Final = 1
"""Raised when a reader of the version before would read something wrong; new fields do not raise it."""


def to_json(report: FluentEvalReport) -> str:
    """A report as JSON."""
    from pydantic_core import to_jsonable_python

    whole = {
        "format": FORMAT,
        "version": VERSION,
        "name": report.name,
        "engine": report.engine,
        "versions": dict(report.versions),
        "notes": list(report.notes),
        "pass_rate": report.pass_rate,
        "flake_rate": report.flake_rate,
        "case_results": [_result(result) for result in report.case_results],
    }
    plain = to_jsonable_python(whole, bytes_mode="base64", inf_nan_mode="null", fallback=repr)
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def _result(result: CaseResult) -> dict[str, Any]:
    values = {one.name: getattr(result, one.name) for one in fields(result) if one.name != "native"}
    values["scores"] = [_values(score) for score in result.scores]
    values["turns"] = [_values(turn) for turn in result.turns]
    return values | {"cost": None if result.cost is None else str(result.cost)}


def _values(value: Score | TurnResult) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}


def write(path: str | PathLike[str], text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        EvalError: it cannot be written.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.replace(draft, target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise EvalError(f"{target} cannot be written: {error.strerror or error}.") from error


def read(path: str | PathLike[str]) -> str:
    """The text of a file.

    Raises:
        EvalError: it cannot be read, or is not text.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except TypeError as error:
        raise EvalError(f"This is read from the path of a file, not {path!r:.40}.") from error
    except OSError as error:
        raise EvalError(f"{os.fspath(path)} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise EvalError(f"{os.fspath(path)} is not text in UTF-8: byte {error.start}.") from error


def parsed(path: str | PathLike[str], text: str) -> Any:
    """What JSON says.

    Raises:
        EvalError: it is none; the message says at which line and column.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise EvalError(f"{os.fspath(path)} is not JSON at {where}: {error.msg}.") from error
    except RecursionError as error:
        raise EvalError(f"{os.fspath(path)} nests too deeply.") from error


def load(path: str | PathLike[str], make: type[FluentEvalReport]) -> FluentEvalReport:
    """A report that was saved.

    Args:
        path: the file.
        make: the class of the report.

    Raises:
        EvalError: see `FluentEvalReport.load`.
    """
    given = parsed(path, read(path))
    shown = os.fspath(path)
    if not isinstance(given, dict) or cast("dict[str, Any]", given).get("format") != FORMAT:
        raise EvalError(f"{shown} is no report of an evaluation: FluentEvalReport.save() writes one.")
    whole = cast("dict[str, Any]", given)
    if whole.get("version") != VERSION:
        raise EvalError(
            f"{shown} is a report of version {whole.get('version')!r}, and this reads version {VERSION}: "
            "use the adk-fluent that wrote it, or run the suite again."
        )
    try:
        return make(
            case_results=tuple(map(_read_result, whole["case_results"])),
            name=str(whole["name"]),
            engine=str(whole["engine"]),
            versions=dict(whole["versions"]),
            notes=tuple(map(str, whole.get("notes") or ())),
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise EvalError(f"{shown} is no whole report: {type(error).__name__} at {error}.") from error


def _read_result(given: Mapping[str, Any]) -> CaseResult:
    cost = given["cost"]
    return CaseResult(
        eval_id=str(given["eval_id"]),
        run=int(given["run"]),
        passed=given["passed"] is True,
        scores=tuple(Score(**_known(Score, each, why=tuple(each["why"]))) for each in given["scores"]),
        turns=tuple(map(_read_turn, given["turns"])),
        tags=tuple(given["tags"]),
        error=given["error"],
        seconds=float(given["seconds"]),
        tokens=int(given["tokens"]),
        cost=None if cost is None else Decimal(cost),
    )


def _read_turn(given: Mapping[str, Any]) -> TurnResult:
    expected = given["expected_calls"]
    calls: Any = tuple((name, args) for name, args in given["calls"])
    wanted: Any = None if expected is None else tuple((name, args) for name, args in expected)
    return TurnResult(**_known(TurnResult, given, calls=calls, expected_calls=wanted))


def _known(made: type[Score] | type[TurnResult], given: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The fields that are known here; a newer version may have written others."""
    known = {one.name for one in fields(made)}
    return {name: value for name, value in given.items() if name in known} | more
