"""Calls of models and tools with the middleware that stands around them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from functools import lru_cache, partial
from types import MethodType
from typing import Any, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models import BaseLlm, LLMRegistry
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.tool_context import ToolContext

from adk_fluent import _real_models
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.middleware.answers import response_of
from adk_fluent.backends.adk.middleware.context import HelperContext, HookContext
from adk_fluent.backends.adk.middleware.parting import parted, surrounded
from adk_fluent.backends.adk.middleware.stack import Hook, cause_of, is_outcome, stack_of
from adk_fluent.backends.spending import ModelCall, noted_calls, usage_of
from adk_fluent.cost.prices import COST
from adk_fluent.middleware.protocol import CallModel, CallTool

Responses = AsyncGenerator[LlmResponse, None]

AnotherModel = Callable[["str | BaseLlm"], "str | BaseLlm"]
"""The model that a test backend asks in place of one that a middleware names."""


class AroundLlm:
    """A model with the middleware around it, for one step of one agent.

    ADK asks the agent itself what its model can do; this is only what it calls. A native agent has it as its
    model, so it says of itself what the model would.
    """

    def __init__(self, llm: BaseLlm, ctx: InvocationContext, hooks: tuple[Hook, ...]) -> None:
        self._llm, self._ctx, self._hooks = llm, ctx, hooks
        self.model: str = llm.model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    def connect(self, llm_request: LlmRequest) -> AbstractAsyncContextManager[BaseLlmConnection]:
        """As the model, with the middleware around the tools that it may call: no hook comes before that."""
        self._check()
        wrap_tools(llm_request)
        return self._llm.connect(llm_request)

    @property
    def __class__(self) -> type[BaseLlm]:  # pyright: ignore[reportIncompatibleMethodOverride]  # for `isinstance`
        return type(self._llm)

    def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Responses:
        """As the model, through the middleware."""
        self._check()
        native = step_of(self._ctx) or CallbackContext(self._ctx)
        responses = onion(self._hooks, HookContext(native), self._llm, stream)(llm_request)
        return responses if all(hook.passes_on for hook in self._hooks) else _ahead(responses)

    def _check(self) -> None:
        _real_models.check(self._llm, getattr(self._ctx.agent, "name", ""))


def around(llm: BaseLlm, ctx: InvocationContext) -> BaseLlm:
    """The model as ADK calls it: with the middleware around it, if there is any that wants to be."""
    live = ctx.live_request_queue is not None  # nothing is generated: it is connected to
    hooks = stack_of(ctx).of("around_tool" if live else "around_model")
    noted = hooks or noted_calls() is not None or _real_models.forbids(llm)
    return cast(BaseLlm, AroundLlm(llm, ctx, hooks)) if noted else llm


def surround(ctx: InvocationContext) -> None:
    """Put the middleware around the model of a native agent, for one run of it; ours do it themselves."""
    agent = ctx.agent
    if isinstance(agent, private.AssemblingAgent) or not isinstance(agent, LlmAgent):
        return
    if type(cast(object, agent.model)) is not AroundLlm:
        model = around(agent.canonical_model, ctx)
        if type(cast(object, model)) is AroundLlm:
            ctx.agent = agent.model_copy(update={"model": model})


# --- models ---------------------------------------------------------------------------------------


_STEP = "_adk_fluent_step"


def take_step(ctx: CallbackContext) -> None:
    """Note the context of a model call, whose writes ADK stores; some versions give another one after it."""
    object.__setattr__(private.invocation(ctx), _STEP, ctx)


def step_of(ctx: InvocationContext) -> CallbackContext | None:
    """The context of the model call that is on."""
    return ctx.__dict__.get(_STEP)


async def _ahead(source: Responses) -> Responses:
    """The responses, each whole one when it is known what follows.

    ADK runs the tools that an answer asks for before it asks for more of it. A middleware would still be at
    its last `yield` meanwhile, with what it holds: a slot of a limit, a clock.
    """
    try:  # as `aclosing` does, which would be felt in a run
        async for response in source:
            while not response.partial:
                try:
                    following = await anext(source, None)
                except Exception:
                    yield response
                    raise
                yield response
                if following is None:
                    return
                response = following
            yield response
    finally:
        await source.aclose()


def onion(hooks: tuple[Hook, ...], ctx: HookContext, llm: BaseLlm, stream: bool) -> CallModel:
    """A model with layers around it, the first the outermost.

    On a durable engine some act in the worker that asks the model: the request says which.
    """
    here, there = parted(hooks)
    call: CallModel = _Innermost(ctx, llm, stream, there)
    for hook in reversed(here):
        call = _passing_on(hook, ctx, call) if hook.passes_on else _Layer(hook, ctx, call)
    return call


class _Innermost:
    """The model itself. Calls beyond the first count towards the limit of the run, as ADK counts its own."""

    def __init__(self, ctx: HookContext, llm: BaseLlm, stream: bool, there: tuple[Hook, ...]) -> None:
        self._ctx, self._llm, self._stream, self._there = ctx, llm, stream, there
        self._again = False

    def __call__(self, request: LlmRequest, *, model: str | BaseLlm | None = None) -> Responses:
        if self._again:
            self._ctx.invocation.increment_llm_call_count()
        self._again = True
        llm = self._llm
        if model is not None:
            llm = _resolved(self._ctx.invocation, model)
            request = request.model_copy(update={"model": llm.model})
        if self._there:
            request = surrounded(request, self._ctx, self._there)
        responses = llm.generate_content_async(request, stream=self._stream)
        if model is not None:
            responses = _naming(llm.model, responses)
        calls = noted_calls()
        return responses if calls is None else _noting(calls, self._ctx.agent_name, request, responses)


async def _noting(calls: list[ModelCall], agent: str, request: LlmRequest, responses: Responses) -> Responses:
    """The responses of a call; what it has used when it ends, however it does, is noted."""
    used: LlmResponse | None = None
    try:
        async with aclosing(responses):
            async for response in responses:
                used = response if response.usage_metadata is not None else used
                yield response
    finally:
        if used is not None and used.usage_metadata is not None:
            model = used.model_version or request.model or ""
            cost = (used.custom_metadata or {}).get(COST)
            calls.append(ModelCall(agent, model, usage_of(used.usage_metadata, model, cost)))


async def _naming(model: str, responses: Responses) -> Responses:
    """The responses, which say that another model than the agent's gave them: prices go by that."""
    async with aclosing(responses):
        async for response in responses:
            yield response if response.model_version else response.model_copy(update={"model_version": model})


