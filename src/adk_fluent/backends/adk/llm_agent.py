"""The native agent for a model with its instruction, context and tools."""

from __future__ import annotations

from contextlib import aclosing
from typing import ClassVar, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext

from adk_fluent.backends.adk import private
from adk_fluent.backends.adk.context import Assembler, Delivering
from adk_fluent.backends.adk.leaves import Events, FluentAgent, joined, resolved
from adk_fluent.backends.adk.missing import explain, needed
from adk_fluent.backends.adk.shrinking import replacing
from adk_fluent.backends.adk.temporary import with_temporary
from adk_fluent.errors import MissingKeyError
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import AgentNode


class FluentLlmAgent(private.AssemblingAgent):
    """ADK's `LlmAgent` with a context spec, and a clear error when its instruction lacks state it needs."""

    # Kept beside the fields, as pydantic lets cached properties be: with private attributes each agent would
    # cost a tenth more.
    _ir: ClassVar[Node]
    _tree: ClassVar[Node | None] = None
    _delivering: ClassVar[Delivering | None] = None

    def bind(self, node: Node) -> None:
        """Remember the node it was made from."""
        object.__setattr__(self, "_ir", node)

    def place(self, tree: Node) -> None:
        """Remember the tree it runs in, where that is not one of agents."""
        object.__setattr__(self, "_tree", tree)

    def see(self, delivering: Delivering) -> None:
        """Set what it sees of the conversation."""
        object.__setattr__(self, "_delivering", delivering)

    @property
    def tree(self) -> Node:
        """The tree it runs in, as far as its parents do not tell."""
        return self._tree or self._ir

    @property
    def ir(self) -> Node:
        """The node it was made from."""
        return self._ir

    def assembler(self, original: private.Processor) -> private.Processor:
        """What assembles the conversation: ADK, or ADK on what the context spec leaves."""
        return original if self._delivering is None else Assembler(original, self._delivering)

    @property
    def _templates(self) -> tuple[str, ...]:
        """The templates that are rendered for it; only a root's global instruction is."""
        node = cast(AgentNode, self._ir)
        if self.parent_agent is None:
            return node.templates
        return (node.instruction,) if isinstance(node.instruction, str) else ()

    async def canonical_global_instruction(self, ctx: ReadonlyContext) -> tuple[str, bool]:
        """As ADK's, without its advice to use a plugin instead: a plugin does not travel with `build()`."""
        given = self.global_instruction
        if isinstance(given, str):
            return given, False
        return str(await resolved(given(ctx))), True

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        state, spec = ctx.session.state, self._ir.annotations.context
        later = spec.access.writes if spec else frozenset[str]()  # written before the instruction is rendered
        for key in needed(self._templates):
            if state.get(key) is None and key not in later:
                raise MissingKeyError(explain(self.name, key, state, tree_of(self)))
        view = joined(ctx)
        run = private.run_llm(self, view)
        if self._delivering is not None:
            run = _reported(run, view, self._delivering)
        async with aclosing(run) as events:
            async for event in events:
                for stored in replacing(ctx, with_temporary(ctx, event)):
                    yield stored
                if view is not ctx and not event.partial:  # the runner stores it in the session itself
                    view.session.events.append(event)


def tree_of(agent: FluentAgent | FluentLlmAgent) -> Node:
    """The whole tree that a native agent was compiled with."""
    while isinstance(parent := agent.parent_agent, FluentAgent | FluentLlmAgent):
        agent = parent
    return agent.tree if isinstance(agent, FluentLlmAgent) else agent.ir


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
