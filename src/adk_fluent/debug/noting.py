"""What a recorder notes while it goes on: runs, calls, races."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from adk_fluent.debug.values import Choice, Chunk, LLMInteraction, ToolInteraction
from adk_fluent.errors import RemoteError

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    from adk_fluent.debug.recorder import Recorder

V = TypeVar("V", LLMInteraction, ToolInteraction)

PASSING: Final = 503
"""The status that is noted of a remote agent's failure which may pass."""


@dataclass
class NotedRun:
    """What is known of the run at hand."""

    index: int = -1
    recorder: Recorder | None = None
    prompt: Mapping[str, Any] = field(default_factory=dict[str, Any])
    held: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def run_failed(self, error: Exception) -> None:
        """Called when the run ends with an error."""
        if self.recorder is not None:
            self.recorder.failed(self.index, error)

    def event_apart(self, event: str) -> None:
        """Called when an event is seen that the run may never give."""
        if self.recorder is not None:
            self.recorder.lost(event, True)

    def event_given(self, event: str) -> None:
        """Called when it does."""
        if self.recorder is not None:
            self.recorder.lost(event, False)

    def race_begins(self, contest: str, branch: str | None, names: Collection[str]) -> NotedRace | None:
        """Called when a race begins."""
        if self.recorder is None or self.index < 0:
            return None
        began = self.recorder.next()
        return self.recorder.begins(
            NotedRace(self.recorder, Choice(contest, "", branch, self.index, began=began))
        )

    def remote_asked(self, agent: str, request: LlmRequest, branch: str | None) -> NotedRemote:
        """Called when a remote agent is asked."""
        assert self.recorder is not None
        return self.recorder.remote(self.index, agent, request, branch)


class NotedRace:
    """A race that goes on."""

    def __init__(self, recorder: Recorder, noted: Choice) -> None:
        self._recorder, self._noted = recorder, noted
        self._taken: list[str] = []

    def whole(self) -> Choice:
        """All that is known of it so far."""
        return replace(self._noted, taken=tuple(self._taken))

    def may(self, branch: str, wins: bool) -> bool:
        """Any branch may go on."""
        return True

    def took(self, branch: str, ends: bool) -> None:
        """Something of this branch was taken."""
        self._taken.append(branch)

    def decided(self, winner: str) -> None:
        """It goes on with one of its branches."""
        self._noted = replace(self._noted, winner=winner, seq=self._recorder.next())


class NotedCall(Generic[V]):
    """A call that goes on.

    Attributes:
        noted: what is known of it so far, but for what a model answered.
        chunks: that, as it came.
    """

    def __init__(self, noted: V) -> None:
        self.noted: V = noted
        self.chunks: list[Chunk] = []
        self._began = time.monotonic()

    def whole(self) -> V:
        """All that is known of it so far."""
        return replace(self.noted, chunks=tuple(self.chunks)) if self.chunks else self.noted

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return round(time.monotonic() - self._began, 6)

    @contextmanager
    def going_on(self, tape: Recorder) -> Generator[None]:
        """Notes how it ends: with an error, well, or given up, if nobody reads on."""
        try:
            yield
        except Exception as error:
            self.end(tape, error=tape.failure(error))
            raise
        except BaseException:  # cancelled, or closed
            self.leave()
            raise
        else:
            self.end(tape)

    def leave(self) -> None:
        """Note that it was given up."""
        self.noted = replace(self.noted, seconds=self.seconds)

    def end(self, tape: Recorder, **changes: Any) -> None:
        """Note that it came to its end."""
        self.noted = replace(self.noted, ended=tape.next(), seconds=self.seconds, **changes)


class NotedRemote:
    """A call of a remote agent that goes on."""

    def __init__(self, tape: Recorder, noted: NotedCall[LLMInteraction]) -> None:
        self._tape, self._noted = tape, noted

    def gave(self, response: LlmResponse) -> None:
        """It answered, in whole or in part."""
        self._noted.chunks.append(self._tape.piece(response, self._noted.seconds))

    def failed(self, problem: str, *, passing: bool) -> None:
        """It failed, in a way that may pass or not."""
        told = self._tape.failure(RemoteError(problem))
        self._noted.end(self._tape, error=replace(told, status=PASSING if passing else None))

    def ended(self) -> None:
        """It came to its end."""
        self._noted.end(self._tape)

    def left(self) -> None:
        """Nobody reads on."""
        if self._noted.noted.ended is None:
            self._noted.leave()
