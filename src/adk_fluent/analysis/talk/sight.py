"""What of the conversation an agent is shown, according to its context."""

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
    """What an agent is shown of what was said before.

    Attributes:
        history: all of it, none of it, or only what was said `last`.
        authors: if not `None`, only what these agents said.
        excluded: not what these agents said.
        user: whether the user's messages of earlier turns are shown.
        earlier: whether anything of earlier turns is shown.
        files: whether images and other files survive.
        keys: state keys that are shown beside it.
        wholesale: others' words are all left out, not by name: `none`, `.reads`, `from_state`, `template`.
        unknown: a function of the user decides.
        message: whether the current user message is surely shown as it was written.
        shown: how a message calls it.
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
        """Whether the listener is shown what the speaker said, given that it ran before."""
        return self.admits(speaker) if audible(speaker.branch, listener.branch) else "no"

    @property
    def is_whole(self) -> bool:
        """Whether all that can be heard is shown, whoever said it."""
        return self.history == "all" and self.authors is None and not self.excluded and not self.unknown

    def admits(self, speaker: Step) -> Answer:
        """Whether what the speaker said is shown, if it can be heard."""
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
    """What the agent of this node is shown."""
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
