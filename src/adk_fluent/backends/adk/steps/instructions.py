"""The instruction of an agent, with its context: one provider, or plain text where ADK can render it.

Gates render their messages here, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext

from adk_fluent.backends.adk.artifacts.parts import artifact_text
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.context.delivery import Delivering
from adk_fluent.backends.adk.context.functions import resolved, state_of
from adk_fluent.backends.adk.context.missing import explain, is_missing, needs
from adk_fluent.backends.adk.steps.leaves import FluentAgent
from adk_fluent.backends.adk.steps.llm_agent import FluentLlmAgent, compile_with, tree_of
from adk_fluent.backends.adk.steps.typed import instruction_text
from adk_fluent.context.entries import Ask
from adk_fluent.errors import MissingKeyError
from adk_fluent.ir.template import Placeholder, Segment, about_braces, is_portable, segments
from adk_fluent.prompt.spec import PromptSpec, Rewrite
from adk_fluent.state.delta import ReadOnlyState

Provider = Callable[[ReadonlyContext], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Rendering:
    """What a template is rendered with.

    Attributes:
        ctx: ADK's context, which functions of the user get.
        state: the state, with what the context spec has just written.
        delivering: what asks models for the agent; `None` where nothing in the instruction needs one.
    """

    ctx: ReadonlyContext
    state: ReadOnlyState
    delivering: Delivering | None = None

    async def fill(self, pieces: tuple[Segment, ...]) -> str:
        """A template, given in pieces, with its placeholders filled.

        Raises:
            MissingKeyError: a required key, or artifact, is not there.
        """
        invocation = private.invocation(self.ctx)
        text = ""
        for piece in pieces:
            if isinstance(piece, str):
                text += piece
            else:
                text += await self._artifact(invocation, piece) if piece.artifact else self._value(piece)
        return text

    async def rewrite(self, rewrite: Rewrite, question: str) -> str | None:
        """What a model makes of a prompt; `None` when the call failed, which is logged."""
        assert self.delivering is not None
        ask = Ask(rewrite.operation, rewrite.model, question)
        return await self.delivering.ask(ask, private.invocation(self.ctx))

    def _value(self, placeholder: Placeholder) -> str:
        value = self.state.get(placeholder.key)
        if value is None and not placeholder.optional:
            agent = self._agent
            if is_missing(placeholder.key, self.state, tree_of(agent)):
                raise MissingKeyError(self._explain(placeholder.key))
        return "" if value is None else str(value)

    def _explain(self, key: str) -> str:
        agent = self._agent
        return explain(agent.name, agent.ir.kind, key, self.state, tree_of(agent))

    @property
    def _agent(self) -> FluentAgent | FluentLlmAgent:
        """The agent whose template it is."""
        agent = private.invocation(self.ctx).agent
        assert isinstance(agent, FluentAgent | FluentLlmAgent)
        return agent

    async def _artifact(self, ctx: InvocationContext, placeholder: Placeholder) -> str:
        name, service, session = placeholder.key, ctx.artifact_service, ctx.session
        part = service and await service.load_artifact(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id, filename=name
        )
        if part:
            return artifact_text(part, name)
        if placeholder.optional:
            return ""
        raise MissingKeyError(
            f"{needs(self._agent.name, self._agent.ir.kind, f'artifact {name!r}')}, and there is none. "
            f"Save it before, or write {{artifact.{name}?}} if it may be missing. "
            f"{about_braces(f'artifact.{name}')}"
        )


async def rendered(instruction: object, rendering: Rendering) -> str:
    """The text of an instruction: a template, a prompt, or a function of ADK's context, used as it is."""
    if isinstance(instruction, str):
        return await rendering.fill(segments(instruction))
    if isinstance(instruction, PromptSpec):
        state = rendering.state.at(repr(rendering.ctx.agent_name))
        return await instruction.resolve(state, rendering.rewrite, rendering.fill)
    if callable(instruction):
        given = await resolved(cast("Callable[[ReadonlyContext], object]", instruction)(rendering.ctx))
        return instruction_text(given, instruction, rendering.ctx.agent_name)
    return ""


def compile_instruction(instruction: object, delivering: Delivering | None = None) -> str | Provider | None:
    """What ADK gets as an instruction; `None` for nothing.

    Text stays text where every ADK release renders it alike and no context is to follow it. Everything else
    becomes one provider: first the developer's instruction, after it the context block.
    """
    if isinstance(instruction, PromptSpec) and instruction.static:
        instruction = str(instruction)
    if delivering is None and isinstance(instruction, str):
        return instruction if is_portable(instruction) else _provider(instruction, None)
    if delivering is None and not isinstance(instruction, PromptSpec):
        return cast("Provider | None", instruction if callable(instruction) else None)
    return _provider(instruction, delivering)


compile_with(compile_instruction)


def _provider(instruction: object, delivering: Delivering | None) -> Provider:
    async def provide(ctx: ReadonlyContext) -> str:
        state = state_of(private.invocation(ctx))
        if delivering is None:
            return await rendered(instruction, Rendering(ctx, state))
        delivery = await delivering.deliver(private.invocation(ctx))
        state = state.over(delivery.writes)
        text = await rendered(instruction, Rendering(ctx, state, delivering))
        delivery.instruction = "\n\n".join(filter(None, (text, delivery.block)))
        return delivery.instruction

    return provide
