"""What each kind of step reads from state, and how much it minds when a key is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, cast

from adk_fluent.analysis.keys.functions import tool_access
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import ABSENT, LOST, PRESENT, STATUS, UNKNOWN, Fact, some
from adk_fluent.context.spec import Context
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import NO_ACCESS, Access, access
from adk_fluent.ir.matching import Match
from adk_fluent.ir.nodes import (
    CALLBACK_FIELDS,
    AgentNode,
    ArtifactNode,
    CaptureNode,
    FallbackNode,
    GateNode,
    LoopNode,
    MapOverNode,
    ModelSelectorNode,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
    TapNode,
    TimeoutNode,
    TransferNode,
    TransformNode,
)
from adk_fluent.ir.template import placeholders
from adk_fluent.prompt.spec import FromState, PromptSpec, Rewrite, When
from adk_fluent.state.effects import Level
from adk_fluent.state.effects import reads_of as transform_reads

Via = Literal[
    "template", "message", "prompt", "context", "callback", "tool", "route", "until", "predicate", "list",
    "operation", "removal", "function", "remote", "artifact", "budget", "quality",
]  # fmt: skip
"""The channel a key is read through; a removal names it without looking at its value."""

Status = Literal["must", "may", "never", "unknown"]


class Read:
    """One key that one step reads, with what is known about it there.

    Attributes:
        step: who reads.
        key: the state key, scope prefix included.
        via: through what.
        level: what it means when the key is missing.
        type: the type that the reader expects, `None` if any will do.
        first: what is known the first time the step runs.
        mask: what is known over all times.
        doubt: what is known at the time when the key is most likely missing.
        texts: agents whose whole answer may be what is read.
        facts: what is known at each time the step runs.
        lost: a step at which the run may stop for a person, and lose the key, before this one runs.
    """

    __slots__ = ("doubt", "facts", "first", "key", "level", "lost", "mask", "step", "texts", "type", "via")

    def __init__(
        self, step: Step, key: str, via: Via, level: Level = "required", type: object = None
    ) -> None:
        self.step: Step = step
        self.key: str = key
        self.via: Via = via
        self.level: Level = level
        self.type: object = type
        self.first: Fact | None = None
        self.mask: int = 0
        self.doubt: Fact | None = None
        self.texts: tuple[Step, ...] = ()
        self.facts: list[Fact] = []
        self.lost: Step | None = None

    def meets(self, fact: Fact) -> None:
        """Note what is known about the key at one time the step runs."""
        if self.first is None:
            self.first = self.doubt = fact
        elif fact.mask & ABSENT and not cast(Fact, self.doubt).mask & ABSENT:
            self.doubt = fact
        self.facts.append(fact)
        if fact.mask & LOST and self.lost is None:
            self.lost = fact.lost
        self.mask |= fact.mask & STATUS
        if fact.text_of is not self.texts:
            self.texts = some(self.texts, fact.text_of)

    @property
    def is_shown(self) -> bool:
        """Whether a model is shown the value."""
        return self.via in ("template", "prompt", "context", "remote")

    @property
    def reached(self) -> bool:
        """Whether the step can run at all."""
        return self.first is not None

    @property
    def status(self) -> Status:
        """Whether the key is there when the step runs."""
        if self.mask == PRESENT:
            return "must"
        if self.mask == ABSENT:
            return "never"
        return "unknown" if self.mask & UNKNOWN else "may"

    @property
    def only_first_missing(self) -> bool:
        """Whether the key is missing the first time round a loop and there later."""
        return self.first is not None and self.first.mask & STATUS == ABSENT and bool(self.mask & PRESENT)


def reads_of(step: Step) -> tuple[Read, ...]:
    """Everything that a step itself reads, computed once."""
    if step.reads is None:
        found = _READERS[type(step.node)](step)
        step.reads = tuple({(read.key, read.via): read for read in found}.values())
    return step.reads


def _nothing(step: Step) -> Iterator[Read]:
    return iter(())


def _agent(step: Step) -> Iterator[Read]:
    node: AgentNode = step.node
    yield from _templates(step, "template")
    given = node.given
    if _MORE.isdisjoint(given) and type(given.get("instruction", "")) is str:
        return  # most agents read nothing else
    for field in ("instruction", "global_instruction"):
        prompt = given.get(field)
        if isinstance(prompt, PromptSpec):
            yield from _prompt(step, prompt)
        elif callable(prompt):
            yield from _declared(step, "function", [prompt])
    if isinstance(spec := node.annotations.context, Context):
        yield from _context(step, spec)
    for field in CALLBACKS:
        if field in given:
            yield from _declared(step, "callback", given[field])
    for tool in node.tools:
        for key in tool_access(tool).reads:
            yield Read(step, key, "tool")
    if node.selector is not None:
        yield from _selector(step, node.selector)


def _templates(step: Step, via: Via) -> Iterator[Read]:
    for text in step.node.templates:
        for placeholder in placeholders(text):
            if not placeholder.artifact:
                yield Read(step, placeholder.key, via, "optional" if placeholder.optional else "required")


_MORE: Final = CALLBACK_FIELDS | {"annotations", "global_instruction", "selector", "tools"}
"""The fields of an agent through which it may read, beside its instruction."""


def _prompt(step: Step, prompt: PromptSpec, *, certain: bool = True) -> Iterator[Read]:
    """What the parts of a prompt read beside its templates; under a condition a missing key may be meant."""
    for part in prompt.parts:
        if isinstance(part, FromState):
            level: Level = "required" if certain else "tolerant"
            yield from (Read(step, key, "prompt", level) for key in part.keys)
        elif isinstance(part, When):
            yield from _declared(step, "function", [part.test], "tolerant")
            for text in part.then.templates:
                for placeholder in placeholders(text):
                    if not placeholder.artifact:
                        kind: Level = "optional" if placeholder.optional else "tolerant"
                        yield Read(step, placeholder.key, "prompt", kind)
            yield from _prompt(step, part.then, certain=False)
        elif isinstance(part, Rewrite):
            yield from _prompt(step, part.source, certain=certain)


def _context(step: Step, spec: Context, *, certain: bool = True) -> Iterator[Read]:
    """What a context spec reads; under a condition a missing key may be meant."""
    if spec.op == "from_state":
        for key in spec.param["keys"]:
            yield Read(step, key, "context", "required" if certain else "tolerant")
    elif spec.op == "template":
        for placeholder in placeholders(spec.param["text"]):
            if not placeholder.artifact:
                needed: Level = "required" if certain else "tolerant"
                yield Read(step, placeholder.key, "context", "optional" if placeholder.optional else needed)
    else:
        level: Level = "optional" if spec.op in ("notes", "write_notes") else "tolerant"
        own = spec.touches.reads.difference(*(part.access.reads for part in spec.parts))
        via: Via = (
            "context" if spec.op == "notes" else "function"
        )  # the others look at it, and do not show it
        yield from (Read(step, key, via, level) for key in sorted(own))
    for part in spec.parts:
        yield from _context(step, part, certain=certain and spec.op != "when")


CALLBACKS: Final = (
    "before_agent_callback",
    "before_model_callback",
    "before_tool_callback",
    "after_tool_callback",
    "on_tool_error_callback",
    "on_model_error_callback",
    "after_model_callback",
    "after_agent_callback",
)
"""The functions that ADK calls around an agent's work, in the order it calls them."""


