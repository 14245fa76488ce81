"""`adk-fluent run`: one turn, or a chat."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, redirect_stdout
from getpass import getpass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TextIO

from adk_fluent.backends.events import AgentEvent, Pending, answers, call_text, final_text
from adk_fluent.cli.conversation import Conversation
from adk_fluent.cli.errors import FailedRunError, UsageError
from adk_fluent.cli.pairs import value_of
from adk_fluent.cli.paper import Paper, paper
from adk_fluent.cli.screen import Screen, brief
from adk_fluent.cli.target import Target, load
from adk_fluent.errors import ArgumentError, RunError, sentence

Source = AsyncGenerator[AgentEvent, None]
"""The events of a turn."""


class RunView(Protocol):
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
    answers: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Run TARGET once, or chat with it in one session until an empty line or the end of the input.

    A terminal shows the words meant for the user as they come, and a line for each agent that works behind
    them; anything else gets the answers alone. `verbose` shows everything that happens. `state` is written to
    the session first. With `answers`, id → words, a stored run that waits goes on, and nothing else runs.

    Raises:
        UsageError: TARGET cannot be loaded, the session file's folder is missing, or there are answers and no
            stored session for them.
        FailedRunError: a model or tool failed, or the run waits for an answer that was not given.
        SessionError: the session does not wait for one of the answers.
    """
    if answers and (prompt is not None or sessions is None or session_id is None):
        raise UsageError("--answer goes on with a stored run: give --session-db, --session and no PROMPT.")
    _check(prompt, sessions)
    talk = Conversation(load(target), sessions=sessions, session_id=session_id, state=state)
    out = paper(sys.stdout)
    # One loop for all turns, since models and stores are bound to it; between them Ctrl-C is Python's own.
    with asyncio.Runner() as loop:
        stored = sessions is not None and session_id is not None and prompt is None
        known: Mapping[str, Pending] = loop.run(talk.look()) if stored else {}
        if prompt is not None or answers:
            given = {id: _read(known.get(id), words) for id, words in answers.items()}
            events = talk.answer(given) if prompt is None else talk.turn(prompt)
            _turn(loop, talk, events, _view(talk, out, as_json, verbose), out)
            return 0
        text, waits = "", bool(talk.pending)  # a stored run that waits comes before the first prompt
        while waits or (text := _ask("you › ", out, as_json)):
            events, waits = None if waits else talk.turn(text), False
            try:
                _turn(loop, talk, events, _view(talk, out, as_json, verbose), out)
                if not as_json:
                    out.line()
            except RunError as error:
                if not sys.stdin.isatty():
                    raise
                out.line((str(error), "bad"))
    return 0


def _check(prompt: str | None, sessions: Path | None) -> None:
    """Refuse a file of sessions in no folder, and a prompt without words."""
    if sessions is not None and not sessions.absolute().parent.is_dir():
        raise UsageError(f"There is no folder for the session file {str(sessions)!r}.")
    if prompt is not None and not prompt.strip():
        raise UsageError("PROMPT is empty; leave it out to chat.")


def once(target: Target, prompt: str, *, state: Mapping[str, Any], verbose: bool) -> None:
    """One turn, shown as it goes on.

    Raises:
        FailedRunError: a model or tool failed, or the run waits for an answer that was not given.
    """
    talk, out = Conversation(target, state=state), paper(sys.stdout)
    with asyncio.Runner() as loop:
        _turn(loop, talk, talk.turn(prompt), _view(talk, out, False, verbose), out)


def _view(talk: Conversation, out: Paper, as_json: bool, verbose: bool) -> RunView:
    if as_json:
        return JsonView(talk.shown, sys.stdout)
    if verbose or sys.stdout.isatty():
        return Screen(out, talk.root, time.perf_counter, verbose)
    return AnswerView(out)


def _turn(loop: asyncio.Runner, talk: Conversation, source: Source | None, view: RunView, out: Paper) -> None:
    """Follow a turn to its end, or go on with the one that waits, and ask for what it waits for."""
    events: list[AgentEvent] = []
    if source is not None:
        _drive(loop, _follow(source, view, events))
    left = set[str]()
    while asked := [each for each in talk.pending if each.id not in left]:
        said = {each.id: _answered(each, out, view) for each in asked}
        given = {id: answer for id, answer in said.items() if answer is not None}
        left |= said.keys() - given.keys()
        try:
            if given:
                _drive(loop, _follow(talk.answer(given), view, events))
        except ArgumentError as error:  # an answer of another form; a person can give another one
            if not sys.stdin.isatty():
                raise
            paper(sys.stderr).line((str(error), "bad"))
    view.answer([] if talk.pending else answers(events))
    if isinstance(view, JsonView):
        text = "" if talk.pending else final_text(events)
        view.result(talk.session_id, text, loop.run(talk.state()), talk.pending)
    if talk.pending:
        raise FailedRunError(_waits(talk))


