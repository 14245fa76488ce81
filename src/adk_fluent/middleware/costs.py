"""`cost_attribution`: what each agent and model costs, and a budget that is counted down."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, cast

from adk_fluent.cost.prices import CACHED, COST, COUNTED, Price, Tokens, amount, cost_of, price_of, tokens_of
from adk_fluent.errors import ArgumentError, MissingKeyError, ModelError
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Kept, Scope, Shared
from adk_fluent.middleware.protocol import CallModel, Middleware

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    from adk_fluent.backends.events import AgentEvent
    from adk_fluent.middleware.hook_context import State

logger: logging.Logger = logging.getLogger("adk_fluent.middleware")

METER: Final = "adk_fluent.cost"
"""The OpenTelemetry meter; its counter is `adk_fluent.llm.cost`, in USD, by `agent_name` and `model`."""

REMEMBERED: Final = 256
"""How many earlier amounts of a budget are known as such, and not taken for a new one."""

_counting: Final = Lock()
"""Held while sums change: objects that were made for different requests count the same budgets."""

RECEIPT: Final = ".counted"
"""What is added to the key of a budget for the key under which the last count is noted."""


def cost_attribution(
    budget_key: str | None = None, prices: Mapping[str, Price] | None = None
) -> CostAttribution:
    """Note what each agent spends on each model, as tokens and USD, and count a budget down.

    The sums are in `.spent` of the object, by `(agent, model)`, over all runs that it acts on. They go to
    OpenTelemetry as the counter `adk_fluent.llm.cost`, and each event says what its call cost in
    `custom_metadata["adk_fluent.cost_usd"]`. Questions of contexts (`C.summarize`) count as their agent's,
    and answers of live conversations by the usage that their events report.

    With `budget_key` the cost of every call is also taken off that key of the state, which holds an amount of
    USD as text (`state={"budget": "5.00"}`), so that every store keeps it exactly. Turns that run at the same
    time in this process count off the same sum, whether they share this object or make one for each request:
    those of one session, or with `user:` and `app:` those of all sessions of a user or an app. No cost is
    lost. An amount that you write counts from there, also one that the budget had before: the key
    `<budget_key>.counted` beside it notes the last count, so leave that alone. Write it with a run
    (`state={...}`) or between turns; the end of a turn that is under way replaces what was written to the
    store meanwhile. Processes that count the same budget at the same time do not see each other's turns.
    Nothing is refused here: `.model_select(strategy="budget_bounded")` does.

    Args:
        budget_key: the state key of the budget, scope prefix included.
        prices: prices by model name that win over all others; without them the package `genai-prices` is
            needed (the extra `cost`).

    Raises:
        ArgumentError: the key is no text, or the prices are no prices.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.cost import Price
        >>> from adk_fluent.testing import mock_backend
        >>> costs = cost_attribution("budget", {"m": Price.per_million(input=1, output=2)})
        >>> agent = Agent("a", "m").middleware(costs)
        >>> backend = mock_backend({"a": "An answer."})
        >>> result = asyncio.run(agent.run("A question", state={"budget": "1.00"}, backend=backend))
        >>> spent = costs.spent["a", "m"]
        >>> (spent.calls, Decimal(result.state["budget"]) + spent.cost)
        (1, Decimal('1.000000'))
    """
    return CostAttribution(budget_key, prices)


class Spent(NamedTuple):
    """What one agent spent on one model.

    Attributes:
        calls: calls that reported what they used.
        input_tokens: tokens of the requests.
        output_tokens: tokens of the answers, thoughts included.
        cost: USD, as far as prices are known.
        unpriced: calls whose price nobody knows.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0


class _Seen(NamedTuple):
    """A budget as a state holds it.

    Attributes:
        value: the amount, as text.
        receipt: what was noted beside it when this middleware wrote it last: number and amount.
    """

    value: str
    receipt: str

    @classmethod
    def of(cls, state: State, key: str) -> _Seen:
        return cls(str(state.get(key)), str(state.get(key + RECEIPT) or ""))

    def write(self, state: State, key: str) -> None:
        state[key], state[key + RECEIPT] = self


