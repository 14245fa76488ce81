"""What to tell when an agent's instruction, or a gate's message, needs state that is not there."""

from __future__ import annotations

from functools import lru_cache

from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.matching import StateView, lost
from adk_fluent.ir.nodes import AgentNode, GateNode
from adk_fluent.ir.template import about_braces, required_keys
from adk_fluent.spelling import did_you_mean


@lru_cache(maxsize=4096)
@lru_cache(maxsize=1024)
def needed(templates: tuple[str, ...]) -> tuple[str, ...]:
    """The state keys that instructions cannot be rendered without, in order."""
    return tuple(sorted({key for template in templates for key in required_keys(template)}))


def needs(step: str, kind: str, thing: str) -> str:
    """`Agent 'a' needs state key 'k' for its instruction`; a gate needs it for its message."""
    who, what = ("Gate", "message") if kind == "gate" else ("Agent", "instruction")
    return f"{who} {step!r} needs {thing} for its {what}"


def explain(step: str, kind: str, key: str, state: StateView, root: Node) -> str:
    """Why a step cannot run without `key`, and what to do about it.

    Args:
        kind: `agent` or `gate`.
        root: the tree that the step runs in, in which something may write the key.
    """
    start = f"{needs(step, kind, f'state key {key!r}')}, and it is not set."
    writers = [node.name for node in walk(root) if key in node.writes_keys]
    listed = ", ".join(map(repr, writers))
    if taken := lost(state, key):
        return start + f" It is written by {listed}." * bool(writers) + taken
    if writers:
        return start + f" It is written by {listed}, which did not write it before {step!r} ran."
    known = {name for node in walk(root) for name in node.writes_keys}
    known |= {name for name, value in state.items() if value is not None}
    return (
        start + f" Nothing in this pipeline writes it.{did_you_mean(key, known)} Add .writes({key!r}) to an "
        f"earlier agent, pass state={{{key!r}: ...}}, or write {{{key}?}} if it may be missing."
        + _about_braces(step, key, root)
    )


def _about_braces(step: str, key: str, root: Node) -> str:
    """How to write braces that stand for themselves."""
    nodes = (node for node in walk(root) if isinstance(node, AgentNode | GateNode) and node.name == step)
    return " " + about_braces(key, [text for node in nodes for text in node.templates])
