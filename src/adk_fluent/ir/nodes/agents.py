"""Nodes that ask a model: agents, here and in another process, and what chooses a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, Self, cast

from adk_fluent.ir import execution
from adk_fluent.ir._generated import AGENT_FIELDS, AgentFields
from adk_fluent.ir.annotations import (
    AuthConfig,
    InstructionSpec,
    ModelCandidate,
    RetryConfig,
)
from adk_fluent.ir.base import UNSET, Node, ParentNode, node, walk
from adk_fluent.ir.frozen import kept
from adk_fluent.ir.functions import UNKNOWN_ACCESS, Access, access
from adk_fluent.ir.keys import (
    ArtifactUse,
    KeyRead,
    KeyReads,
    Via,
    declared,
    given_keys,
    in_templates,
    silent,
    uses_in,
)
from adk_fluent.ir.resources import UserCall
from adk_fluent.ir.state_keys import Sightings, StateFieldRef
from adk_fluent.ir.tools import ToolSpec, innermost, pauses, signs_in, tool_access, tool_reads

CALLBACKS: Final[Mapping[str, int]] = {
    "before_agent_callback": 1,
    "before_model_callback": 2,
    "before_tool_callback": 3,
    "after_tool_callback": 4,
    "on_tool_error_callback": 4,
    "on_model_error_callback": 3,
    "after_model_callback": 2,
    "after_agent_callback": 1,
}
"""The functions that ADK calls around an agent's work, in the order it calls them, and how much each gets."""


def _channel(callback: str) -> Via:
    """The channel of what a callback reads: one that runs after the answer finds its output key written."""
    return "ending" if callback == "after_agent_callback" else "callback"


CALLBACK_FIELDS: Final = frozenset(field for field in AGENT_FIELDS if field.endswith("_callback"))


_CALLING: Final = CALLBACK_FIELDS | {"global_instruction"}
"""Fields of an agent that may hold functions, beside its instruction and its tools."""


_MORE: Final = CALLBACK_FIELDS | {
    "annotations",
    "declared_writes",
    "global_instruction",
    "selector",
    "tools",
    "written_fields",
}
"""The fields of an agent through which it may touch the state, beside its instruction and output key."""


def templates_in(instruction: object) -> tuple[str, ...]:
    """The texts of an instruction that every run uses."""
    if isinstance(instruction, InstructionSpec):
        return instruction.templates
    return (instruction,) if isinstance(instruction, str) else ()


@node
class ModelSelectorNode(Node):
    """Chooses the model of an agent at each call; the agent holds it, and it is not a step."""

    kind: ClassVar[str] = "model_selector"
    strategy: Literal["cost_optimized", "quality_optimized", "budget_bounded", "adaptive"] = "cost_optimized"
    candidates: tuple[ModelCandidate, ...] = ()
    budget_key: str | None = None
    fallback_model: str | None = None
    quality_key: str | None = None
    quality_threshold: float | None = None

    def key_reads(self) -> KeyReads:
        yield from declared([candidate.condition for candidate in self.candidates], "predicate")
        if self.budget_key:
            yield KeyRead(self.budget_key, "budget", "optional")
        if self.quality_key:
            yield KeyRead(self.quality_key, "quality", "optional")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent(candidate.condition for candidate in self.candidates), []


