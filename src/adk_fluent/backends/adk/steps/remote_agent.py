"""The native agent for a remote agent: ADK's own, held to what was said of it."""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent._redaction import safe_url
from adk_fluent._tasks import Limit
from adk_fluent._tracebacks import in_logs
from adk_fluent.a2a.protocol import sdk
from adk_fluent.a2a.protocol.cards import TOO_LONG, CardError
from adk_fluent.a2a.protocol.connections import RemoteCall, agent_for, connection, hears
from adk_fluent.a2a.protocol.responses import (
    FAILED,
    WAITING,
    AttemptState,
    asked_in,
    noted_of,
    outcome,
    pieces,
    readings,
    state_in,
    words,
)
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.context.functions import state_of
from adk_fluent.backends.adk.events.approvals import CONFIRMATION
from adk_fluent.backends.adk.events.signals import REFUSED, failure, refused
from adk_fluent.backends.adk.steps.composites import Composite
from adk_fluent.backends.adk.steps.leaves import Events
from adk_fluent.backends.adk.steps.passing import Start
from adk_fluent.backends.adk.steps.remote_observation import Answering, noted, request_of, tell
from adk_fluent.backends.adk.steps.remote_requests import (
    OF_OTHERS,
    InputError,
    answer_for,
    answering,
    context_for,
    data_for,
    refuses,
    request_in,
)
from adk_fluent.backends.adk.steps.shrinking import removal
from adk_fluent.errors import (
    AnswerError,
    MockError,
    RemoteError,
    ReplayError,
    on_one_line,
    sentence,
    what_happened,
)
from adk_fluent.ir.annotations import RetryConfig
from adk_fluent.ir.nodes import RemoteAgentNode
from adk_fluent.middleware.backoff import Backoff
from adk_fluent.middleware.faults import is_passing
from adk_fluent.state.answers import answer_type
from adk_fluent.state.fidelity import check_storable

logger: logging.Logger = logging.getLogger("adk_fluent.remote")

_ONCE = RetryConfig(max_attempts=1)
_KEPT = ("a2a:task_id", "a2a:context_id")


class _Failed(Exception):
    """A call went wrong; `passing` says whether the same may go well a little later."""

    def __init__(self, problem: str, *, passing: bool = False) -> None:
        super().__init__(problem)
        self.passing = passing


class _Begun(private.Checkpoint):
    """Which child was begun; none, where only the remote agent itself was asked."""

    child: str = ""


Exchange = Callable[[InvocationContext, RemoteCall], Events]
"""Makes one call of a remote agent: what it is asked → what ADK's agent for it makes of the answers."""


