"""A worker process of one segment: it serves the process that started it, over a pipe."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import BinaryIO, cast

from adk_fluent.distributed.crossing import failed
from adk_fluent.distributed.formats import Serialization, from_bytes, to_bytes
from adk_fluent.distributed.processes import HEAD
from adk_fluent.distributed.segments import Segment, split
from adk_fluent.distributed.working import Worker
from adk_fluent.errors import ADKFluentError, ArgumentError


def load(target: str) -> object:
    """The pipeline that `module:attribute` names.

    Raises:
        ArgumentError: there is no such module or attribute.
    """
    module, colon, attribute = target.partition(":")
    if not colon or not attribute:
        raise ArgumentError(f"A pipeline is named as module:attribute, not {target!r}.")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"There is no pipeline {target!r}: {error}.") from error


def segment_of(target: str, name: str) -> Segment:
    """The segment of that name.

    Raises:
        ArgumentError: the pipeline has none.
    """
    parts = {segment.name: segment for segment in split(load(target))}
    if name not in parts:
        raise ArgumentError(f"{target!r} has no segment {name!r}; it has {', '.join(parts)}.")
    return parts[name]


async def work(worker: Worker, given: BinaryIO, gives: BinaryIO, form: Serialization) -> None:
    """Take pieces of work until there are no more."""
    while head := await asyncio.to_thread(given.read, HEAD):
        crossing = from_bytes(await asyncio.to_thread(given.read, int.from_bytes(head, "big")), form)
        try:
            async for back in worker.run(crossing):
                _give(gives, to_bytes(back, form))
        except Exception as error:  # noqa: BLE001  # whatever it was, the caller is told
            _give(gives, to_bytes(failed(crossing, error), form))
        else:
            _give(gives, b"")


def _give(gives: BinaryIO, data: bytes) -> None:
    gives.write(len(data).to_bytes(HEAD, "big") + data)
    gives.flush()


def main() -> None:
    """Run a segment for the process that started this one; a mistake is one line."""
    try:
        _main()
    except ADKFluentError as error:
        raise SystemExit(f"python -m adk_fluent.distributed: {' '.join(str(error).split())}") from error


def _main() -> None:
    from adk_fluent.backends.adk.api import ADKBackend, places

    parser = argparse.ArgumentParser(prog="python -m adk_fluent.distributed")
    parser.add_argument("target", help="the pipeline, as module:attribute")
    parser.add_argument("--segment", required=True, help="the segment to run")
    parser.add_argument("--artifacts", help="where artifacts are kept: a folder, or gs://bucket")
    said = parser.parse_args()
    backend = ADKBackend(artifact_service=places.artifacts_at(said.artifacts) if said.artifacts else None)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as gives:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the pipeline prints is no answer
        cast(TextIOWrapper, sys.stdout).reconfigure(line_buffering=True)  # it comes before a later error
        segment = segment_of(said.target, said.segment)
        if segment.is_queued or sys.stdin.isatty():
            raise ArgumentError(
                f"Segment {segment.name!r} takes work here from the process that starts it. Where it has a "
                f"queue, start a worker of that: adk-fluent worker {said.target} --segment {segment.name}."
            )
        worker = Worker(segment, backend)
        asyncio.run(work(worker, sys.stdin.buffer, gives, segment.boundary.serialization))


if __name__ == "__main__":
    main()