def _resolved(ctx: InvocationContext, model: str | BaseLlm) -> BaseLlm:
    another: AnotherModel | None = getattr(ctx.agent, "_another_model", None)
    while another is None and (outer := private.caller(ctx)) is not None:  # a native agent in a tool
        ctx, another = outer, getattr(outer.agent, "_another_model", None)
    chosen = model if another is None else another(model)
    llm = LLMRegistry.new_llm(chosen) if isinstance(chosen, str) else chosen
    _real_models.check(llm, getattr(ctx.agent, "name", ""))
    return llm


def _passing_on(hook: Hook, ctx: HookContext, inner: CallModel) -> CallModel:
    """One middleware that only passes on: what it gives is what is inside, with no failures of its own."""

    def call(request: LlmRequest, *, model: str | BaseLlm | None = None) -> Responses:
        if model is None:
            return hook.function(ctx, request, inner)
        return hook.function(ctx, _asking(request, model), partial(inner, model=model))

    return call


def _asking(request: LlmRequest, model: str | BaseLlm) -> LlmRequest:
    """The request with the name of another model, so that every layer knows who is asked."""
    return request.model_copy(update={"model": model if isinstance(model, str) else model.model})


class _Layer:
    """One middleware around a call."""

    def __init__(self, hook: Hook, ctx: HookContext, inner: CallModel) -> None:
        self._hook, self._ctx, self._inner = hook, ctx, inner

    async def __call__(self, request: LlmRequest, *, model: str | BaseLlm | None = None) -> Responses:
        if model is not None:
            request = _asking(request, model)
        asked = _Asked(self._inner, model, lasting=self._hook.best_effort)
        try:
            async with aclosing(self._hook.function(self._ctx, request, asked)) as responses:
                async for response in responses:
                    asked.taken.clear()
                    yield response_of(self._hook.name, None, response)
        except Exception as error:
            if error in asked.errors:  # it is the model's, or that of a middleware further in
                raise
            raised = self._hook.failed(self._ctx, error)
            if raised is not None:
                raise raised from cause_of(raised, error)
            async for response in asked.rest(request):
                yield response
        finally:
            await asked.aclose()


