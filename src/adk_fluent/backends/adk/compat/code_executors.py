"""Code that a model writes, run in a thread also by releases of ADK that run it in the event loop.

There, nothing else happens while the code runs: no other branch, no other run, and no time limit. The call
cannot be awaited, so an answer with code is looked at twice: until ADK asks for the code to be run, and again
with the result. This module has underscore names of ADK, like `private`, where releases differ.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache
from typing import Any, Final, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from pydantic import PrivateAttr

from adk_fluent.backends.adk.threads import in_thread

_RUNS: Final = "_run_post_processor"


def in_threads(processors: list[Any]) -> list[Any]:
    """What a flow does with responses, without what blocks the event loop while code runs."""
    kinds: list[type[object]] = [type(each) for each in processors]
    return [InThread(each) if _blocks(kind) else each for each, kind in zip(processors, kinds, strict=True)]


@cache
def _blocks(kind: type[object]) -> bool:
    """Whether this is what runs code, in a release that runs it in the event loop."""
    runs: Any = getattr(sys.modules[kind.__module__], _RUNS, None)
    if kind.__name__ != "_CodeExecutionResponseProcessor" or runs is None:
        return False
    return "to_thread" not in runs.__code__.co_names


class _NotRun(BaseException):
    """The code of an answer has not been run yet; nothing of ADK's may take it for a failure of the code."""


class _Known(BaseCodeExecutor):
    """Stands for an executor: notes what it is asked for, and gives the result once that is there."""

    _asked: CodeExecutionInput | None = PrivateAttr(default=None)
    _result: CodeExecutionResult | None = PrivateAttr(default=None)

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """The result of the code.

        Raises:
            _NotRun: there is none yet.
        """
        if self._result is None:
            self._asked = code_execution_input
            raise _NotRun
        return self._result

    async def settle(self, executor: BaseCodeExecutor, ctx: InvocationContext) -> bool:
        """Have the code run that was asked for; whether any was."""
        if self._asked is None:
            return False
        self._result = await in_thread(executor.execute_code, ctx, self._asked)
        return True


class InThread:
    """Does what ADK does with the code of a response, and has an executor run it in a thread.

    Args:
        inner: what ADK does.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def run_async(
        self, invocation_context: InvocationContext, llm_response: LlmResponse
    ) -> AsyncGenerator[Event, None]:
        """The code, and its result."""
        ctx, agent = invocation_context, cast(Any, invocation_context.agent)
        executor: object = getattr(agent, "code_executor", None)
        known: _Known | None = None
        if isinstance(executor, BaseCodeExecutor) and not isinstance(executor, BuiltInCodeExecutor):
            known = _Known(**{name: getattr(executor, name) for name in BaseCodeExecutor.model_fields})
            ctx = ctx.model_copy(update={"agent": agent.model_copy(update={"code_executor": known})})
        told = 0
        try:
            async with aclosing(self.inner.run_async(ctx, llm_response)) as events:
                async for event in events:
                    told += 1
                    yield event
        except _NotRun:
            pass
        if known is None or not await known.settle(cast(BaseCodeExecutor, executor), invocation_context):
            return
        async with aclosing(self.inner.run_async(ctx, llm_response)) as events:
            async for event in events:
                told -= 1
                if told < 0:
                    yield event
