"""The one compiler from IR to native ADK agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models import BaseLlm
from google.genai import types
from pydantic import ValidationError

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.schemas import answerable
from adk_fluent.backends.adk.compile.natives import cloned, surrounded_by
from adk_fluent.backends.adk.compile.scope import (
    NO_RESOURCES,
    AnotherFor,
    Compilation,
    ModelFor,
    RemoteFor,
    adk_fields,
    construct,
    known_fields,
    names_below,
    native_children,
    needs_holding,
    voices_of,
    whole,
    within,
)
from adk_fluent.backends.adk.context.delivery import Delivering
from adk_fluent.backends.adk.context.helper_models import Choose, HelperFor, Helpers, named_model
from adk_fluent.backends.adk.middleware.stack import NOTHING
from adk_fluent.backends.adk.resources import Resources, callback
from adk_fluent.backends.adk.steps.artifacts import ArtifactAgent
from adk_fluent.backends.adk.steps.composites import (
    Composite,
    FallbackComposite,
    LoopComposite,
    RouteComposite,
    SequentialComposite,
)
from adk_fluent.backends.adk.steps.contest import FirstComposite, RaceComposite
from adk_fluent.backends.adk.steps.fan_out import FanOutComposite
from adk_fluent.backends.adk.steps.gate import GateAgent
from adk_fluent.backends.adk.steps.instructions import compile_instruction
from adk_fluent.backends.adk.steps.leaves import (
    CaptureAgent,
    FluentAgent,
    TapAgent,
    TransferAgent,
    TransformAgent,
)
from adk_fluent.backends.adk.steps.llm_agent import FluentLlmAgent
from adk_fluent.backends.adk.steps.mapping import MapComposite
from adk_fluent.backends.adk.steps.remote_agent import RemoteComposite
from adk_fluent.backends.adk.steps.selecting import SelectingLlm
from adk_fluent.backends.adk.steps.shells import known_as
from adk_fluent.backends.adk.steps.timing import TimeoutComposite
from adk_fluent.backends.adk.tools.making import native_tools
from adk_fluent.backends.adk.tools.scope import Making
from adk_fluent.context.sources import DefaultContext
from adk_fluent.context.spec import Context
from adk_fluent.contracts.checks.resources import missing_resources
from adk_fluent.contracts.refusals import UNSUPPORTED, raise_first
from adk_fluent.errors import CompileError, UnsupportedNodeError
from adk_fluent.ir import execution, nodes
from adk_fluent.ir._generated import AGENT_FIELDS, LOOP_FIELDS, PARALLEL_FIELDS, SEQUENCE_FIELDS
from adk_fluent.ir.base import UNSET, Node, walk
from adk_fluent.ir.graph import Named, resolve_names
from adk_fluent.ir.passage import passages
from adk_fluent.ir.tools import GenerateOptions
from adk_fluent.prompt.spec import PromptSpec
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.answers import answer_schema, answered_fields, is_structured, returned_type

A = TypeVar("A", bound=FluentAgent)


def compile_tree(
    named: Named,
    model_for: ModelFor | None = None,
    helper_for: HelperFor = named_model,
    another_model: AnotherFor | None = None,
    overrides: Resources = NO_RESOURCES,
    remote_for: RemoteFor | None = None,
    *,
    tools_in_threads: bool = True,
) -> BaseAgent:
    """Native agents for a tree with unique names; always fresh objects, since an ADK agent has one parent.

    Raises:
        UnsupportedNodeError: the tree holds a node that ADK cannot run yet.
        CompileError: ADK refuses a field, or a transfer has no target.
    """
    scope = replace(whole(named, model_for, helper_for), another_model=another_model, overrides=overrides)
    scope = replace(scope, remote_for=remote_for, tools_in_threads=tools_in_threads)
    raise_first(missing_resources(named.root, (node.name for node in named.nodes)))
    made = compile_node(named.root, scope)
    if needs_holding(named.nodes) and isinstance(made, FluentAgent | FluentLlmAgent):
        made.hold()
    return made


def compile_node(node: Node, scope: Compilation) -> BaseAgent:
    """The native agent for one node and all below it."""
    if type(node) not in VISITORS:
        raise UnsupportedNodeError(
            f"{node.name!r}: the ADK backend cannot run a {node.kind} node ({type(node).__name__}) yet."
        )
    scope = within(node, scope)
    made = VISITORS[type(node)](node, scope)
    return made if scope.middleware is NOTHING else _with_middleware(made, node, scope)


def _with_middleware(made: BaseAgent, node: Node, scope: Compilation) -> BaseAgent:
    """The native agent, told which middleware acts on it."""
    if isinstance(made, FluentAgent):
        made.attach(scope.middleware)
    elif isinstance(made, FluentLlmAgent):
        assert isinstance(node, nodes.AgentNode)
        another, origin = scope.another_model, scope.named.origins.get(node.name, node.name)
        made.attach(scope.middleware, None if another is None else partial(another, node, origin))
    else:
        return surrounded_by(scope.middleware, made, node)
    return made


_AGENT_FIELDS: Final = frozenset(AGENT_FIELDS)


def _agent(node: Node, scope: Compilation) -> BaseAgent:
    assert isinstance(node, nodes.AgentNode)
    values = adk_fields(node, _AGENT_FIELDS, LlmAgent)
    delivering = None
    if len(values) < len(node.given):  # not all that was said is a field of ADK's
        delivering = _beside(node, scope, values)
    if "output_schema" in values:
        _structure(node, values)
    if (selector := _selector(node, scope)) is not None:
        values["model"] = _selecting(node, selector, scope)
    elif scope.model_for is not None:
        origin = scope.named.origins.get(node.name, node.name)
        model = scope.model_for(node, origin, _model(node, scope))
        values |= {} if model is None else {"model": model}
    if "tools" in values:
        compiled = partial(_inner, scope=scope, caller=node)
        making = Making(node.name, compiled, scope.tools_in_threads, scope.resources)
        values["tools"] = native_tools(node.tools, making)
    if isinstance(options := values.get("generate_content_config"), GenerateOptions):
        values["generate_content_config"] = _generate_config(node, options)
    if delivering is None and _asks_a_model(node.instruction):
        delivering = Delivering(DefaultContext(), scope.named.origins)
    if delivering is not None or "instruction" in values:
        values["instruction"] = compile_instruction(values.get("instruction"), delivering)
    if "global_instruction" in values:
        values["global_instruction"] = compile_instruction(values["global_instruction"])
    if scope.resources:
        for name in nodes.CALLBACK_FIELDS.intersection(values):
            values[name] = [
                callback(function, scope.resources, node.name, private.invocation)
                for function in values[name]
            ]
    made = construct(FluentLlmAgent, node, values)
    made.bind(node)
    if selector is not None:
        made.select(selector)
    if scope.resources or "tools" in values:
        made.hold()
    if delivering is not None:
        delivering.helpers = Helpers(node.name, _helper(made, node, scope))
        made.see(delivering)
    return made


def _model(node: nodes.AgentNode, scope: Compilation) -> str | BaseLlm | None:
    """The model that an agent has: its own, or that of the agent above."""
    return scope.model if node.model is UNSET or not node.model else node.model


def _selector(node: nodes.AgentNode, scope: Compilation) -> nodes.ModelSelectorNode | None:
    """What chooses the model of an agent: its own, or that of the agent above where it has no model."""
    if node.selector is not None:
        return node.selector
    return scope.selector if node.model is UNSET or not node.model else None


def _selecting(node: nodes.AgentNode, selector: nodes.ModelSelectorNode, scope: Compilation) -> SelectingLlm:
    """The candidates of an agent as one model."""
    names = [candidate.model for candidate in selector.candidates]
    if selector.fallback_model is not None:
        names.append(selector.fallback_model)
    origin = scope.named.origins.get(node.name, node.name)
    models: dict[str, str | BaseLlm] = {name: name for name in names}
    if scope.model_for is not None:
        models = {name: scope.model_for(node, origin, name) or name for name in names}
    return SelectingLlm.of(selector, node.name, models)


def _beside(node: nodes.AgentNode, scope: Compilation, values: dict[str, Any]) -> Delivering | None:
    """Put what an agent has beside ADK's fields into `values`; what delivers its context, if it has one."""
    if node.written_fields and answered_fields(node):
        values["output_schema"] = answer_schema(node)
    if node.children:
        model, selector = _model(node, scope), _selector(node, scope)
        inner = replace(scope, in_loop=False, model=model, selector=selector)
        values["sub_agents"] = [compile_node(child, inner) for child in node.children]
    return _context(node, scope, values)