@dataclass(slots=True)
class _Budget:
    """What is left of a budget of a session, a user or an app, as this process knows it.

    A turn that began before another ended holds an older amount, which must not be mistaken for a new one.
    The amount alone does not tell: the application may write one that the budget had before. The receipt
    beside it does, since the application leaves it alone.

    Attributes:
        left: USD, `None` before anything was counted.
        seen: what states have held since the application last wrote an amount, the latest last.
        writes: the number of the last receipt.
    """

    left: Decimal | None = None
    seen: OrderedDict[_Seen, None] = field(default_factory=OrderedDict[_Seen, None])
    writes: int = 0

    def take(self, found: _Seen, cost: Decimal, key: str) -> _Seen:
        """Take the cost of a call off.

        Args:
            found: what the state of the turn holds.
            key: the state key, for the error of an amount that is none.
        """
        if self.left is None or found not in self.seen:
            self.left = amount(found.value, key)
            self.seen.clear()
            self._note(found)
            number = found.receipt.partition(" ")[0]
            self.writes = max(self.writes, int(number) if number.isdecimal() else 0)
        self.left = max(self.left - cost, Decimal(0))
        self.writes += 1
        text = format(self.left, "f")
        return self._note(_Seen(text, f"{self.writes} {text}"))

    def instead(self, found: _Seen) -> _Seen | None:
        """What a state should hold in place of an older amount; `None` for the latest, or a new one."""
        last = next(reversed(self.seen), None)
        return last if found in self.seen and found != last else None

    def _note(self, seen: _Seen) -> _Seen:
        self.seen[seen] = None
        self.seen.move_to_end(seen)
        if len(self.seen) > REMEMBERED:
            self.seen.popitem(last=False)
        return seen


class _Modelled(Protocol):
    """A context that knows the model of its agent."""

    @property
    def model(self) -> str: ...


