"""A pipeline in several places: where it is cut, what each part is, and what crosses.

`split` cuts a pipeline at its execution boundaries. A boundary cuts before its expression, so a segment is
all from one boundary to the next, and segments run one after another:

    >>> from adk_fluent import Agent
    >>> from adk_fluent.distributed import split
    >>> heavy = Agent("heavy").instruct("Work on {task}.").writes("result").execution_boundary()
    >>> pipeline = Agent("clerk").writes("task") >> heavy
    >>> [segment.name for segment in split(pipeline)]
    ['clerk', 'heavy']

Whoever runs segments (an engine, a worker, a queue) keeps the session, and does for each segment, in order:

- `crossing = inward(segment, state=..., history=..., events=..., message=..., run_id=...)`: of the session's
  state and conversation what the segment needs, and nothing else. Events are ADK's, as JSON-able data.
- `data = to_bytes(crossing, segment.boundary.serialization)`, and `from_bytes` where the segment runs: there
  `unpack(crossing.state, segment.fields)` is the state, `crossing.history` and `crossing.events` the
  conversation.
- `outward(segment, crossing, events)` of what happened there, as bytes again; the keeper appends these
  events, each with its `unpack`ed delta, to the session. `failed(crossing, error)` is what comes back of one
  that failed.

`crossing.key` names the piece of work, however often it is delivered. `segment.ir_hash` tells versions of a
pipeline apart. `segment.app` is a native ADK app of its own, `segment.manifest` what is deployed, as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from adk_fluent.analysis.cuts import Hearing
    from adk_fluent.backends.temporal.server import DevServer
    from adk_fluent.distributed.backend import DistributedBackend
    from adk_fluent.distributed.crossing import Crossing, Happened, failed, inward, outward
    from adk_fluent.distributed.formats import Serialization, from_bytes, to_bytes
    from adk_fluent.distributed.manifest import Manifest, Port
    from adk_fluent.distributed.segments import Segment, split
    from adk_fluent.distributed.worker import run_worker
    from adk_fluent.ir.annotations import ExecutionBoundary, ScalingConfig, TransportConfig
    from adk_fluent.state.delta import pack, unpack

__all__ = [
    "Crossing",
    "DevServer",
    "DistributedBackend",
    "ExecutionBoundary",
    "Happened",
    "Hearing",
    "Manifest",
    "Port",
    "ScalingConfig",
    "Segment",
    "Serialization",
    "TransportConfig",
    "failed",
    "from_bytes",
    "inward",
    "outward",
    "pack",
    "run_worker",
    "split",
    "to_bytes",
    "unpack",
]

if not TYPE_CHECKING:  # a checker that sees it would take any name for a name of the package
    __getattr__ = lazy(__name__)