def _structure(node: nodes.AgentNode, values: dict[str, Any]) -> None:
    """Make the answer one that this ADK takes, and leave storing it to us: ADK would store objects."""
    values["output_schema"] = answerable(values["output_schema"], tools=bool(node.tools))
    if is_structured(node) and (node.written_fields or values.get("mode") != "task"):
        values.pop("output_key", None)  # what ends a task only ADK knows


def _asks_a_model(instruction: object) -> bool:
    return isinstance(instruction, PromptSpec) and instruction.needs_model


def _context(node: nodes.AgentNode, scope: Compilation, values: dict[str, Any]) -> Delivering | None:
    """What delivers the context of an agent; `None` where ADK assembles the conversation."""
    spec = node.annotations.context
    if not isinstance(spec, Context) or spec.is_default:
        return None
    delivering = Delivering(spec, scope.named.origins)
    if not delivering.is_untouched:
        values.setdefault("include_contents", "none")
    return delivering


def _helper(agent: FluentLlmAgent, node: nodes.AgentNode, scope: Compilation) -> Choose:
    origin = scope.named.origins.get(node.name, node.name)

    def choose(operation: str, model: str | BaseLlm | None) -> str | BaseLlm:
        return scope.helper_for(node, origin, operation, model) or agent.canonical_model

    return choose


