"""Choosing a model at each call, and counting what it cost against a budget.

The choice is made when a request is all but its tools, and written where ADK, tools and callbacks look for
the name of the model: `llm_request.model`. What calls the model only goes by that name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Self, cast
from weakref import WeakValueDictionary

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models import BaseLlm, Gemini, LLMRegistry
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import _real_models
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.context.functions import holds, state_of
from adk_fluent.backends.adk.steps.branches import Overlay
from adk_fluent.backends.adk.steps.leaves import Events
from adk_fluent.backends.adk.steps.scripted import ScriptedLlm
from adk_fluent.context.entries import estimate_tokens
from adk_fluent.cost.model_selection import Situation, choose, gives_price, price_in, ranking, unpriced
from adk_fluent.cost.prices import COST, COUNTED, amount, cost_of_response, countdown, left_of, tokens_of
from adk_fluent.errors import ArgumentError, ModelError
from adk_fluent.ir.nodes import ModelSelectorNode
from adk_fluent.ir.state_keys import is_temporary

CHOSEN = "adk_fluent.model"
"""Metadata of a response, and of its event: the candidate that was asked, by the name it was given."""


class SelectingLlm(BaseLlm):
    """Several models as one: it asks the one that the request names."""

    _selector: ModelSelectorNode = PrivateAttr()
    _agent: str = PrivateAttr()
    _first: str = PrivateAttr()
    _models: dict[str, LlmAgent] = PrivateAttr()

    @classmethod
    def of(cls, selector: ModelSelectorNode, agent: str, models: Mapping[str, str | BaseLlm]) -> Self:
        """The models of an agent; `models` says what answers under each name."""
        made = cls(model=f"one of {', '.join(models)}")  # no provider's name: what it can do, all of them can
        made._selector, made._agent, made._first = selector, agent, ranking(selector, agent)[0].model
        # ADK itself makes a model of a name, and knows how long it may be kept.
        made._models = {name: LlmAgent(name="candidate", model=model) for name, model in models.items()}
        return made

    @property
    def is_scripted(self) -> bool:
        """Whether no real model would ever be asked."""
        return all(isinstance(one.model, ScriptedLlm) for one in self._models.values())

    def scripted(self, script: Callable[[str], str | BaseLlm | None]) -> Self:
        """The same, where `script` says what answers under each name."""
        return type(self).of(
            self._selector, self._agent, {name: script(name) or name for name in self._models}
        )

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The answer of the model that the request names, marked with that name and what it cost."""
        name, model = self._asked(llm_request)
        async with aclosing(model.generate_content_async(llm_request, stream)) as responses:
            async for response in responses:
                if response.usage_metadata is not None or not response.partial:
                    self._mark(response, name)
                yield response

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        """A live connection to the model that the request names, whose answers are marked likewise."""
        name, model = self._asked(llm_request)
        async with model.connect(llm_request) as line:
            yield cast(BaseLlmConnection, _MarkedLine(line, partial(self._mark, name=name)))

    def _asked(self, request: LlmRequest) -> tuple[str, BaseLlm]:
        """The model that a request names; one that names none, as a helper's, gets the first."""
        name = request.model or self.model
        if name == self.model:
            name = request.model = self._first
        known = self._models.get(name)  # unless a callback has other plans
        model = LLMRegistry.new_llm(name) if known is None else known.canonical_model
        _real_models.check(model, self._agent)
        if not isinstance(model, Gemini | ScriptedLlm):
            _pair_calls(request.contents)
        return name, model

    def _mark(self, response: LlmResponse, name: str) -> None:
        metadata = {**(response.custom_metadata or {}), CHOSEN: name}
        if response.usage_metadata is not None and gives_price(self._selector, name):
            price = price_in(self._selector, name)
            assert price is not None
            metadata[COST] = format(price.cost(tokens_of(response.usage_metadata)), "f")
        response.custom_metadata = metadata
        response.model_version = response.model_version or name


class _MarkedLine:
    """A live connection that says of each answer which model it is from."""

    def __init__(self, line: BaseLlmConnection, mark: Callable[[LlmResponse], None]) -> None:
        self._line, self._mark = line, mark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line, name)

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """What the model says."""
        async with aclosing(self._line.receive()) as responses:
            async for response in responses:
                if response.usage_metadata is not None:
                    self._mark(response)
                yield response


def _pair_calls(contents: list[types.Content]) -> None:
    """Give tool calls and their results the ids that ADK leaves out where it does not know the provider.

    Gemini pairs them by their order, others by id.
    """
    waiting: dict[str, list[str]] = {}
    number = 0
    for content in contents:
        for part in content.parts or ():
            if (call := part.function_call) is not None:
                number += 1
                call.id = call.id or f"call_{number}"
                waiting.setdefault(call.name or "", []).append(call.id)
            elif (result := part.function_response) is not None:
                asked = waiting.get(result.name or "", [])
                result.id = result.id or (asked[0] if asked else None)
                if result.id in asked:
                    asked.remove(result.id)


