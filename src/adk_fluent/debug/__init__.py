"""What happened in a run: recorded, replayed, compared, and gone back to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from adk_fluent.debug.diffing import (
        CallChange,
        EventChange,
        EventDiff,
        RecordingDiff,
        diff_events,
        diff_recordings,
    )
    from adk_fluent.debug.recorder import Recorder
    from adk_fluent.debug.recording import Recording, pipeline_hash
    from adk_fluent.debug.replaying import ReplayerBackend
    from adk_fluent.debug.tape import Mismatch
    from adk_fluent.debug.values import (
        Choice,
        Chunk,
        End,
        Failure,
        LLMInteraction,
        Moment,
        RecordedRun,
        SavedArtifact,
        Step,
        ToolInteraction,
    )

__all__ = [
    "CallChange",
    "Choice",
    "Chunk",
    "End",
    "EventChange",
    "EventDiff",
    "Failure",
    "LLMInteraction",
    "Mismatch",
    "Moment",
    "RecordedRun",
    "Recorder",
    "Recording",
    "RecordingDiff",
    "ReplayerBackend",
    "SavedArtifact",
    "Step",
    "ToolInteraction",
    "diff_events",
    "diff_recordings",
    "pipeline_hash",
]

if not TYPE_CHECKING:  # a checker that sees it would take any name for a name of the package
    __getattr__ = lazy(__name__)