@node
class AgentNode(ParentNode, AgentFields):  # pyright: ignore[reportIncompatibleVariableOverride]  # children is a field
    """A model call with its tools: ADK's `LlmAgent`.

    Attributes:
        children: agents it may transfer to (ADK's `sub_agents`).
        declared_writes: keys it writes beside `output_key`.
        written_fields: the schema fields among what it writes; see `adk_fluent.state.answers`.
        read_fields: the schema fields among what it is given through its context.
        produces_type: the model it says it produces (`.produces`); a note for checks only.
        consumes_type: the model it says it consumes (`.consumes`); a note for checks only.
        selector: chooses the model at each call, instead of `model`.
        retries: how often it is asked again when its answer is not of the type that it returns.
    """

    kind: ClassVar[str] = "agent"
    runs: ClassVar[execution.Execution] = execution.ByModel()
    speaks: ClassVar[bool] = True
    declared_writes: tuple[str, ...] = ()
    written_fields: tuple[StateFieldRef, ...] = ()
    read_fields: tuple[StateFieldRef, ...] = ()
    produces_type: type | None = None
    consumes_type: type | None = None
    selector: ModelSelectorNode | None = None
    retries: int = 0

    @property
    def returns(self) -> object | None:
        schema = self.given.get("output_schema")
        return None if schema is UNSET else schema

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts of its instructions that every run uses; their placeholders must be filled."""
        given = self.given
        if type(text := given.get("instruction")) is str and "global_instruction" not in given:
            return (text,)
        return templates_in(self.instruction) + templates_in(self.global_instruction)

    @property
    def functions(self) -> tuple[object, ...]:
        """The functions of the user that run inside this agent and can reach the state."""
        providers = tuple(x for x in (self.instruction, self.global_instruction) if callable(x))
        tools = (part for tool in self.tools for part in innermost(tool) if not isinstance(part, ToolSpec))
        return (*providers, *self.callbacks, *tools)

    @property
    def callbacks(self) -> tuple[Callable[..., Any], ...]:
        """Its callbacks of all kinds."""
        given = self.given
        if CALLBACK_FIELDS.isdisjoint(given):
            return ()
        return tuple(fn for field in AGENT_FIELDS if field in CALLBACK_FIELDS for fn in given.get(field, ()))

    def key_reads(self) -> KeyReads:
        yield from in_templates(self.templates, "template")
        given = self.given
        if _MORE.isdisjoint(given) and type(given.get("instruction", "")) is str:
            return  # most agents read nothing else
        shown = None if self.annotations.adopted is None else "lenient"
        for provider in self._instructions:
            if isinstance(provider, InstructionSpec):
                yield from provider.key_reads()
            elif callable(provider):
                yield from declared([provider], "function", shown=shown)
        if self.annotations.context is not None:
            yield from self.annotations.context.key_reads()
        for field in CALLBACKS:
            yield from declared(given.get(field, ()), _channel(field), shown=shown)
        adopted = self.annotations.adopted
        for tool in self.tools:
            bodies = () if adopted is None else cast("tuple[Node, ...]", adopted.bodies(tool))
            yield from tool_reads(tool, self.touched(tool), bodies)
        if self.selector is not None:
            yield from self.selector.key_reads()
        for what, function, seen in self.sighted():
            if access(function) == UNKNOWN_ACCESS:
                yield from (KeyRead(one.key, what, one.softened, where=one.where) for one in seen.reads)

    def calls(self) -> Iterable[UserCall]:
        given = self.given
        if _CALLING.isdisjoint(given) and type(given.get("instruction", "")) is str:
            return ()  # as most agents
        return self._calls()

    def _calls(self) -> Iterator[UserCall]:
        given = self.given
        for provider in self._instructions:
            if callable(provider) and not isinstance(provider, InstructionSpec):
                yield UserCall(provider, "its instruction", injected=False)
        if not CALLBACK_FIELDS.isdisjoint(given):
            for field, told in CALLBACKS.items():
                what = f"its {field.removesuffix('_callback')}()"
                yield from (UserCall(fn, what, told) for fn in given.get(field, ()))

    def artifact_uses(self) -> Iterator[ArtifactUse]:
        yield from uses_in(self.templates)
        if self.annotations.context is not None:
            yield from self.annotations.context.artifacts
        for tool in self.given.get("tools", ()):
            yield from getattr(tool, "artifact_uses", ())

    @property
    def key_writes(self) -> tuple[str, ...]:
        keys = [self.output_key] if isinstance(self.output_key, str) else []
        if _MORE.isdisjoint(self.given):
            return tuple(keys)  # most agents write nothing else
        keys += self.declared_writes
        keys += [field.key for field in self.written_fields]
        if self.annotations.context is not None:
            keys += sorted(self.annotations.context.access.writes)
        for tool in self.tools:
            keys += sorted(self.touched(tool).writes)
        keys += sorted(access(*self.callbacks).writes)
        keys += [one.key for _, _, seen in self.sighted() for one in seen.writes]
        return tuple(dict.fromkeys(keys))

    def undeclared(self) -> tuple[list[object], list[object]]:
        given = self.given
        if _MORE.isdisjoint(given) and type(given.get("instruction", "")) is str:
            return [], []  # as most agents; asked for each of them several times
        readers: list[object] = []
        writers: list[object] = []
        if (spec := self.annotations.context) is not None and not spec.access.reads_known:
            readers.append(spec)
        for provider in self._instructions:
            unknown = isinstance(provider, InstructionSpec) and not provider.access.reads_known
            if unknown or (callable(provider) and not access(provider).reads_known):
                readers.append(provider)
        for tool in self.tools:
            touched = self.touched(tool)
            readers += [tool] * (not touched.reads_known)
            writers += [tool] * (not touched.writes_known)
        callbacks = [callback for callback in self.callbacks if not access(callback).writes_known]
        return [*readers, *callbacks], [*writers, *callbacks]

    def touched(self, tool: object) -> Access:
        """The state keys that a tool uses; for an adopted agent, also those of agents inside the tool."""
        adopted = self.annotations.adopted
        found = adopted.inside(tool) if adopted is not None else None
        return tool_access(tool) if found is None else found

    def sighted(self) -> Iterator[tuple[Via, object, Sightings]]:
        """The uses of state in the functions of an adopted agent: the channel, the function and its uses."""
        if self.annotations.adopted is None:
            return
        from adk_fluent.ir.source import sightings  # only what is adopted needs it

        for provider in self._instructions:
            if callable(provider) and not isinstance(provider, InstructionSpec):
                yield "function", provider, sightings(provider)
        for field in CALLBACKS:
            for callback in self.given.get(field, ()):
                yield _channel(field), callback, sightings(callback)
        for tool in self.tools:
            if self.touched(tool) == UNKNOWN_ACCESS:
                yield "tool", tool, sightings(getattr(tool, "func", getattr(tool, "function", tool)))

    @property
    def may_pause(self) -> bool:
        return any(map(pauses, self.tools))

    @property
    def may_turn_to_ask(self) -> bool:
        return any(map(signs_in, self.tools))

    @property
    def _instructions(self) -> tuple[object, object]:
        return self.given.get("instruction"), self.given.get("global_instruction")


def agent_of(node: Node) -> AgentNode | None:
    """The agent whose model a node itself asks, with its tools, instruction and settings; else `None`."""
    return node if isinstance(node, AgentNode) else None


def agents_in(root: Node) -> Iterator[AgentNode]:
    """The agents of a tree whose models are asked, parents before children, in order."""
    return (agent for found in walk(root) if (agent := agent_of(found)) is not None)


@node
class RemoteAgentNode(Node):
    """An agent that another process serves over A2A.

    Attributes:
        endpoint: URL of its agent card, or of the service.
        description: the purpose of the agent.
        timeout_seconds: the longest time of one call, in seconds.
        max_bytes: the largest answer, in bytes.
        fallback: the node that runs if the remote agent fails.
        declared_reads: state keys that are sent with a call.
        output_key: the state key of its answer.
        allow_http: True if it may be called without encryption on another machine.
        public_only: True if its address must be public, because an agent card named it.
        raises: True if its failure ends the run; if False, an event reports it and the run continues.
    """

    kind: ClassVar[str] = "remote"
    speaks: ClassVar[bool] = True
    endpoint: str
    description: str = ""
    capabilities: tuple[str, ...] = ()
    input_schema: type | None = None
    output_schema: type | None = None
    auth: AuthConfig | None = None
    timeout_seconds: float = 30.0
    max_bytes: int = 64 * 1024 * 1024
    retry: RetryConfig | None = None
    fallback: Node | None = None
    declared_reads: tuple[str, ...] = ()
    output_key: str | None = None
    allow_http: bool = False
    public_only: bool = False
    raises: bool = True

    @kept
    def runs(self) -> execution.OnFailure:  # pyright: ignore[reportIncompatibleVariableOverride]  # as a property
        return execution.OnFailure(self.output_key, self.output_schema or str)

    @property
    def returns(self) -> object | None:
        return self.output_schema

    @property
    def may_turn_to_ask(self) -> bool:
        return True

    @property
    def children(self) -> tuple[Node, ...]:
        return () if self.fallback is None else (self.fallback,)

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(fallback=children[0] if children else None)

    @property
    def sent_names(self) -> frozenset[str]:
        """The names of the keys that are sent with a call, without their scope prefixes."""
        return frozenset(key.rpartition(":")[2] for key in self.declared_reads)

    @property
    def unsent_inputs(self) -> tuple[str, ...]:
        fields: Mapping[str, Any] = getattr(self.input_schema, "model_fields", {})
        return tuple(
            name for name, field in fields.items() if field.is_required() and name not in self.sent_names
        )

    def key_reads(self) -> KeyReads:
        return (KeyRead(key, "remote") for key in self.declared_reads)

    @property
    def key_writes(self) -> tuple[str, ...]:
        return given_keys(self.output_key)