def is_scripted(model: object) -> bool:
    """Whether a script answers in the place of a real model."""
    return isinstance(model, ScriptedLlm) or bool(getattr(model, "is_scripted", False))


class Choosing:
    """Chooses the model of a request, once ADK has put it together."""

    name = "adk_fluent_choosing"

    def __init__(self, selector: ModelSelectorNode) -> None:
        self._selector = selector

    async def run_async(
        self, invocation_context: InvocationContext, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        """Write the name of the model into the request."""
        ctx, selector = invocation_context, self._selector
        agent = ctx.agent
        assert isinstance(agent, LlmAgent)
        state = state_of(ctx)
        unmet = [
            one.model
            for one in selector.candidates
            if one.condition is not None and not await holds(one.condition, state, agent.name)
        ]
        left = None
        if (key := selector.budget_key) is not None:
            left = left_of(await _stored(ctx, key), key, agent.name)
        last, promoted = _quality(ctx, agent.name, selector)
        limited = any(one.max_tokens is not None for one in selector.candidates)
        size = await _size(llm_request, agent, ctx) if limited else 0
        situation = Situation(frozenset(unmet), size, left, last, promoted)
        llm_request.model = choose(selector, agent.name, situation)
        return
        yield  # an async generator needs one


async def _size(request: LlmRequest, agent: LlmAgent, ctx: InvocationContext) -> int:
    """About how many tokens a request has, its tools included, which ADK adds later."""
    system: object = getattr(request.config, "system_instruction")  # noqa: B009  # its type names the optional PIL
    size = estimate_tokens(str(system or ""))
    for content in request.contents:
        for part in content.parts or ():
            size += estimate_tokens(part.text or part.model_dump_json(exclude_none=True))
    declared = [private.declaration(tool) for tool in await agent.canonical_tools(ReadonlyContext(ctx))]
    return size + sum(estimate_tokens(one.model_dump_json(exclude_none=True)) for one in declared if one)


def _quality(ctx: InvocationContext, agent: str, selector: ModelSelectorNode) -> tuple[str | None, bool]:
    """The model that answered the agent's call before, and whether that was judged too low since."""
    key, threshold = selector.quality_key, selector.quality_threshold
    if selector.strategy != "adaptive" or key is None or threshold is None:
        return None, False
    judged = False
    for event in reversed(ctx.session.events):
        judged = judged or key in event.actions.state_delta
        model = (event.custom_metadata or {}).get(CHOSEN)
        if event.author == agent and isinstance(model, str):
            score: Any = ctx.session.state.get(key)
            return model, judged and _below(score, threshold, agent, key)
    return None, False


def _below(score: object, threshold: float, agent: str, key: str) -> bool:
    try:
        return score is not None and float(score) < threshold  # pyright: ignore[reportArgumentType]  # tried
    except (TypeError, ValueError):
        raise ModelError(
            f'Agent {agent!r} chooses its model by the score "{key}", which holds {score!r:.40}. '
            "Write a number there."
        ) from None


# --- budgets --------------------------------------------------------------------------------------

_locks: WeakValueDictionary[tuple[object, ...], asyncio.Lock] = WeakValueDictionary()


def _lock(ctx: InvocationContext, key: str) -> asyncio.Lock:
    """The lock of a budget; turns that run at the same time take it one after the other."""
    session = ctx.session
    whose = () if key.startswith("app:") else (session.user_id,)
    where = () if key.startswith(("app:", "user:")) else (session.id,)
    name = (id(asyncio.get_running_loop()), session.app_name, *whose, *where, key)
    return _locks.setdefault(name, asyncio.Lock())


async def _stored(ctx: InvocationContext, key: str) -> object:
    """What a budget holds now, also where another turn changed it since this one began."""
    mine = ctx.session.state.get(key)
    if is_temporary(key):
        return mine
    session = ctx.session
    stored = await ctx.session_service.get_session(
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        config=GetSessionConfig(num_recent_events=1),
    )
    there = mine if stored is None else stored.state.get(key, mine)
    if not isinstance(session.state, Overlay) or mine is None:
        return there
    try:  # a branch apart from the session has its own calls counted only here
        return min(amount(mine, key), amount(there, key))
    except ArgumentError:
        return mine


async def charged(run: Events, ctx: InvocationContext, agent: str, selector: ModelSelectorNode) -> Events:
    """The events of an agent, each with what is left of the budget after the call that it reports."""
    key = selector.budget_key
    assert key is not None
    async with aclosing(run) as events:
        async for event in events:
            model = (event.custom_metadata or {}).get(CHOSEN)
            if event.author != agent or event.partial or event.usage_metadata is None or model is None:
                yield event
                continue
            cost = cost_of_response(event, model)
            if cost is None and model != selector.fallback_model:
                raise ArgumentError(unpriced(agent, model))
            async with _lock(ctx, key):  # held until the event is stored
                left = left_of(await _stored(ctx, key), key, agent)
                if left is not None and cost is not None:
                    event.actions.state_delta[key] = countdown(left, cost)
                    event.custom_metadata = {**(event.custom_metadata or {}), COUNTED: key}
                yield event
