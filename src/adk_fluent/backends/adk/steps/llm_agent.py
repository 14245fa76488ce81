"""The native agent for a model with its instruction, context and tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.genai.types import Content

from adk_fluent import _real_models
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.context.delivery import Assembler, Delivering
from adk_fluent.backends.adk.context.functions import resolved, state_of
from adk_fluent.backends.adk.context.missing import explain, is_missing, needed
from adk_fluent.backends.adk.events.asides import passing_on, runs_agents
from adk_fluent.backends.adk.events.signals import failure, spoken_text
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.middleware.calls import AnotherModel, around, with_middleware
from adk_fluent.backends.adk.middleware.stack import NOTHING, Replacing, Stack, stack_of, warn_idle
from adk_fluent.backends.adk.resources import holding
from adk_fluent.backends.adk.steps.asking_again import (
    MISFITS,
    Asked,
    Corrections,
    JsonAnswers,
    of_event,
    tool_asks,
    until_it_fits,
    with_prefaces,
    within_bounds,
)
from adk_fluent.backends.adk.steps.branches import in_graph
from adk_fluent.backends.adk.steps.calling_live import LiveLlm
from adk_fluent.backends.adk.steps.failures import ErrorSource, note, storable
from adk_fluent.backends.adk.steps.leaves import Events, FluentAgent, with_current_children
from adk_fluent.backends.adk.steps.live import refuse_asking
from adk_fluent.backends.adk.steps.resuming import outermost, while_waiting
from adk_fluent.backends.adk.steps.scripted import storing
from adk_fluent.backends.adk.steps.selecting import Choosing, charged, is_scripted
from adk_fluent.backends.adk.steps.shrinking import removal, stores_faithfully
from adk_fluent.backends.adk.steps.typed import answering, instruction_text, keeping_to
from adk_fluent.backends.adk.steps.views import View, own_view
from adk_fluent.errors import ADKFluentError, AnswerError, MissingKeyError, RunError, no_answer
from adk_fluent.ir._generated import AGENT_FIELDS
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import CALLBACK_FIELDS, AgentNode, ModelSelectorNode, templates_in
from adk_fluent.state.answers import is_structured, returned_type, writes_of
from adk_fluent.state.schema import StateSchema

_Compile = Callable[[object, "Delivering | None"], object]
_compiles: Final[list[_Compile]] = []


def compile_with(compile_instruction: _Compile) -> None:
    """Set what makes a provider of an instruction and a context: a module that needs this one has it."""
    _compiles[:] = [compile_instruction]


_FIELDS: Final = frozenset(AGENT_FIELDS) | {"name"}
"""The fields of ADK's agent that its node has, too."""