class RemoteComposite(Composite):
    """Asks an agent that another process serves; where that fails, its fallback runs."""

    _scripted: BaseLlm | None = PrivateAttr(default=None)
    _recorded: Answering | None = PrivateAttr(default=None)
    _elsewhere: Exchange | None = PrivateAttr(default=None)

    def answer_with(self, model: BaseLlm | Answering | None) -> None:
        """Have a model of a test, or a recording, answer in place of the other process; `None` is that."""
        if model is None or isinstance(model, BaseLlm):
            self._scripted = model
        else:
            self._recorded = model
            self._scripted = model.live if isinstance(model.live, BaseLlm) else None

    @property
    def calls_process(self) -> bool:
        """Whether nothing answers in place of the other process."""
        return self._scripted is None and self._recorded is None

    @property
    def _node(self) -> RemoteAgentNode:
        return cast(RemoteAgentNode, self._ir)

    async def _run_once(self, ctx: InvocationContext) -> Events:
        begun = private.load_state(self, ctx, _Begun)
        start = self.start(ctx) if begun is not None and begun.child else Start()
        if not start.resuming:
            if self.calls_process:
                sdk.need(f"Remote agent {self.name!r}")
            try:
                async with aclosing(self._ask(ctx)) as events:
                    async for event in events:
                        yield event
                return
            except RemoteError as error:
                if not self.sub_agents and self._node.raises:
                    raise
                problem, kind = str(error), in_logs(error)
            if not self.sub_agents:
                yield self._end(ctx, self.event(ctx), problem)
                return
            whose = self.name, kind, self.sub_agents[0].name
            logger.warning("Remote agent %r failed: %s. Its fallback %r runs.", *whose)
            yield self.event(ctx, metadata={"adk_fluent.failed": {self.name: problem}})
        async with aclosing(self.only(self.sub_agents[0], ctx, start)) as events:
            async for event in events:
                yield event

    # --- attempts ---------------------------------------------------------------------------------

    async def _ask(self, ctx: InvocationContext) -> Events:
        node = self._node
        request = request_in(node, ctx)
        answer = None if request is None else answer_for(request, ctx)
        if request is not None and answer is None:
            return  # somebody else was answered
        retry = node.retry or _ONCE
        waits = Backoff(retry.max_attempts, retry.initial_delay)
        failed: list[str] = []
        while True:
            attempt = AttemptState()
            try:
                if request is not None and answer is not None:
                    attempt.is_refusing = refuses(answer)
                    asking = answering(ctx, request, answer)
                else:
                    asking = context_for(node, ctx, data_for(node, state_of(ctx)))
                async with aclosing(self._attempt(ctx, asking, attempt)) as events:
                    async for event in events:
                        yield event
                        if event.long_running_tool_ids or refused(event):
                            return
                for event in self._answer(ctx, attempt, failed):
                    yield event
                return
            except (_Failed, CardError, InputError, AnswerError) as error:
                failed.append(on_one_line(error))
                kind = in_logs(error)
                passing = getattr(error, "passing", isinstance(error, AnswerError))
                wait = waits.after(len(failed)) if passing and not attempt.has_spoken else None
                if wait is None:
                    raise self._told(failed) from error
            logger.info("%r: attempt %d failed: %s", self.name, len(failed), kind)
            await asyncio.sleep(wait)

    def _told(self, failed: list[str]) -> RemoteError:
        tries = f" It was tried {len(failed)} times." if len(failed) > 1 else ""
        return RemoteError(
            f"Remote agent {self.name!r} at {safe_url(self._node.endpoint)}: {sentence(failed[-1])}{tries}"
        )

    async def _attempt(
        self, ctx: InvocationContext, asking: InvocationContext, attempt: AttemptState
    ) -> Events:
        """The pieces of one answer, which `attempt` then holds; or what the remote asks a person."""
        limit, call = Limit(self._node.timeout_seconds), RemoteCall()
        exchange = self._answers(asking, call)
        with noted(ctx, self._node, asking) as notes:
            try:
                while (event := await self._next(exchange, limit)) is not None:
                    if (given := self._heard(ctx, event, attempt)) is not None:
                        if not given.partial:  # a question, after which the task waits
                            call.end()
                        tell(notes, given)
                        yield given
            except (_Failed, CardError) as error:
                for note in notes:
                    note.failed(str(error), passing=error.passing)
                raise
            finally:
                await exchange.aclose()
                call.leave()
            if attempt.answer and notes:
                heard = self.event(ctx)
                heard.content = types.Content(role="model", parts=attempt.answer)
                tell(notes, heard)
            for note in notes:
                note.ended()

    async def _next(self, exchange: Events, limit: Limit) -> Event | None:
        event = None
        with limit:
            try:
                event = await anext(exchange, None)
            except (MockError, ReplayError, CardError):
                raise
            except RemoteError as error:  # one that was recorded
                raise _Failed(str(error), passing=is_passing(error)) from error
            except Exception as error:
                raise _Failed(f"it failed: {what_happened(error)}", passing=is_passing(error)) from error
        if limit.is_over:
            seconds = self._node.timeout_seconds
            raise _Failed(f"it did not answer within {seconds:g} seconds", passing=True) from limit.cause
        return event

    def _answers(self, asking: InvocationContext, call: RemoteCall) -> Events:
        """What answers one call: a recording, if there is one that knows it."""
        exchange = self._elsewhere or self.exchange
        if self._recorded is None:
            return exchange(asking, call)
        request = request_of(self._node, asking)
        return self._recorded.answers(request, lambda: exchange(asking, call))

    def exchange_by(self, exchange: Exchange) -> None:
        """Let somebody else make each call, in place of `exchange`; tries and fallbacks stay here."""
        self._elsewhere = exchange

    async def exchange(self, asking: InvocationContext, call: RemoteCall) -> Events:
        """What ADK's agent for it, or the model of a test, makes of one call."""
        if self._scripted is not None:
            at, events = None, private.run_scripted(self.name, self._scripted, asking)
        else:
            at = await connection(self._node)
            events = private.run_remote(await agent_for(self._node, call, at), asking)
        async with aclosing(events) as run:
            async for event in run:
                if at is None:
                    yield event
                    continue
                if failure(event):
                    at.forget()
                    if not call.is_heard_out:  # else ADK only says that the task has not ended
                        yield event
                        return
                for piece in self._pieces(asking, call):
                    yield piece
                if call.reply.state in FAILED or call.reply.state in WAITING:
                    break
        if at is not None:
            for piece in self._pieces(asking, call):
                yield piece
            yield outcome(call.reply, self.event(asking))

    def _pieces(self, asking: InvocationContext, call: RemoteCall) -> list[Event]:
        """What was heard last, if anybody wants pieces."""
        news, call.news = call.news, []
        return pieces(news, partial(self.event, asking)) if hears(asking) else []

    # --- what is heard ----------------------------------------------------------------------------

    def _heard(self, ctx: InvocationContext, event: Event, attempt: AttemptState) -> Event | None:
        """What of an event can be given out at once.

        Raises:
            _Failed: it reports a failure.
        """
        metadata, parts = event.custom_metadata or {}, (event.content and event.content.parts) or []
        state, text = state_in(metadata), words(parts).strip()
        if problem := failure(event):
            raise _problem(problem.removeprefix("error: "), metadata)
        if state == "rejected" and attempt.is_refusing:
            return self.event(ctx, text=text or "Not approved", metadata={REFUSED: True})
        if state in FAILED:
            raise _Failed(f"{_ENDED[state]}{': ' + text if text else ''}")
        if state == "auth-required" and not asked_in(event):
            raise _Failed(f"it wants credentials that it was not given{': ' + text if text else ''}")
        attempt.note({key: metadata[key] for key in _KEPT if key in metadata}, state)
        if calls := asked_in(event):
            return self._request(ctx, calls, attempt)
        if state == "input-required":
            return self._question(ctx, text or "It needs an answer.", attempt)
        if not parts:
            return None
        if not event.partial:
            attempt.answer = parts
            return None
        if not hears(ctx):
            return None
        attempt.has_spoken = attempt.has_spoken or bool(text)
        piece = self.event(ctx)
        piece.content, piece.partial = event.content, True
        return piece

    def _request(
        self, ctx: InvocationContext, calls: list[types.FunctionCall], attempt: AttemptState
    ) -> Event:
        """What the remote asks a person, as it asks.

        Raises:
            _Failed: it is a tool, inside which nobody could answer.
        """
        if private.caller(ctx) is not None:
            raise _Failed("it asks a person, and inside a tool nobody can answer; ask before it is called")
        request = self.event(ctx, metadata=noted_of(attempt.task, attempt.state))
        request.content = types.Content(
            role="model", parts=[types.Part(function_call=call) for call in calls]
        )
        request.long_running_tool_ids = {str(call.id) for call in calls}
        return request

    def _question(self, ctx: InvocationContext, text: str, attempt: AttemptState) -> Event:
        """What a remote that knows nothing of ADK's confirmations asks a person, as one."""
        arguments = {"toolConfirmation": {"hint": text, "confirmed": False}}
        call = types.FunctionCall(id=f"{OF_OTHERS}{uuid.uuid4()}", name=CONFIRMATION, args=arguments)
        return self._request(ctx, [call], attempt)

    # --- what it comes to -------------------------------------------------------------------------

    def _answer(self, ctx: InvocationContext, attempt: AttemptState, failed: list[str]) -> list[Event]:
        """The events that say and store the answer.

        Raises:
            AnswerError: it is not of the type that was promised.
            _Failed: there is none.
        """
        node = self._node
        if not attempt.answer:
            raise _Failed("it gave no answer")
        value: Any = words(attempt.answer)
        last = self._message(ctx, value, attempt.answer)
        if node.output_schema is not None:
            value = self._typed(attempt.answer)
        attempts = {"adk_fluent.attempts": failed} if failed else {}
        last.custom_metadata = {**noted_of(attempt.task, attempt.state), **attempts}
        if node.output_key is not None:
            check_storable({node.output_key: value}, f"Agent {self.name!r} wrote")
            last.actions.state_delta[node.output_key] = value
        self._end(ctx, last)
        removed = removal(ctx, last)
        with_temporary(ctx, last)
        return [last] if removed is None else [removed, last]

    def _typed(self, parts: list[types.Part]) -> Any:
        """The answer as the type that was promised: of data and text the first that is of it.

        Raises:
            AnswerError: none is.
        """
        node, wrong = self._node, list[AnswerError]()
        for text in readings(parts):
            try:
                return answer_type(node.output_schema).data(text, self.name, node.output_key)
            except AnswerError as error:
                wrong.append(error)
        raise wrong[0]

    def _end(self, ctx: InvocationContext, last: Event, problem: str | None = None) -> Event:
        """The last event of the agent, which may tell of a problem; a run that goes on does not ask again."""
        last.error_message = problem
        if ctx.is_resumable:
            ctx.set_agent_state(self.name, end_of_agent=True)
            last.actions.end_of_agent = True
        return last

    def _message(self, ctx: InvocationContext, text: str, parts: list[types.Part]) -> Event:
        """What a remote agent says, as text, and its files."""
        event = self.event(ctx, text=text)
        files = [part for part in parts if part.file_data or (part.inline_data and not sdk.is_data(part))]
        if files and event.content is not None:
            event.content.parts = [*(event.content.parts or []), *files]
        return event


# --- reading ADK's events -------------------------------------------------------------------------

_ENDED = {"failed": "it failed", "canceled": "it cancelled the task", "rejected": "it rejected the task"}
_STATUS = re.compile(r"\bHTTP(?: Error)?[: ]+([45]\d\d)\b")


def _problem(told: str, metadata: Mapping[str, Any]) -> _Failed:
    """The failure that an error event of ADK's reports."""
    noted = str(metadata.get("a2a:status_code") or "")
    found = _STATUS.search(told)
    status = int(noted) if noted.isdecimal() else int(found[1]) if found else None
    advice = " (not authenticated; see auth=)" if status == 401 else ""
    passing = status is None or status >= 500 or status in (408, 425, 429)
    passing = passing and TOO_LONG not in told
    told = told.removeprefix("A2A request failed: ")
    return _Failed(f"it failed: {' '.join(told.split()):.300}{advice}", passing=passing)
