"""What a subtree may do to the state, wherever a run takes it: for parallel branches and failed attempts."""

from __future__ import annotations

from typing import Final, get_args

from adk_fluent.analysis.keys.functions import may_pause, tool_access, unknown_functions
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.siblings import Effects
from adk_fluent.ir.base import UNSET, Node
from adk_fluent.ir.functions import access
from adk_fluent.ir.nodes import CALLBACK_FIELDS, AgentNode, TransformNode
from adk_fluent.state.effects import Keeps, all_effects


def effects_of(step: Step) -> Effects:
    """What the step and all inside it may do, computed once per step."""
    if step.effects is None:
        node = step.node
        if type(node) is AgentNode and _BESIDE.isdisjoint(node.given) and not step.children:
            step.effects = Effects(dict.fromkeys(writes_of(step), step))  # as of most steps
            return step.effects
        step.effects = Effects()  # a transfer may lead back here
        writes: dict[str, Step] = {}
        removes: dict[str, Step] = {}
        clears = unknown = pauses = None
        for child in (*step.children, *([step.target] if step.target else ())):
            inner = effects_of(child)
            writes |= inner.writes
            removes |= inner.removes
            clears, unknown = clears or inner.clears, unknown or inner.unknown
            pauses = pauses or inner.pauses
        if may_pause(node):
            pauses = step
        if isinstance(node, TransformNode):
            for effect in all_effects(node):
                removes |= dict.fromkeys(effect.may_remove, step)
                if isinstance(effect, Keeps):
                    clears = step
            if not node.access.writes_known:
                unknown = step
        elif isinstance(node, AgentNode):
            removes |= dict.fromkeys(nullable(node), step)
            if unknown_functions(node)[1]:
                unknown = step
        writes |= dict.fromkeys(writes_of(step), step)
        step.effects = Effects(writes, removes, clears, unknown, pauses)
    return step.effects


def writes_of(step: Step) -> tuple[str, ...]:
    """The keys that the step itself is known to write, in a stable order; computed once per step."""
    if step.writes is None:
        step.writes = _writes(step.node)
    return step.writes


_BESIDE: Final = CALLBACK_FIELDS | {
    "annotations",
    "declared_writes",
    "output_schema",
    "tools",
    "written_fields",
}
"""The fields of an agent by which it may write more than its output key, or leave that without a value."""


def _writes(node: Node) -> tuple[str, ...]:
    if not isinstance(node, AgentNode):
        return tuple(sorted(node.access.writes))
    keys = [node.output_key] if isinstance(node.output_key, str) else []
    if _BESIDE.isdisjoint(node.given):
        return tuple(keys)
    keys += node.declared_writes
    keys += [field.key for field in node.written_fields]
    if node.annotations.context is not None:
        keys += sorted(node.annotations.context.access.writes)
    for tool in node.tools:
        keys += sorted(tool_access(tool).writes)
    keys += sorted(access(*node.callbacks).writes)
    return tuple(dict.fromkeys(keys))


def nullable(node: AgentNode) -> tuple[str, ...]:
    """The keys that an agent's answer may leave without a value, since their type allows `None`."""
    given = node.given
    if "written_fields" not in given and "output_schema" not in given:
        return ()
    fields = node.written_fields
    if len(fields) == 1 and fields[0].is_text:
        return ()
    if fields or node.output_schema is UNSET:
        return tuple(field.key for field in fields if field.allows_none)
    if type(None) not in get_args(node.output_schema):
        return ()
    return (node.output_key,) if isinstance(node.output_key, str) else ()