def _waits(talk: Conversation) -> str:
    """What a run waits for that has no answer, and how to go on."""
    asked = " ".join(
        f"{each.agent!r} waits for {each.awaited}, {each.id!r}: {sentence(each.message)}"
        for each in talk.pending
    )
    approves = " (y or yes approves)" if any(each.kind == "approval" for each in talk.pending) else ""
    if talk.store is None:
        return (
            f"{asked} Answer each with a line on standard input{approves}; run --session-db FILE keeps a run "
            "for later."
        )
    place = f"--session-db {talk.store} --session {talk.session_id}"
    return f"{asked} Go on with {place} --answer ID=VALUE{approves}."


def _drive(loop: asyncio.Runner, turn: Coroutine[Any, Any, None]) -> None:
    """Run a turn; what its steps and tools print is no answer."""
    with redirect_stdout(sys.stderr):
        loop.run(turn)


async def _follow(source: Source, view: RunView, events: list[AgentEvent]) -> None:
    try:
        async with aclosing(source) as stream:
            async for event in stream:
                events.append(event)
                view.show(event)
    finally:
        view.end()


def _ask(question: str, out: Paper, as_json: bool, secret: bool = False) -> str:
    """A line from the person, or nothing at the end of the input; a `secret` one is not shown."""
    typed = sys.stdin.isatty()
    asking = typed and sys.stdout.isatty() and not as_json
    try:
        return (getpass if secret and typed else input)(question if asking else "").strip()
    except EOFError:
        if asking:
            out.line()
        return ""


APPROVES: Final = ("y", "yes")
"""What approves, in any case; everything else does not."""


def _answered(pending: Pending, out: Paper, view: RunView) -> object:
    """What the person answers, in the form that is asked for; `None` if they leave it open."""
    approves, as_json = pending.kind == "approval", isinstance(view, JsonView)
    call = call_text(pending.payload) if pending.payload and approves else ""
    question = pending.message if call in pending.message else f"{pending.message} {call}"
    if (given := pending.payload.get("response")) is not None:
        question = f"{question} So far it gave {brief(given)}."
    form = "only y or yes approves" if approves else f"give {pending.form}; an empty line leaves it open"
    if isinstance(view, AnswerView):  # the output is for a program, the question for a person
        if sys.stdin.isatty():
            paper(sys.stderr).line(f"{pending.agent} asks: {question} ({form})")
    elif not as_json:
        out.line(("■ ", "agent"), (f"{pending.agent} asks: {question}", "strong"))
        if not approves:
            out.line((f"  {form[0].upper()}{form[1:]}.", "faint"))
    prompt = "Only y or yes approves: " if approves else "answer › "
    words = _ask(prompt, out, as_json, secret=pending.kind == "credential")
    return _read(pending, words) if words or (approves and sys.stdin.isatty()) else None


def _read(pending: Pending | None, words: str) -> object:
    """What words answer: whether they approve, or JSON where they are JSON, as in `--state`, else text.

    Text is what a credential is as well, though it may be made of digits, and input that is to be a string.
    """
    if pending is None:  # nothing waits for it, as the error will say
        return words
    if pending.kind == "approval":
        return words.strip().lower() in APPROVES
    held: object = value_of(words)
    schema: Mapping[str, Any] = pending.payload.get("schema") or {}
    is_text = schema.get("type") == "string" or (pending.kind == "credential" and words[:1] != "{")
    return words if held is None or is_text else held


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
            pending=[*map(_asked, event.pending)],
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

    def result(
        self, session_id: str, text: str, state: dict[str, Any], pending: Iterable[Pending] = ()
    ) -> None:
        """Write what the turn came to, and what it still waits for."""
        asked = [*map(_asked, pending)]
        self._write(type="result", session_id=session_id, text=text, state=state, pending=asked)

    def _write(self, **values: object) -> None:
        print(json.dumps(values, ensure_ascii=False, default=repr), file=self._stream, flush=True)


def _asked(pending: Pending) -> dict[str, Any]:
    """What a program needs to know of what a run waits for."""
    told = {name: getattr(pending, name) for name in ("id", "agent", "kind", "message", "form")}
    return {**told, "payload": dict(pending.payload)}
