"""`adk-fluent record`, `replay` and `diff`: what happened, whether it happens again, and what differs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.look import inside
from adk_fluent.cli.run import once
from adk_fluent.cli.target import load
from adk_fluent.debug import Recorder, Recording, RecordingDiff, diff_recordings
from adk_fluent.errors import RecordingError, ReplayError

SAME, DIFFERS = 0, 1
"""Exit codes of `replay` and `diff`."""


def record(target: str, prompt: str, output: Path, *, state: Mapping[str, Any], verbose: bool) -> int:
    """Run TARGET once as `run` does, and write what happens to a file, also if the run fails.

    Raises:
        UsageError: TARGET cannot be loaded, or adk-fluent cannot look inside it; or PROMPT is empty.
        FailedRunError: a model or tool failed, or an approval was not given.
        RecordingError: the file cannot be written.
    """
    if not prompt.strip():
        raise UsageError("PROMPT is empty.")
    tape, found = Recorder(), load(target)
    watched = replace(found, value=tape.install(inside(target, found)))
    try:
        once(watched, prompt, state=state, verbose=verbose)
    finally:
        if tape.get_recording().runs:
            sys.stdout.flush()
            print(f"{tape.save(output)!r} is in {output}", file=sys.stderr)
    return SAME


def replay(
    file: Path,
    target: str,
    *,
    until: str | None,
    on_mismatch: Literal["error", "skip", "live"],
    tools: Literal["recorded", "live"],
) -> int:
    """Run TARGET on what a file holds, and print what differs; 1 if anything does.

    Args:
        until: print what was at this step instead.

    Raises:
        UsageError: the file is no recording, TARGET cannot be loaded, or there is no such step.
    """
    recording = _read(file)
    expression = inside(target)
    try:
        with redirect_stdout(sys.stderr):  # its steps and tools run
            again = asyncio.run(recording.replay(expression, on_mismatch=on_mismatch, tools=tools))
    except ReplayError as error:
        _write(str(error))
        return DIFFERS
    difference = diff_recordings(recording, again)
    if until is None:
        _write(str(difference))
        return _code(difference)
    try:
        _write(str(again.at(until)))
    except RecordingError as error:
        raise UsageError(str(error)) from None
    return _code(difference)


def difference(before: Path, after: Path, *, html: Path | None) -> int:
    """Print what differs between two recordings; 1 if anything does.

    Args:
        html: where to write a page, too.

    Raises:
        UsageError: one of the files is no recording, or the page cannot be written.
    """
    found = diff_recordings(_read(before), _read(after))
    if html is not None:
        try:
            html.write_text(found.to_html(), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{html} cannot be written: {error.strerror}.") from None
    _write(str(found))
    return _code(found)


def _read(path: Path) -> Recording:
    try:
        return Recording.load(path)
    except RecordingError as error:
        raise UsageError(str(error)) from None


def _code(difference: RecordingDiff) -> int:
    return DIFFERS if difference else SAME


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
