"""The native agent for a model with its instruction, context and tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from pydantic import PrivateAttr

from adk_fluent.backends.adk import private
from adk_fluent.backends.adk.context import Assembler, Delivering
from adk_fluent.backends.adk.leaves import Events
from adk_fluent.errors import MissingKeyError
from adk_fluent.ir.base import Node


class FluentLlmAgent(private.AssemblingAgent):
    """ADK's `LlmAgent` with a context spec, and a clear error when its instruction lacks state it needs."""

    _ir: Node = PrivateAttr()
    _required: tuple[str, ...] = PrivateAttr(default=())
    _explain: Callable[[str, Mapping[str, Any]], str] = PrivateAttr()
    _delivering: Delivering | None = PrivateAttr(default=None)

    def bind(
        self,
        node: Node,
        required: tuple[str, ...],
        explain: Callable[[str, Mapping[str, Any]], str],
        delivering: Delivering | None = None,
    ) -> None:
        """Remember the node it was made from, the keys it needs and what to say when one is missing."""
        self._ir, self._required, self._explain = node, required, explain
        self._delivering = delivering

    def assembler(self, original: private.Processor) -> private.Processor:
        """What assembles the conversation: ADK, or ADK on what the context spec leaves."""
        return original if self._delivering is None else Assembler(original, self._delivering)

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        state = ctx.session.state
        for key in self._required:
            if state.get(key) is None:
                raise MissingKeyError(self._explain(key, state))
        run = private.run_llm(self, ctx)
        async with aclosing(
            run if self._delivering is None else _reported(run, ctx, self._delivering)
        ) as events:
            async for event in events:
                yield event


async def _reported(run: Events, ctx: InvocationContext, delivering: Delivering) -> Events:
    """The events of a run, with those that the context has to add."""
    delivering.open(ctx)
    try:
        async with aclosing(run) as events:
            async for event in events:
                for report in delivering.reports(ctx):
                    yield report
                delivering.note(ctx, event)
                yield event
    except Exception:
        for report in delivering.reports(ctx):  # the tokens are spent, also when the model then fails
            yield report
        raise
    finally:
        delivering.close(ctx)
