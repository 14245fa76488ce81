"""`token_budget`: so many tokens for a run, a session, or each agent, and no call that would exceed them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from adk_fluent.context.entries import estimate_tokens
from adk_fluent.errors import BudgetError
from adk_fluent.middleware.arguments import one_of, whole
from adk_fluent.middleware.keeping import Kept
from adk_fluent.middleware.messages import text_in, tokens_in, tokens_used
from adk_fluent.middleware.protocol import CallModel, Context, Middleware

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    from adk_fluent.backends.events import AgentEvent

Per = Literal["run", "session", "agent"]


def token_budget(max_tokens: int, per: Per = "run") -> TokenBudget:
    """Allow a run, a session, or each agent of a run so many tokens, and refuse what would exceed them.

    A call is refused with `BudgetError` before it is made if what was used, what calls that are under way
    are expected to use, and this request, estimated at four characters a token, come to more than the budget.
    What an answer really used is taken from the model's own count, or estimated where it gives none. Only an
    answer itself can exceed the budget, since nobody knows its length before: the next call is then refused.

    The questions of contexts (`C.summarize` and others) count as their agent's. A session's budget, and that
    of a run that was paused, is kept over a restart: it is counted anew from the stored events, without those
    questions.

    Of a live conversation nothing can be refused before it is said: what its events report is counted, and
    it ends with `BudgetError` when that is more than the budget.

    Args:
        max_tokens: tokens of requests and answers together.
        per: for whom: all agents of one `run`, all runs of a `session`, or each `agent` in one run.

    Raises:
        ArgumentError: a number or word is out of range.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> agent = Agent("a").instruct("Tell all. " * 50).middleware(token_budget(100))
        >>> asyncio.run(agent.ask_async("Go", backend=mock_backend({"a": "ok"})))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        adk_fluent.errors.BudgetError: 'a' would exceed its token_budget(100, per='run'): ...
    """
    return TokenBudget(max_tokens, per)


@dataclass(slots=True)
class _Ledger:
    """What was used under one budget, and what calls that are under way may use.

    Attributes:
        known: the agents whose stored events were counted.
    """

    used: int = 0
    expected: int = 0
    known: set[str] = field(default_factory=set[str])


def _ledgers() -> defaultdict[str, _Ledger]:
    return defaultdict(_Ledger)


class TokenBudget(Middleware):
    """What `token_budget()` makes."""

    def __init__(self, max_tokens: int, per: Per) -> None:
        self._most = whole(max_tokens, "token_budget(max_tokens=)")
        self._per: Per = one_of(per, ("run", "session", "agent"), "token_budget(per=)")
        keep = self.per_session if per == "session" else self.per_run
        self._kept: Kept[defaultdict[str, _Ledger]] = keep(_ledgers)

    def used(self, ctx: Context) -> int:
        """Tokens used so far, in a hook: by the run, the session, or the agent."""
        return self._ledger(ctx).used

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask, if the budget allows it, and count."""
        ledger, asked = self._ledger(ctx), tokens_in(request)
        if ledger.used + ledger.expected + asked > self._most:
            raise BudgetError(self._refusal(ctx, ledger, asked))
        ledger.expected += asked
        counted, said = None, 0
        try:
            async for response in call(request):
                counted = tokens_used(response) or counted
                said = (said if response.partial else 0) + estimate_tokens(text_in(response))
                yield response
            counted = asked + said if counted is None else counted
        finally:
            # Nobody says what a call used that failed; one that has begun to answer has read the request.
            ledger.expected -= asked
            ledger.used += counted if counted is not None else asked + said if said else 0

    async def on_event(self, ctx: Context, event: AgentEvent) -> None:
        """Count what an answer of a live conversation used, and end the conversation if it was too much."""
        if not ctx.live or event.is_partial or not (used := tokens_used(event.raw)):
            return
        ledger = self._ledger(ctx, but=event.id)
        ledger.used += used
        if ledger.used > self._most:
            raise BudgetError(
                f"{ctx.agent_name!r} has exceeded its token_budget({self._most}, per={self._per!r}): "
                f"{self._whose} used {ledger.used:,}, and the live conversation has ended. Raise the budget."
            )

    def _ledger(self, ctx: Context, *, but: str = "") -> _Ledger:
        """The ledger of a budget; what is stored counts, except the event that is at hand."""
        ledger = self._kept(ctx)[ctx.agent_name if self._per == "agent" else ""]
        if ctx.agent_name not in ledger.known:
            ledger.known.add(ctx.agent_name)
            before = (event for event in self._before(ctx) if event.id != but)
            ledger.used += sum(tokens_used(event) or 0 for event in before)
        return ledger

    @property
    def _whose(self) -> str:
        return {"run": "the run has", "session": "the session has", "agent": "it has"}[self._per]

    def _before(self, ctx: Context) -> Iterable[Event]:
        """The stored events of an agent's answers that count, and that this object has not seen."""
        native: Any = ctx.native
        run = None if self._per == "session" else ctx.invocation_id
        for event in native.session.events:
            if event.author == ctx.agent_name and run in (None, event.invocation_id):
                yield event

    def _refusal(self, ctx: Context, ledger: _Ledger, asked: int) -> str:
        expected = f", {ledger.expected:,} are expected for calls under way" if ledger.expected else ""
        what = f"C.{ctx.operation}" if ctx.operation else "this request"
        return (
            f"{ctx.agent_name!r} would exceed its token_budget({self._most}, per={self._per!r}): "
            f"{self._whose} used {ledger.used:,}{expected}, and {what} is about {asked:,} tokens. It was not "
            "sent: give it less to read (C.window, C.budget), or raise the budget."
        )