class CostAttribution(Middleware):
    """What `cost_attribution()` makes."""

    _keeps_answers: ClassVar[bool] = True
    _by_usage: ClassVar[bool] = True

    def __init__(self, budget_key: str | None, prices: Mapping[str, Price] | None) -> None:
        key: Any = budget_key
        if key is not None and (not isinstance(key, str) or not key):
            raise ArgumentError(f"cost_attribution(budget_key=) is a key of the state, not {key!r:.40}.")
        given: Any = {} if prices is None else prices
        if not isinstance(given, Mapping) or not all(isinstance(p, Price) for p in given.values()):  # pyright: ignore[reportUnknownVariableType]  # callers may be untyped
            raise ArgumentError(
                'cost_attribution(prices=) maps names of models to prices, such as {"m": '
                f"Price.per_million(input=1, output=2)}}, not {given!r:.40}."
            )
        self._key = budget_key
        self._prices: Mapping[str, Price] = dict(prices or {})
        self._spent: Shared[dict[tuple[str, str], Spent]] = self.shared(dict[tuple[str, str], Spent])
        name = (CostAttribution, budget_key)  # objects of other requests count the same budget
        self._budget: Kept[_Budget] = Kept(_Budget, _scope_of(budget_key or ""), name)

    @property
    def spent(self) -> Mapping[tuple[str, str], Spent]:
        """What was spent so far, by agent and model."""
        with _counting:
            return dict(self._spent.current)

    @property
    def total(self) -> Decimal:
        """What was spent so far, in USD."""
        return sum((spent.cost for spent in self.spent.values()), Decimal(0))

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask, and note what it cost, however it ends."""
        # What is wrong with prices or the budget is said before anything is spent.
        price_of(request.model, self._prices)
        self._in_state(ctx)
        used, noted = None, False
        try:
            async for response in call(request):
                if response.usage_metadata is not None and not (response.custom_metadata or {}).get(CACHED):
                    used = response
                if response.partial or used is None:
                    yield response
                    continue
                cost, noted = self._note(ctx, request.model, used), True
                known = response.custom_metadata or {}
                said = {} if cost is None or COST in known else {COST: str(cost)}
                yield response.model_copy(update={"custom_metadata": {**known, **said}}) if said else response
        finally:
            if used is not None and not noted:  # it broke off, and what it used until then is paid for
                self._note(ctx, request.model, used)

    async def on_event(self, ctx: Context, event: AgentEvent) -> AgentEvent | None:
        """Note what an answer of a live conversation cost, which no call of a model tells."""
        if not ctx.live or event.usage is None or event.raw is None or event.is_partial:
            return None
        self._in_state(ctx)
        cost = self._note(ctx, cast(_Modelled, ctx).model, event.raw)
        return None if cost is None else replace(event, metadata={**event.metadata, COST: str(cost)})

    async def after_run(self, ctx: Context) -> None:
        """Store what is left: of agents that answered at the same time, an older sum may have come last."""
        if self._key is None:
            return
        left = self._budget(ctx).instead(_Seen.of(ctx.state, self._key))
        if left is not None:
            left.write(ctx.state, self._key)

    def _in_state(self, ctx: Context) -> None:
        if self._key is None:
            return
        found = ctx.state.get(self._key)
        if found is None:
            raise MissingKeyError(
                f"{ctx.agent_name!r}: the state has no budget {self._key!r} for cost_attribution to count "
                f'down; set it, as in run(..., state={{"{self._key}": "5.00"}}).'
            )
        try:
            amount(found, self._key)
        except ArgumentError as error:
            raise ModelError(f"{ctx.agent_name!r}: the budget in the state: {error}") from error

    def _note(self, ctx: Context, asked: str | None, response: LlmResponse | Event) -> Decimal | None:
        """Add up what a call used; what it cost, if its price is known."""
        tokens = tokens_of(response.usage_metadata)
        model = getattr(response, "model_version", None) or asked or ""
        cost = self._cost(response, model, asked, tokens)
        who = (ctx.agent_name, asked or model)
        with _counting:
            spent = self._spent(ctx)
            known = spent.get(who, Spent())
            if cost is None and not known.unpriced:
                logger.warning("%s: nobody knows what %r costs; give cost_attribution prices=.", *who)
            spent[who] = Spent(
                known.calls + 1,
                known.input_tokens + tokens.input_tokens,
                known.output_tokens + tokens.output_tokens,
                known.cost + (cost or 0),
                known.unpriced + (cost is None),
            )
            # No other task comes between reading the state and writing it.
            if self._key is not None and cost is not None and not _counted(response, self._key):
                found = _Seen.of(ctx.state, self._key)
                self._budget(ctx).take(found, cost, self._key).write(ctx.state, self._key)
        if cost and not ctx.simulated:  # nobody pays for it
            _counter().add(float(cost), {"agent_name": who[0], "model": who[1]})
        return cost

    def _cost(
        self, response: LlmResponse | Event, model: str, asked: str | None, tokens: Tokens
    ) -> Decimal | None:
        metadata: Mapping[str, Any] = response.custom_metadata or {}
        if isinstance(said := metadata.get(COST), str):
            return Decimal(said)
        cost = cost_of(model, tokens, self._prices)
        return cost if cost is not None else cost_of(asked, tokens, self._prices)


def _scope_of(key: str) -> Scope:
    """Who shares a state key: a run, a session, all of a user, or all of an app."""
    if key.startswith("temp:"):
        return "run"
    if key.startswith("user:"):
        return "user"
    return "app" if key.startswith("app:") else "session"


def _counted(response: LlmResponse | Event, key: str) -> bool:
    metadata: Mapping[str, Any] = response.custom_metadata or {}
    return metadata.get(COUNTED) == key


@cache
def _counter() -> Any:
    from opentelemetry import metrics  # ADK brings it; without this middleware nobody needs it

    return metrics.get_meter(METER).create_counter(
        "adk_fluent.llm.cost", unit="USD", description="What calls of models cost"
    )