class FluentLlmAgent(private.AssemblingAgent):
    """ADK's `LlmAgent` with a context spec, typed state, and a clear error when it lacks state it needs.

    What it knows is kept beside the fields, as pydantic lets cached properties be: private attributes would
    make each agent a tenth more expensive.
    """

    _ir: ClassVar[Node]
    _tree: ClassVar[Node | None] = None
    _delivering: ClassVar[Delivering | None] = None
    _middleware: ClassVar[Stack] = NOTHING
    _another_model: ClassVar[AnotherModel | None] = None
    _selector: ClassVar[ModelSelectorNode | None] = None
    _holds: ClassVar[bool] = False

    _built: ClassVar[Mapping[str, Any]] = {}

    def bind(self, node: Node) -> None:
        """Remember the node it was made from, and the values that its fields were given."""
        object.__setattr__(self, "_ir", node)
        object.__setattr__(self, "_built", {name: vars(self)[name] for name in _FIELDS & vars(self).keys()})

    def instruct(self, instruction: str | Callable[[ReadonlyContext], Awaitable[str]]) -> None:
        """Set what its instruction is compiled to, for the same node."""
        setattr(self, "instruction", instruction)  # noqa: B010  # the field is declared by ADK
        object.__setattr__(self, "_built", {**self._built, "instruction": instruction})

    def current_node(self) -> Node:
        """The node it was made from, with what was changed since, as by `clone(update=)`."""
        changed = {name: vars(self)[name] for name in self._built if self._has_new(name)}
        for name in changed.keys() & {*CALLBACK_FIELDS, "tools"}:
            value = changed[name]
            changed[name] = tuple(cast("list[Any]", value)) if isinstance(value, list) else (value,)
        node = self._ir.replace(**changed) if changed else self._ir
        return with_current_children(node, self.sub_agents)

    def _has_new(self, field: str) -> bool:
        """Whether a field was changed since it was made."""
        return vars(self).get(field) is not self._built.get(field)

    def place(self, tree: Node) -> None:
        """Remember the tree it runs in, where that is not one of agents."""
        object.__setattr__(self, "_tree", tree)

    def hold(self) -> None:
        """Close what is opened for a run when it ends."""
        object.__setattr__(self, "_holds", True)

    def see(self, delivering: Delivering) -> None:
        """Set what it sees of the conversation."""
        delivering.tree = lambda: tree_of(self)
        object.__setattr__(self, "_delivering", delivering)

    def attach(self, stack: Stack, another_model: AnotherModel | None = None) -> None:
        """Set the middleware that acts on it.

        Args:
            another_model: what a test backend asks in place of a model that a middleware names.
        """
        object.__setattr__(self, "_middleware", stack)
        object.__setattr__(self, "_another_model", another_model)

    def select(self, selector: ModelSelectorNode) -> None:
        """Set what chooses its model at each call."""
        object.__setattr__(self, "_selector", selector)

    @property
    def tree(self) -> Node:
        """The tree it runs in, as far as its parents do not tell."""
        return self._tree or self._ir

    @property
    def ir(self) -> Node:
        """The node it was made from."""
        return self._ir

    @property
    def delivering(self) -> Delivering | None:
        """What delivers its context; `None` where ADK shows it the conversation."""
        return self._delivering

    def assembler(self) -> Callable[[private.Processor], private.Processor] | None:
        """Who assembles the conversation: ADK, or ADK on what the context spec leaves."""
        delivering = self._delivering
        return None if delivering is None else lambda original: Assembler(original, delivering)

    def finishers(self) -> Sequence[private.Processor]:
        """What lets its answer be JSON where it gives it by a tool, and what chooses its model."""
        by_tool = self.output_schema is not None and cast(AgentNode, self._ir).tools
        typed = returned_type(cast(AgentNode, self._ir)) is not None
        found: tuple[private.Processor, ...] = (Corrections(),) if typed else ()
        found = (JsonAnswers(), *found) if by_tool else found
        return found if self._selector is None else (*found, Choosing(self._selector))

    def called(self, model: BaseLlm, ctx: InvocationContext) -> BaseLlm:
        """The model with the middleware around it."""
        _real_models.check(model, self.name)
        called = around(model, ctx)
        return called if ctx.live_request_queue is None else cast(BaseLlm, LiveLlm(called, self.name))

    @property
    def canonical_on_tool_error_callbacks(self) -> list[Any]:
        """ADK's, behind what makes a result of a tool's wish to be called again."""
        return [tool_asks, *super().canonical_on_tool_error_callbacks]

    @property
    def canonical_before_agent_callbacks(self) -> list[Any]:
        """ADK's, checked."""
        return answering(super().canonical_before_agent_callbacks, self.name, "before_agent", Content)

    @property
    def canonical_after_agent_callbacks(self) -> list[Any]:
        """ADK's, checked."""
        return answering(super().canonical_after_agent_callbacks, self.name, "after_agent", Content)

    @property
    def canonical_before_model_callbacks(self) -> list[Any]:
        """ADK's, checked."""
        return answering(super().canonical_before_model_callbacks, self.name, "before_model", LlmResponse)

    @property
    def canonical_after_model_callbacks(self) -> list[Any]:
        """ADK's, checked."""
        return answering(super().canonical_after_model_callbacks, self.name, "after_model", LlmResponse)

    @property
    def canonical_on_model_error_callbacks(self) -> list[Any]:
        """ADK's, checked."""
        return answering(super().canonical_on_model_error_callbacks, self.name, "on_model_error", LlmResponse)

    async def canonical_tools(self, ctx: ReadonlyContext | None = None) -> list[BaseTool]:
        """As ADK's, with the middleware around them: these are run when a person has approved a call."""
        tools = await super().canonical_tools(ctx)
        if ctx is None:
            return tools
        for plugin in private.invocation(ctx).plugin_manager.plugins:
            if isinstance(plugin, Replacing):
                tools = [plugin.replaced(tool) for tool in tools]
        if not stack_of(private.invocation(ctx)).of("around_tool"):
            return tools
        return [with_middleware(tool) for tool in tools]

    @property
    def _templates(self) -> tuple[str, ...]:
        """The templates that are rendered for it; only a root's global instruction is."""
        node = cast(AgentNode, self.current_node() if self._has_new("instruction") else self._ir)
        if self.parent_agent is None:
            return node.templates
        return templates_in(node.instruction)

    async def canonical_global_instruction(self, ctx: ReadonlyContext) -> tuple[str, bool]:
        """As ADK's, without its advice to use a plugin instead: a plugin does not travel with `build()`."""
        given = self.global_instruction
        if isinstance(given, str):
            return given, False
        return instruction_text(await resolved(given(ctx)), given, self.name, "global instruction"), True

    @property
    def canonical_model(self) -> BaseLlm:
        """ADK's model for this agent; an unknown name is noted as this agent's."""
        if not isinstance(model := self.model, str):
            return model  # ADK asks several times for each call
        try:
            return super().canonical_model
        except (ValueError, ImportError) as error:
            note(error, ErrorSource(self.name, model=str(self.model)))
            raise

    async def canonical_instruction(self, ctx: ReadonlyContext) -> tuple[str, bool]:
        """As ADK's; what a function in it raises is noted as this agent's."""
        try:
            if self._has_new("instruction"):
                given = _compiles[0](self.instruction, self._delivering)
                if callable(given):
                    return instruction_text(await resolved(given(ctx)), given, self.name), True
            text, bypasses = await super().canonical_instruction(ctx)
            return instruction_text(text, self.instruction, self.name), bypasses
        except ADKFluentError:
            raise
        except Exception as error:
            note(error, ErrorSource(self.name, part="instruction"))
            raise

    def run_async(self, parent_context: InvocationContext) -> Events:
        """ADK's entry, which keeps to what stores can hold and to the schema bound to the node."""
        if (outer := outermost(self, parent_context)) is not None:
            return outer[0].run_async(outer[1])
        if self._middleware is not NOTHING:
            warn_idle(self._middleware, self.name, parent_context)
        events = keeping_to(_schema_of(self._ir), super().run_async(parent_context))
        if self.parent_agent is None and not private.tells_failures():
            events = runs.telling(parent_context, events)
        return holding(parent_context, events) if self._holds else events

    def run_live(self, parent_context: InvocationContext) -> Events:  # pyright: ignore[reportIncompatibleMethodOverride]  # final in ADK, where nothing else is around all that an agent does
        """ADK's entry for live conversations, which keeps to the schema bound to the node."""
        if self._middleware is not NOTHING:
            warn_idle(self._middleware, self.name, parent_context)
        events = keeping_to(_schema_of(self._ir), super().run_live(parent_context))
        return holding(parent_context, events) if self._holds else events

    def _run_async_impl(self, ctx: InvocationContext) -> Events:
        if self._tree is not None:
            ctx = in_graph(ctx)
        view = own_view(ctx)
        inner = view.ctx if view else ctx
        if not (self.sub_agents and ctx.is_resumable and private.resumes_below(self, inner)):
            self._require_keys(ctx)
        run = self._told(self._asked(inner), inner)
        if ctx.is_resumable:
            run = while_waiting(self, inner, run)
        if self._delivering is not None:
            run = _reported(run, inner, self._delivering)
        if is_scripted(self.model):
            run = storing(run)
        if view or ctx.is_resumable or self._tree is not None or not stores_faithfully(ctx):
            return self._followed(run, ctx, view)
        return run  # one generator fewer for each event to pass through

    def _asked(self, ctx: InvocationContext) -> Events:
        """The events of its calls of models and tools, asked again where an answer does not fit."""
        node = cast(AgentNode, self._ir)
        if (kind := returned_type(node)) is None:
            return with_prefaces(private.run_llm(self, ctx), self)
        asked = Asked(self.name, node.retries, kind.takes_none)
        return until_it_fits(lambda: private.run_llm(self, ctx), ctx, asked)

    def _run_live_impl(self, ctx: InvocationContext) -> Events:
        refuse_asking(self._ir)
        self._require_keys(ctx)
        return self._told(super()._run_live_impl(ctx), ctx)

    def _told(self, run: Events, ctx: InvocationContext) -> Events:
        """The events of a run with what its tools and its model leave to be told."""
        if cast(Any, self).tools:
            run = within_bounds(storable(run), self.name, cast(AgentNode, self._ir).retries)
        if self._selector is not None and self._selector.budget_key is not None:
            run = charged(run, ctx, self.name, self._selector)
        return passing_on(ctx, run) if any(map(runs_agents, cast(Any, self).tools)) else run

    def _require_keys(self, ctx: InvocationContext) -> None:
        """Refuse to run while a key is missing that the instruction cannot do without."""
        if not (keys := needed(self._templates)):
            return
        state, spec = ctx.session.state, self._ir.annotations.context
        later = spec.access.writes if spec else frozenset[str]()  # written before the instruction is rendered
        for key in keys:
            if key not in later and is_missing(key, state, tree_of(self)):
                raise MissingKeyError(explain(self.name, "agent", key, state_of(ctx), tree_of(self)))

    async def _followed(self, run: Events, ctx: InvocationContext, view: View | None) -> Events:
        """The events of a run with what they write beside, as the store at hand needs it."""
        async with aclosing(run) as events:
            async for event in events:
                if (removed := removal(ctx, event)) is not None:
                    yield removed
                yield with_temporary(ctx, event)
                if view:
                    view.refresh()
                if event.author == self.name and not event.partial and (problem := failure(event)):
                    if self._tree is not None:  # a graph goes on behind a node that does not raise
                        raise RunError(no_answer(self.name, problem))
                    return  # nothing follows a failure, not even that the agent has ended

    def keep(self, event: Event) -> None:
        """Write what a structured answer puts into state: JSON types, whatever the store makes of objects.

        Raises:
            AnswerError: the answer is not of the type that the agent returns.
        """
        node = cast(AgentNode, self._ir)
        if not (text := self._answered(event)):
            return
        if not is_structured(node) or self.output_key is not None:
            return self.check(event)
        try:
            event.actions.state_delta.update(writes_of(node, text))
        except MISFITS as error:
            raise of_event(error, event) from error.__cause__

    def check(self, event: Event) -> None:
        """Check whether an answer is of the type that the agent returns.

        Raises:
            AnswerError: it is not.
        """
        node, kind = cast(AgentNode, self._ir), returned_type(cast(AgentNode, self._ir))
        if kind is None or not (text := self._answered(event)):
            return
        if self._tree is None and getattr(self, "mode", None) == "task":
            return  # which ends by a tool
        try:
            kind.parse(text, node.name)
        except AnswerError as error:
            raise of_event(error, event) from error.__cause__

    def _answered(self, event: Event) -> str:
        """The text of an answer that must be of a type; nothing for all other events."""
        if event.author != self.name or not returned_type(cast(AgentNode, self._ir)):
            return ""
        if not event.is_final_response() or failure(event) or event.get_function_calls():
            return ""  # a failure, or words beside a call
        if self._has_new("output_schema"):  # ADK stores the answer as it does for any agent of its own
            return ""
        return text if (text := spoken_text(event)).strip() else ""  # an empty chunk may end a stream


def _schema_of(node: Node) -> type[StateSchema] | None:
    return cast("type[StateSchema] | None", node.annotations.schema)


def tree_of(agent: FluentAgent | FluentLlmAgent) -> Node:
    """The whole tree that a native agent was compiled with."""
    while isinstance(parent := agent.parent_agent, FluentAgent | FluentLlmAgent):
        agent = parent
    return agent.tree if isinstance(agent, FluentLlmAgent) else agent.ir


async def _reported(run: Events, ctx: InvocationContext, delivering: Delivering) -> Events:
    """The events of a run, with those that the context has to add."""
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
