"""The part of the conversation that an agent's context lets through to its model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.talk.history import audible
from adk_fluent.context.spec import Context

Answer = Literal["yes", "no", "maybe"]


@dataclass(frozen=True, slots=True)
class Sight:
    """The part of the conversation that an agent's model receives.

    Attributes:
        history: all messages, none, or only the `last` turn.
        authors: if not `None`, only the messages of these agents.
        excluded: the agents whose messages are left out.
        user: true if the model receives the user's messages of earlier turns.
        earlier: true if it receives any messages of earlier turns.
        files: true if it receives images and other files.
        keys: state keys that it receives, too.
        wholesale: true if all other agents' messages are left out, not by name: by `none`, `.reads`,
            `from_state` or `template`.
        unknown: true if a user's function decides.
        message: true if the current user message is certainly sent as the user wrote it.
        shown: the name of the context in messages.
    """

    history: Literal["all", "none", "last"] = "all"
    authors: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    user: bool = True
    earlier: bool = True
    files: bool = True
    keys: tuple[str, ...] = ()
    wholesale: bool = False
    unknown: bool = False
    message: bool = True
    shown: str = "C.default()"

    def sees(self, speaker: Step, listener: Step) -> Answer:
        """The answer whether the listener receives the message of a speaker that ran before it."""
        return self.admits(speaker) if audible(speaker.branch, listener.branch) else "no"

    @property
    def is_whole(self) -> bool:
        """True if the model receives the messages of all agents."""
        return self.history == "all" and self.authors is None and not self.excluded and not self.unknown

    def admits(self, speaker: Step) -> Answer:
        """The answer whether the context lets the speaker's messages through, apart from branches."""
        if self.history == "none":
            return "no"
        names = {speaker.origin, speaker.name}
        if self.authors is not None and not names & self.authors:
            return "no"
        if names & self.excluded:
            return "no"
        return "maybe" if self.unknown or self.history == "last" else "yes"


EVERYTHING: Final = Sight()
LAST_TURN: Final = Sight(history="last", earlier=False, shown='include_contents("none")')


def sight_of(node: Any) -> Sight:
    """The part of the conversation that the agent of this node receives."""
    if not node.agent:
        return EVERYTHING
    spec = node.annotations.context
    if isinstance(spec, Context):
        return _sight(spec)
    return LAST_TURN if node.given.get("include_contents") == "none" else EVERYTHING


@lru_cache(maxsize=512)
def _sight(spec: Context) -> Sight:
    seen = spec.view()
    return Sight(
        "none" if seen.history == "none" else "all",
        authors=seen.authors,
        excluded=seen.excluded,
        user=seen.user,
        earlier=seen.history != "none" and seen.turns != 1,
        files=seen.files,
        keys=seen.keys,
        wholesale=seen.history == "none",
        unknown=seen.unknown,
        message=seen.message,
        shown=repr(spec),
    )