def ask_others(agent: FluentLlmAgent, helper_for: HelperFor) -> None:
    """Let `helper_for` say which models answer what the context and the prompts of a compiled agent ask."""
    if (before := agent.delivering) is None:
        return
    assert isinstance(agent.ir, nodes.AgentNode)
    scope = Compilation(Named(agent.ir, before.origins), helper_for=helper_for)
    delivering = Delivering(before.spec, before.origins)
    delivering.helpers = Helpers(agent.name, _helper(agent, agent.ir, scope))
    agent.instruct(compile_instruction(agent.ir.given.get("instruction"), delivering) or "")
    agent.see(delivering)


def _inner(node: Node, scope: Compilation, caller: nodes.AgentNode) -> tuple[BaseAgent, Named]:
    """The native agent of an expression that is a tool, and its tree: one by itself.

    Its agents have the model of the caller where they name none, as sub-agents would.
    """
    named = resolve_names(node)
    around = whole(named, scope.model_for, scope.helper_for)
    inner = replace(
        around,
        model=_model(caller, scope),
        selector=_selector(caller, scope),
        resources=scope.resources,
        overrides=scope.overrides,
        middleware=scope.middleware,
        another_model=scope.another_model,
        remote_for=scope.remote_for,
        tools_in_threads=scope.tools_in_threads,
    )
    return compile_node(named.root, inner), named


def _generate_config(node: nodes.AgentNode, options: GenerateOptions) -> types.GenerateContentConfig:
    known = types.GenerateContentConfig.model_fields
    for name, _ in options.options:
        if name not in known:
            raise CompileError(
                f"{node.name!r}: the installed google-genai has no option {name!r} for generate()."
                f"{did_you_mean(name, known)} Remove it, or use a newer google-genai."
            )
    try:
        return types.GenerateContentConfig(**dict(options.options))
    except ValidationError as error:
        first = error.errors()[0]
        raise CompileError(f"{node.name!r}: generate({first['loc'][0]}=): {first['msg']}") from error


def _plain(cls: type[A], fields: tuple[str, ...] = ()) -> Callable[[Node, Compilation], BaseAgent]:
    """A visitor for a node whose native agent needs nothing but the node and its children."""
    names = frozenset(fields)

    def visit(node: Node, scope: Compilation) -> BaseAgent:
        values = adk_fields(node, names, cls)
        if "rerun_on_resume" in known_fields(cls):  # where agents can be nodes, ours must run again to go on
            values.setdefault("rerun_on_resume", True)
        inner = replace(scope, in_loop=True) if isinstance(node.runs, execution.Repeated) else scope
        if node.children:
            values["sub_agents"] = [compile_node(child, inner) for child in node.children]
        made = construct(cls, node, values)
        made.bind(node)
        if scope.resources:
            made.provide(scope.resources)
        if isinstance(made, Composite):
            _wire(made, node, inner)
        return made

    return visit


