"""`adk-fluent run`: one turn, or a chat."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, redirect_stdout
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from adk_fluent.backends.events import AgentEvent, Pending, answers, call_text, final_text
from adk_fluent.cli.conversation import Conversation
from adk_fluent.cli.errors import FailedRunError, UsageError
from adk_fluent.cli.paper import Paper, paper
from adk_fluent.cli.screen import Screen
from adk_fluent.cli.target import Target, load
from adk_fluent.errors import RunError, sentence


class View(Protocol):
    """What shows the events of a run."""

    def show(self, event: AgentEvent) -> None:
        """Show one event."""
        ...

    def end(self) -> None:
        """Show what was held back."""
        ...

    def answer(self, said: Sequence[AgentEvent]) -> None:
        """Show the answers to the user, as far as they were not."""
        ...


def run(
    target: str,
    prompt: str | None,
    *,
    state: Mapping[str, Any],
    as_json: bool,
    verbose: bool,
    sessions: Path | None,
    session_id: str | None,
) -> int:
    """Run TARGET once, or chat with it in one session until an empty line or the end of the input.

    A terminal shows the words meant for the user as they come, and a line for each agent that works behind
    them; anything else gets the answers alone. `verbose` shows everything that happens. `state` is written to
    the session first.

    Raises:
        UsageError: TARGET cannot be loaded, or the session file's folder is missing.
        FailedRunError: a model or tool failed, or an approval was not given.
    """
    if sessions is not None and not sessions.absolute().parent.is_dir():
        raise UsageError(f"There is no folder for the session file {str(sessions)!r}.")
    if prompt is not None and not prompt.strip():
        raise UsageError("PROMPT is empty; leave it out to chat.")
    talk = Conversation(load(target), sessions=sessions, session_id=session_id, state=state)
    out = paper(sys.stdout)
    # One loop for all turns, since models and stores are bound to it; between them Ctrl-C is Python's own.
    with asyncio.Runner() as loop:
        if prompt is not None:
            _turn(loop, talk, prompt, _view(talk, out, as_json, verbose), out)
            return 0
        while text := _ask("you › ", out, as_json):
            try:
                _turn(loop, talk, text, _view(talk, out, as_json, verbose), out)
                if not as_json:
                    out.line()
            except RunError as error:
                if not sys.stdin.isatty():
                    raise
                out.line((str(error), "bad"))
    return 0


def once(target: Target, prompt: str, *, state: Mapping[str, Any], verbose: bool) -> None:
    """One turn, shown as it goes on.

    Raises:
        FailedRunError: a model or tool failed, or an approval was not given.
    """
    talk, out = Conversation(target, state=state), paper(sys.stdout)
    with asyncio.Runner() as loop:
        _turn(loop, talk, prompt, _view(talk, out, False, verbose), out)


def _view(talk: Conversation, out: Paper, as_json: bool, verbose: bool) -> View:
    if as_json:
        return JsonView(talk.shown, sys.stdout)
    if verbose or sys.stdout.isatty():
        return Screen(out, talk.root, time.perf_counter, verbose)
    return AnswerView(out)


def _turn(loop: asyncio.Runner, talk: Conversation, prompt: str, view: View, out: Paper) -> None:
    events: list[AgentEvent] = []
    _drive(loop, _follow(talk.turn(prompt), view, events))
    while talk.pending:
        approvals = {pending.id: _approved(pending, out, view) for pending in talk.pending}
        _drive(loop, _follow(talk.answer(approvals), view, events))
    view.answer(answers(events))
    if isinstance(view, JsonView):
        view.result(talk.session_id, final_text(events), loop.run(talk.state()))


def _drive(loop: asyncio.Runner, turn: Coroutine[Any, Any, None]) -> None:
    """Run a turn; what its steps and tools print is no answer."""
    with redirect_stdout(sys.stderr):
        loop.run(turn)


async def _follow(source: Any, view: View, events: list[AgentEvent]) -> None:
    try:
        async with aclosing(source) as stream:
            async for event in stream:
                events.append(event)
                view.show(event)
    finally:
        view.end()


def _ask(question: str, out: Paper, as_json: bool) -> str:
    """A line from the person, or nothing at the end of the input."""
    asking = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    try:
        return input(question if asking else "").strip()
    except EOFError:
        if asking:
            out.line()
        return ""


APPROVES: Final = ("y", "yes")
"""What approves, in any case; everything else does not."""


def _approved(pending: Pending, out: Paper, view: View) -> bool:
    call = call_text(pending.payload) if pending.payload else ""
    question = pending.message if call in pending.message else f"{pending.message} {call}"
    as_json = isinstance(view, JsonView)
    if isinstance(view, AnswerView):  # the output is for a program, the question for a person
        if sys.stdin.isatty():
            paper(sys.stderr).line(f"{pending.agent} asks: {question} (only y or yes approves)")
    elif not as_json:
        out.line(("■ ", "agent"), (f"{pending.agent} asks: {question}", "strong"))
    answer = _ask("Only y or yes approves: ", out, as_json).lower()
    if not answer and not sys.stdin.isatty():
        raise FailedRunError(
            f"{pending.agent!r} waits for approval: {sentence(pending.message)} "
            "Answer on standard input: y or yes approves, anything else does not."
        )
    return answer in APPROVES


class AnswerView:
    """The answers to the user and nothing else, once it is sure that they are the answers."""

    def __init__(self, out: Paper) -> None:
        self._out = out

    def show(self, event: AgentEvent) -> None:
        """Nothing yet: a fallback may withdraw it."""

    def end(self) -> None:
        """Nothing is held back that should be shown when a run fails."""

    def answer(self, said: Sequence[AgentEvent]) -> None:
        """Write the answers, an empty line between two."""
        for number, event in enumerate(said):
            if number:
                self._out.line()
            self._out.paragraph(event.content or "")


class JsonView:
    """One JSON object per event and line, with the same keys every time.

    Args:
        shown: what a policy leaves of an event.
        stream: where to write.
    """

    def __init__(self, shown: Callable[[AgentEvent], AgentEvent], stream: TextIO) -> None:
        self._shown = shown
        self._stream = stream

    def show(self, event: AgentEvent) -> None:
        """Write one event."""
        event = self._shown(event)
        self._write(
            type="event",
            author=event.author,
            text=event.content,
            partial=event.is_partial,
            final=event.is_final,
            visibility=event.visibility,
            state=event.state_delta,
            tool_calls=[{"name": c.tool_name, "args": c.args, "id": c.call_id} for c in event.tool_calls],
            tool_results=[
                {"name": r.tool_name, "result": r.result, "id": r.call_id} for r in event.tool_responses
            ],
            transfer_to=event.transfer_to,
            pending=[{"id": p.id, "agent": p.agent, "message": p.message} for p in event.pending],
            usage=None
            if event.usage is None
            else {"input_tokens": event.usage.input_tokens, "output_tokens": event.usage.output_tokens},
            model=event.model,
            error=event.error,
            branch=event.branch,
            id=event.id,
            invocation_id=event.invocation_id,
            timestamp=event.timestamp,
        )

    def end(self) -> None:
        """Nothing is held back."""

    def answer(self, said: Sequence[AgentEvent]) -> None:
        """Nothing: the result says it."""

    def result(self, session_id: str, text: str, state: dict[str, Any]) -> None:
        """Write what the turn came to."""
        self._write(type="result", session_id=session_id, text=text, state=state)

    def _write(self, **values: object) -> None:
        print(json.dumps(values, ensure_ascii=False, default=repr), file=self._stream, flush=True)
