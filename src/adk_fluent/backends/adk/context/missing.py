"""What to tell when an agent's instruction, or a gate's message, needs state that is not there."""

from __future__ import annotations

from functools import lru_cache

from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.nodes import TransformNode
from adk_fluent.ir.predicates import StateView, is_held, lost
from adk_fluent.ir.state_keys import is_session_scoped
from adk_fluent.ir.template import about_braces, required_keys
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.effects import Keeps, all_effects


@lru_cache(maxsize=4096)
def needed(templates: tuple[str, ...]) -> tuple[str, ...]:
    """The state keys that instructions cannot be rendered without, in order."""
    return tuple(sorted({key for template in templates for key in required_keys(template)}))


def is_missing(key: str, state: StateView, root: Node) -> bool:
    """Whether `{key}` has nothing to stand for.

    As in ADK, a key that holds `None` stands for empty text. If a step of the tree removes the key, it is
    missing nevertheless: a removed key holds `None`, too, since no event can take a key out of a session.
    """
    if state.get(key) is not None:
        return False
    return not is_held(state, key) or may_remove(root, key)


@lru_cache(maxsize=1024)
def may_remove(root: Node, key: str) -> bool:
    """Whether a step of the tree may remove a key."""
    # What operations on artifacts do to the state is to write it.
    effects = (found for node in walk(root) if isinstance(node, TransformNode) for found in all_effects(node))
    return any(
        key in effect.may_remove
        or (isinstance(effect, Keeps) and key not in effect.keys and is_session_scoped(key))
        for effect in effects
    )


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
    nodes = (node for node in walk(root) if node.name == step)
    return " " + about_braces(key, [text for node in nodes for text in node.templates])
