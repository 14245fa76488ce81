"""What stands around the call of a model in the worker that makes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.durable.contexts import dumped_place, place_of
from adk_fluent.backends.adk.durable.steps import Json, Worker
from adk_fluent.backends.adk.middleware.calls import onion
from adk_fluent.backends.adk.middleware.context import HelperContext, HookContext
from adk_fluent.backends.adk.middleware.parting import Around, moves
from adk_fluent.backends.adk.middleware.stack import Stack
from adk_fluent.backends.adk.running.convert import run_config
from adk_fluent.backends.adk.running.middleware import acting
from adk_fluent.config import ExecutionConfig

_MORE: Final = "__adk_fluent_calls__"


class Surroundings:
    """The middleware of an expression that acts in workers; each has its own objects, by the same numbers.

    Args:
        services: those of the worker.

    Attributes:
        everything: all middleware of the expression.
    """

    def __init__(self, services: Worker) -> None:
        self._services = services
        self._agents: Mapping[str, BaseAgent] | None = None
        self._middleware: tuple[object, ...] = ()
        self.everything: tuple[object, ...] = ()

    def learn(self, root: object, agents: Mapping[str, BaseAgent]) -> None:
        """Take the middleware of the whole expression, when it is compiled first."""
        if self._agents is None:
            self._agents = agents
            every = Stack(each for _, stack in acting(cast(BaseAgent, root)) for each in stack.middleware)
            self.everything = every.middleware
            self._middleware = tuple(each for each in every.middleware if moves(each))

    def dumped(self, around: Around) -> Json:
        """What a worker must know of what stands around a call."""
        invocation, config = around.ctx.invocation, around.ctx.invocation.run_config
        numbers = {id(each): number for number, each in enumerate(self._middleware)}
        return {
            "middleware": [numbers[id(hook.middleware)] for hook in around.hooks],
            "place": dumped_place(around.ctx.native, around.ctx.agent_name),
            "operation": around.ctx.operation,
            "calls": private.model_calls(invocation),
            "most": None if config is None else config.max_llm_calls,
        }

    async def ask(
        self, told: Mapping[str, Json], llm: BaseLlm, request: LlmRequest, *, stream: bool
    ) -> AsyncGenerator[LlmResponse | int, None]:
        """What the model answers through what stands around it, then how many calls were made beyond one."""
        assert self._agents is not None
        place, most = place_of(told["place"], self._agents, self._services()), told["most"]
        config = ExecutionConfig() if most is None else ExecutionConfig(max_llm_calls=most)
        place.run_config = run_config(config, streaming=stream)
        private.set_model_calls(place, told["calls"])
        operation = told["operation"]
        native = CallbackContext(place) if operation is None else HelperContext(place, operation)
        stack = Stack(self._middleware[number] for number in told["middleware"])
        call = onion(stack.of("around_model"), HookContext(native), llm, stream)
        try:
            async with aclosing(call(request)) as responses:
                async for response in responses:
                    yield response
        except Exception as error:
            BaseException.__setattr__(error, _MORE, private.model_calls(place) - told["calls"])
            raise
        yield private.model_calls(place) - told["calls"]


def count(around: Around, more: int) -> None:
    """Let the run have made more calls than the one that ADK has counted."""
    if more:
        invocation = around.ctx.invocation
        private.set_model_calls(invocation, private.model_calls(invocation) + more)


def calls_of(error: Exception) -> int:
    """How many calls a worker made beyond one before it failed."""
    more = getattr(error, _MORE, 0)
    return more if isinstance(more, int) else 0