def _selector(step: Step, selector: ModelSelectorNode) -> Iterator[Read]:
    yield from _declared(step, "predicate", [candidate.condition for candidate in selector.candidates])
    if selector.budget_key:
        yield Read(step, selector.budget_key, "budget", "optional")
    if selector.quality_key:
        yield Read(step, selector.quality_key, "quality", "optional")


def _declared(step: Step, via: Via, functions: Iterable[object], level: Level = "required") -> Iterator[Read]:
    """The keys that functions declare, and those of comparisons."""
    for function in functions:
        for key in sorted(_facts(function).reads):
            yield Read(step, key, via, level)


def _facts(function: object) -> Access:
    return access(function) if function is not None else NO_ACCESS


def _route(step: Step) -> Iterator[Read]:
    node: RouteNode = step.node
    tests = [test for test, _ in node.rules]
    compared = [test for test in tests if isinstance(test, Match)]
    for key in dict.fromkeys(([node.key] if node.key else []) + [test.key for test in compared]):
        mine = [test for test in compared if test.key == key]
        tolerant = bool(mine) and all(test.op == "ne" for test in mine)
        yield Read(step, key, "route", "tolerant" if tolerant else "required")
    yield from _declared(step, "predicate", [test for test in tests if not isinstance(test, Match)])


def _loop(step: Step) -> Iterator[Read]:
    return _declared(step, "until", [step.node.until], "tolerant")


def _gate(step: Step) -> Iterator[Read]:
    yield from _declared(step, "predicate", [step.node.predicate])
    yield from _templates(step, "message")


def _transfer(step: Step) -> Iterator[Read]:
    return _declared(step, "predicate", [step.node.condition])


def _tap(step: Step) -> Iterator[Read]:
    return _declared(step, "function", [step.node.fn])


def _map(step: Step) -> Iterator[Read]:
    yield Read(step, step.node.list_key, "list", type=list)


def _remote(step: Step) -> Iterator[Read]:
    return (Read(step, key, "remote") for key in step.node.declared_reads)


def _artifact(step: Step) -> Iterator[Read]:
    return (Read(step, key, "artifact") for key in sorted(step.node.access.reads))


def _transform(step: Step) -> Iterator[Read]:
    return (
        Read(step, read.key, read.via, read.level)
        for read in transform_reads(step.node)
        if read.via != "own"  # nobody is to have written it
    )


_READERS: Final[Mapping[type[Node], Callable[[Step], Iterator[Read]]]] = {
    AgentNode: _agent,
    SequenceNode: _nothing,
    ParallelNode: _nothing,
    LoopNode: _loop,
    TransformNode: _transform,
    RouteNode: _route,
    FallbackNode: _nothing,
    RaceNode: _nothing,
    GateNode: _gate,
    TapNode: _tap,
    MapOverNode: _map,
    TimeoutNode: _nothing,
    TransferNode: _transfer,
    CaptureNode: _nothing,
    ModelSelectorNode: _nothing,
    RemoteAgentNode: _remote,
    ArtifactNode: _artifact,
}
