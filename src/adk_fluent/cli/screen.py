"""The live view of a run: who speaks, what went to state, what it took."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from adk_fluent.backends.events import AgentEvent, Usage
from adk_fluent.cli.paper import Paper, Style
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import FirstMatch, InParallel
from adk_fluent.viz.styles import branches

Clock = Callable[[], float]
"""Seconds from some point on."""

SHOWN_VALUE = 60
"""Characters of a state value that are shown."""


@dataclass(slots=True)
class _Turn:
    """What one agent says, until it is done."""

    author: str
    branch: str | None
    style: Style
    text: str = ""


@dataclass(slots=True)
class Screen:
    """Shows events as they come; branches that speak at the same time one after the other.

    What agents say to each other is faint, or left out: then a line says who worked.

    Attributes:
        paper: where it is shown.
        root: the tree that runs, with unique names; from it come the lines about routes and branches.
        clock: measures how long each agent takes; `None` shows neither times nor tokens.
        verbose: whether to show what is not meant for the user, too.
        usage: what all model calls used together.
    """

    paper: Paper
    root: Node
    clock: Clock | None = None
    verbose: bool = False
    usage: Usage = field(default_factory=Usage)
    _steps: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    _shown: set[str] = field(default_factory=set[str])
    _current: _Turn | None = None
    _began: dict[str, float] = field(default_factory=dict[str, float])
    _waiting: list[tuple[AgentEvent, float]] = field(default_factory=list[tuple[AgentEvent, float]])
    _mark: float = 0.0
    _gap: bool | None = None
    """Whether an empty line comes before the next; `None` before the first."""
    _answered: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self._steps = structure(self.root)
        self._mark = self._now()

    def show(self, event: AgentEvent) -> None:
        """Show one event, or keep it until the agent that speaks is done."""
        now = self._now()
        self._began.setdefault(event.author, self._mark)
        if not event.is_partial:
            self._mark = now
        self._place(event, now)

    def _place(self, event: AgentEvent, now: float) -> None:
        speaking = self._current
        if speaking and (event.author, event.branch) != (speaking.author, speaking.branch):
            if event.branch != speaking.branch:  # a sibling, at the same time
                self._waiting.append((event, now))
                return
            self._stop()  # it never finished: it failed, or was cancelled
        self._draw(event, now)
        if self._current is None:
            self._catch_up()

    def end(self) -> None:
        """Show what is still held back, and end the line."""
        self._stop()
        while self._waiting:
            self._catch_up()
            self._stop()

    def answer(self, said: Sequence[AgentEvent]) -> None:
        """Show the answer, should it be one that is not meant for the user where others speak later."""
        if said and said[-1].id not in self._answered:
            self._say(said[-1])
            self._stop()

    def _stop(self) -> None:
        self.paper.end(self._current.style if self._current else "")
        self._current = None

    def _catch_up(self) -> None:
        waiting, self._waiting = self._waiting, []
        for event, now in waiting:
            self._place(event, now)

    def _now(self) -> float:
        return self.clock() if self.clock else 0.0

    # --- one event --------------------------------------------------------------------------------

    def _draw(self, event: AgentEvent, now: float) -> None:
        if event.visibility != "user" and not self.verbose:
            self._mention(event, now)
            return
        if event.content:
            self._say(event)
            if event.is_partial:
                return
            self._stop()
            self._answered.add(event.id)
            if facts := self._facts(event, now):
                self.paper.line(("  " + facts, "faint"))
        elif event.state_delta:
            self._state(event)
        self._notes(event)

    def _say(self, event: AgentEvent) -> None:
        turn = self._speaker(event)
        if event.is_partial or not turn.text:
            turn.text += event.content or ""
            self.paper.say(event.content or "", turn.style, indent=2)

    def _mention(self, event: AgentEvent, now: float) -> None:
        """One line for an agent that speaks to others, or a step that writes state."""
        if event.is_partial or not (event.content or event.state_delta):
            return
        self._lead_in(event.author)
        mark = "○" if event.content else "ƒ"
        facts = self._facts(event, now) if event.content else _keys(event)
        self.paper.line((f"{mark} {event.author}   {facts}".rstrip(), "faint"))

    def _speaker(self, event: AgentEvent) -> _Turn:
        if self._current is None:
            inner = event.visibility != "user" and self.verbose
            self._lead_in(event.author, own=True)
            note = "  internal" if inner else ""
            self.paper.line(("● ", "agent"), (event.author, "agent"), (note, "faint"))
            self._current = _Turn(event.author, event.branch, "faint" if inner else "")
        return self._current

    def _lead_in(self, author: str, own: bool = False) -> None:
        """What comes before a step: an empty line around the `own` paragraph of one, and where it stands."""
        if self._gap is not None and (own or self._gap):
            self.paper.line()
        self._gap = own
        for step in self._steps.get(author, ()):
            if step not in self._shown:
                self._shown.add(step)
                self.paper.line((step, "faint"))

    def _facts(self, event: AgentEvent, now: float) -> str:
        seconds = now - self._began.pop(event.author, now)
        facts = [_keys(event)] if event.state_delta else []
        if event.usage:
            self.usage += event.usage
        if self.clock:
            facts += [f"{event.usage.total_tokens} tokens"] if event.usage else []
            facts.append(f"{seconds:.1f} s")
        return "   ".join(facts)

    def _state(self, event: AgentEvent) -> None:
        self._stop()
        self._lead_in(event.author, own=True)
        self.paper.line(("ƒ ", "agent"), (event.author, "agent"))
        for key, value in event.state_delta.items():
            shown = "removed" if value is None else f"= {brief(value)}"
            self.paper.line((f"  → {key} {shown}", "faint"))

    def _notes(self, event: AgentEvent) -> None:
        for call in event.tool_calls:
            if not any(pending.id == call.call_id for pending in event.pending):
                arguments = ", ".join(f"{name}={brief(value)}" for name, value in call.args.items())
                self.paper.line((f"  {event.author} calls {call.tool_name}({arguments})", "faint"))
        for response in event.tool_responses:
            self.paper.line((f"  {response.tool_name} gave {brief(response.result)}", "faint"))
        if event.transfer_to:
            self.paper.line((f"  » {event.author} hands over to {event.transfer_to}", "faint"))
        for agent, problem in event.metadata.get("adk_fluent.failed", {}).items():
            self.paper.line((f"  {agent} failed, the next one takes over: {brief(problem)}", "bad"))
        if event.error and event.content:
            self.paper.line((f"  cut short: {brief(event.error)}", "faint"))


def _keys(event: AgentEvent) -> str:
    return "→ " + ", ".join(event.state_delta)


def structure(root: Node) -> dict[str, tuple[str, ...]]:
    """For the first steps of each route's and fan-out's branches, what to say before them."""
    found: dict[str, tuple[str, ...]] = {}
    for name, line in _lines(root):
        found[name] = (*found.get(name, ()), line)
    return found


def _lines(root: Node) -> Iterator[tuple[str, str]]:
    for node in walk(root):
        if isinstance(node.runs, FirstMatch):
            for words, branch in branches(node):
                for inside in walk(branch):
                    yield inside.name, f"◆ {node.runs.key or 'route'}: {words}"
        elif isinstance(node.runs, InParallel):
            names = ", ".join(child.name for child in node.children)
            for inside in walk(node):
                yield inside.name, f"∥ at the same time: {names}"


def brief(value: object) -> str:
    """A value in a few characters, on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + "…"