_REMOTE: Final = _plain(RemoteComposite, ("description",))
_ALL: Final = _plain(known_as("ParallelAgent", FanOutComposite), PARALLEL_FIELDS)
_FIRST: Final = _plain(known_as("ParallelAgent", FirstComposite), PARALLEL_FIELDS)


def _parallel(node: Node, scope: Compilation) -> BaseAgent:
    assert isinstance(node, nodes.ParallelNode)
    return (_FIRST if node.merge == "first_complete" else _ALL)(node, scope)


def _remote(node: Node, scope: Compilation) -> BaseAgent:
    assert isinstance(node, nodes.RemoteAgentNode)
    made = cast(RemoteComposite, _REMOTE(node, scope))
    if scope.remote_for is not None:
        origin = scope.named.origins.get(node.name, node.name)
        made.answer_with(scope.remote_for(node, origin))
    return made


def _wire(made: Composite, node: Node, scope: Compilation) -> None:
    """Tell a composite which events of which agents end it."""
    moves = scope.transfers and isinstance(node.runs, execution.STEP_BY_STEP)
    if isinstance(node.runs, execution.STEP_BY_STEP) and (found := passages(node.children)):
        made.pass_on(found)
    made.listen(
        _enders(node, scope),
        scope.transfers.intersection(names_below(node, until=execution.STEP_BY_STEP)) if moves else (),
        may_restart=bool(scope.transfers),
    )
    if (until := _ends(node, scope)) and (strange := native_children(node, until)):
        made.listen_to_strangers(strange, voices_of(scope.named.root))
    if isinstance(made, MapComposite):
        agents = (step for step in walk(node) if isinstance(step, nodes.AgentNode))
        made.parse_answers_of({agent.name: kind for agent in agents if (kind := returned_type(agent))})


def _enders(node: Node, scope: Compilation) -> Iterable[str]:
    """Whose `escalate` ends `node`."""
    until = _ends(node, scope)
    return names_below(node, until) if until else ()


def _ends(node: Node, scope: Compilation) -> tuple[type[execution.Execution], ...]:
    """Which nodes below `node` keep an `escalate` inside them to themselves; none if it ends `node` never.

    It ends the nearest loop, or where there is none the nearest fan-out.
    """
    if isinstance(node.runs, execution.InParallel):
        return () if scope.in_loop else (execution.Repeated, execution.InParallel)
    return (
        (execution.Repeated,)
        if isinstance(node.runs, execution.Repeated)
        or (isinstance(node.runs, execution.InOrder) and scope.in_loop)
        else ()
    )


def _native(node: Node, scope: Compilation) -> BaseAgent:
    assert isinstance(node, nodes.NativeNode | nodes.KnownNativeNode)
    return cloned(node, root=node is scope.named.root)


VISITORS: Final[Mapping[type[Node], Callable[[Node, Compilation], BaseAgent]]] = {
    nodes.AgentNode: _agent,
    nodes.SequenceNode: _plain(known_as("SequentialAgent", SequentialComposite), SEQUENCE_FIELDS),
    nodes.ParallelNode: _parallel,
    nodes.LoopNode: _plain(known_as("LoopAgent", LoopComposite), (*LOOP_FIELDS, "max_iterations")),
    nodes.RouteNode: _plain(RouteComposite),
    nodes.FallbackNode: _plain(FallbackComposite),
    nodes.RaceNode: _plain(RaceComposite),
    nodes.MapOverNode: _plain(MapComposite),
    nodes.TimeoutNode: _plain(TimeoutComposite),
    nodes.TransformNode: _plain(TransformAgent),
    nodes.TapNode: _plain(TapAgent),
    nodes.CaptureNode: _plain(CaptureAgent),
    nodes.GateNode: _plain(GateAgent),
    nodes.TransferNode: _plain(TransferAgent),
    nodes.ArtifactNode: _plain(ArtifactAgent),
    nodes.RemoteAgentNode: _remote,
    nodes.NativeNode: _native,
    nodes.KnownNativeNode: _native,
}
"""How each node type becomes a native agent."""

REFUSED_TYPES: Final = UNSUPPORTED
"""Node types that this backend refuses by name."""