class _Asked:
    """What a middleware asks of the call that it stands around.

    Args:
        lasting: whether the call goes on where the middleware fails, though that closes what it asked.

    Attributes:
        errors: what the call raised.
        taken: what the middleware got and has not given on.
    """

    def __init__(self, inner: CallModel, model: str | BaseLlm | None, *, lasting: bool) -> None:
        self._inner, self._model, self._lasting = inner, model, lasting
        self._open: list[Responses] = []
        self._sources: list[Responses] = []
        self._failed: Exception | None = None
        self.errors: list[Exception] = []
        self.taken: list[LlmResponse] = []

    def __call__(self, request: LlmRequest, *, model: str | BaseLlm | None = None) -> Responses:
        responses = self._watched(request, self._model if model is None else model)
        self._open.append(responses)
        return responses

    async def _watched(self, request: LlmRequest, model: str | BaseLlm | None) -> Responses:
        try:
            self._sources.append(responses := self._inner(request, model=model))
            self._failed = None
            try:
                async for response in responses:
                    self.taken.append(response)
                    yield response
            finally:
                if not self._lasting:
                    await responses.aclose()
        except Exception as error:
            self.errors.append(error)
            self._failed = error
            raise

    async def rest(self, request: LlmRequest) -> AsyncIterator[LlmResponse]:
        """What follows when the middleware has failed: what it did not give on, or the call itself."""
        if not self._sources:
            self._sources.append(self._inner(request, model=self._model))
        for response in self.taken:
            yield response
        if self._failed is not None:
            raise self._failed from self._failed.__cause__
        async for response in self._sources[-1]:
            yield response

    async def aclose(self) -> None:
        """End the calls that were left behind."""
        for responses in (*self._open, *self._sources):
            await responses.aclose()


# --- helper models --------------------------------------------------------------------------------


async def helper_call(llm: BaseLlm, request: LlmRequest, native: HelperContext) -> Responses:
    """What a helper model answers, through everything that a call of the agent's own model goes through."""
    ctx = private.invocation(native)
    _real_models.check(llm, getattr(ctx.agent, "name", ""))
    plugins = ctx.plugin_manager
    answer = await plugins.run_before_model_callback(callback_context=native, llm_request=request)
    if answer is not None:
        yield answer
        return
    call = onion(stack_of(ctx).of("around_model"), HookContext(native), llm, stream=False)
    try:
        async with aclosing(call(request)) as responses:
            async for response in responses:
                changed = await plugins.run_after_model_callback(
                    callback_context=native, llm_response=response
                )
                yield changed or response
    except Exception as error:
        answer = await plugins.run_on_model_error_callback(
            callback_context=native, llm_request=request, error=error
        )
        if answer is None:
            raise
        yield answer


# --- tools ----------------------------------------------------------------------------------------


_WRAPPED = "__adk_fluent_wrapped__"


def wrap_tools(request: LlmRequest) -> None:
    """Put the middleware around the tools that the answer to a request may ask for."""
    tools = request.tools_dict
    for name, tool in tools.items():
        tools[name] = with_middleware(tool)


def with_middleware(tool: BaseTool) -> BaseTool:
    """The tool with the middleware around it.

    It is the tool itself under a subclass of its class, which shares all it holds: ADK, and the tool's own
    code, find what they look for, and a tool that changes has changed.
    """
    cls = type(tool)
    if hasattr(cls, _WRAPPED) or isinstance(tool, SetModelResponseTool):  # ADK's own, by which agents answer
        return tool
    made = object.__new__(_around(cls))
    object.__setattr__(made, "__dict__", tool.__dict__)
    return made


@lru_cache(maxsize=256)
def _around(cls: type[BaseTool]) -> type[BaseTool]:
    async def run_async(self: BaseTool, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        own = self.__dict__.get("run_async")  # a copy may say itself how it is called

        async def innermost(args: dict[str, Any]) -> Any:
            if own is not None:
                return await own(args=args, tool_context=tool_context)
            return await cls.run_async(self, args=args, tool_context=tool_context)

        ctx, call = HookContext(tool_context, tool=self), cast(CallTool, innermost)
        for hook in reversed(stack_of(ctx.invocation).of("around_tool")):
            call = _tool_layer(hook, ctx, self.name, call)
        return await call(args)

    # What an object has of a name counts more than what its class has, unless that is a property.
    called = property(lambda self: MethodType(run_async, self))
    members = {"run_async": called, "__module__": cls.__module__, _WRAPPED: True}
    return cast("type[BaseTool]", type(cls.__name__, (cls,), members))


def _tool_layer(hook: Hook, ctx: HookContext, name: str, inner: CallTool) -> CallTool:
    async def layer(args: dict[str, Any]) -> Any:
        errors: list[Exception] = []
        results: list[Any] = []

        async def call(args: dict[str, Any]) -> Any:
            try:
                result = await inner(args)
            except Exception as error:
                errors.append(error)
                raise
            results.append(result)
            return result

        try:
            return await hook.function(ctx, name, args, call)
        except Exception as error:
            if error in errors or is_outcome(error):
                raise
            raised = hook.failed(ctx, error)
            if raised is not None:
                raise raised from cause_of(raised, error)
            if errors and not results:  # the tool failed, and is not called once more
                raise errors[-1] from errors[-1].__cause__
            return results[-1] if results else await inner(args)

    return layer
