"""`token_budget`: so many tokens for a run, a session, or each agent, and no call that would exceed them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, cast

from adk_fluent.context.entries import estimate_tokens
from adk_fluent.errors import BudgetError
from adk_fluent.middleware.arguments import one_of, whole
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Kept, Scope
from adk_fluent.middleware.messages import text_in, tokens_in, tokens_used
from adk_fluent.middleware.protocol import CallModel, Middleware

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

    The questions of contexts (`C.summarize` and others) count as their agent's. After a restart, and when
    another process goes on with a session or a paused run, the stored events of all agents that the budget
    acts on are counted. Not in stored events, and so not counted then, are those questions, and calls whose
    answer was not stored: of agents inside tools, of losers of a race, and failed ones.

    Objects of different requests share the budget of a session where they are equal and stand in equal
    pipelines. Tokens of runs that a rewind undid do not count. Of `map` each input is a run.

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


class _Place(Protocol):
    """A context that knows on which agents a middleware acts, and what these have said."""

    @property
    def run_id(self) -> str: ...

    def place_of(self, middleware: object) -> Hashable: ...

    def stored_events(self, middleware: object) -> Iterable[Event]: ...


@dataclass(slots=True)
class _Ledger:
    """What was used under one budget, and what calls that are under way may use.

    Attributes:
        used_by: run → the tokens that it used.
        expected: tokens of requests that have no answer yet.
    """

    used_by: dict[str, int] = field(default_factory=dict[str, int])
    expected: int = 0

    @property
    def used(self) -> int:
        return sum(self.used_by.values())

    def add(self, run: str, tokens: int) -> None:
        self.used_by[run] = self.used_by.get(run, 0) + tokens

    def found(self, stored: Iterable[Event]) -> None:
        """Add what stored events say and this process does not know, such as runs of other processes.

        What it knows of a run includes what the events of the run say, so the larger number is right.
        """
        for run, tokens in _by_run(stored).items():
            self.used_by[run] = max(self.used_by.get(run, 0), tokens)


def _by_run(events: Iterable[Event]) -> Counter[str]:
    used = Counter[str]()
    for event in events:
        used[event.invocation_id] += tokens_used(event) or 0
    return used


def _ledgers() -> defaultdict[Hashable, _Ledger]:
    return defaultdict(_Ledger)


class TokenBudget(Middleware):
    """What `token_budget()` makes."""

    _keeps_answers: ClassVar[bool] = True

    def __init__(self, max_tokens: int, per: Per) -> None:
        self._most = whole(max_tokens, "token_budget(max_tokens=)")
        self._per: Per = one_of(per, ("run", "session", "agent"), "token_budget(per=)")
        scope, name = ("session", (TokenBudget, max_tokens)) if per == "session" else ("run", None)
        self._kept: Kept[defaultdict[Hashable, _Ledger]] = Kept(_ledgers, cast(Scope, scope), name)
        self._read: Kept[set[Hashable]] = self.per_run(set[Hashable])

    @property
    def most(self) -> int:
        """The tokens that it allows."""
        return self._most

    def used(self, ctx: Context) -> int:
        """Tokens used so far, in a hook: by the run, the session, or the agent."""
        return self._ledger(ctx).used

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask, if the budget allows it, and count."""
        ledger, run, asked = self._ledger(ctx), cast(_Place, ctx).run_id, tokens_in(request)
        if ledger.used + ledger.expected + asked > self._most:
            raise BudgetError(self._refusal(ctx, ledger, asked))
        reported, counted, said, expected = None, 0, 0, asked
        ledger.expected += expected
        try:
            async for response in call(request):
                used = tokens_used(response)
                reported = max(used, reported or 0) if used is not None else reported
                said = (said if response.partial else 0) + estimate_tokens(text_in(response))
                # It is counted before it is given on: then what is stored is never more than what is known.
                now = asked + said if reported is None else reported
                ledger.add(run, now - counted)
                ledger.expected -= expected
                counted, expected = now, 0
                yield response
        finally:
            ledger.expected -= expected  # nobody says what a call used that failed before it said anything

    async def on_event(self, ctx: Context, event: AgentEvent) -> None:
        """Count what an answer of a live conversation used, and end the conversation if it was too much."""
        if not ctx.live or event.is_partial or not (used := tokens_used(event.raw)):
            return
        ledger = self._ledger(ctx, but=event.id)
        ledger.add(cast(_Place, ctx).run_id, used)
        if ledger.used > self._most:
            raise BudgetError(
                f"{ctx.agent_name!r} has exceeded its token_budget({self._most}, per={self._per!r}): "
                f"{self._whose} used {ledger.used:,}, and the live conversation has ended. Raise the budget."
            )

    def _ledger(self, ctx: Context, *, but: str = "") -> _Ledger:
        """The ledger of a budget; what is stored counts, except the event that is at hand."""
        place = cast(_Place, ctx)
        key = ctx.agent_name if self._per == "agent" else place.place_of(self)
        ledger = self._kept(ctx)[key]
        if key not in (read := self._read(ctx)):
            read.add(key)
            events = (event for event in place.stored_events(self) if event.id != but)
            ledger.found(event for event in events if self._applies(ctx, place.run_id, event))
        return ledger

    def _applies(self, ctx: Context, run: str, event: Event) -> bool:
        """Whether a stored event counts for the run, the session or the agent at hand."""
        if self._per == "session":
            return True
        return event.invocation_id == run and (self._per == "run" or event.author == ctx.agent_name)

    @property
    def _whose(self) -> str:
        return {"run": "the run has", "session": "the session has", "agent": "it has"}[self._per]

    def _refusal(self, ctx: Context, ledger: _Ledger, asked: int) -> str:
        expected = f", {ledger.expected:,} are expected for calls under way" if ledger.expected else ""
        what = f"C.{ctx.operation}" if ctx.operation else "this request"
        return (
            f"{ctx.agent_name!r} would exceed its token_budget({self._most}, per={self._per!r}): "
            f"{self._whose} used {ledger.used:,}{expected}, and {what} is about {asked:,} tokens. It was not "
            "sent: give it less to read (C.window, C.budget), or raise the budget."
        )
