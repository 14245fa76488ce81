"""Native agents that stand in a tree: a clone of each runs, since ADK gives an agent one parent."""

from __future__ import annotations

from typing import Any, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.middleware.stack import Stack, surround_all
from adk_fluent.errors import CompileError
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import KnownNativeNode, NativeNode


def cloned(node: NativeNode | KnownNativeNode, *, root: bool) -> BaseAgent:
    """What runs for a native agent: a clone with the same callbacks, under the name it has in the tree.

    Args:
        root: whether nothing is around it; only there can ADK run a workflow.

    Raises:
        CompileError: its class cannot be cloned, or loses its private state, or it is a workflow inside
            something.
    """
    value: Any = node.native.value
    kind = type(value).__name__
    if not isinstance(value, BaseAgent):
        if not root:
            raise CompileError(
                f"{node.native.name!r} is a {kind}, which ADK runs only by itself, not as a step of "
                "something else."
            )
        return cast(BaseAgent, value)
    try:
        made = value.clone()
    except Exception as error:
        raise CompileError(
            f"{value.name!r} is a {kind}, which cannot be cloned ({type(error).__name__}: {error}). ADK "
            f"gives an agent one parent, so a clone runs as a step: give {kind} a clone() that works."
        ) from error
    if lost := _lost(value, made):
        raise CompileError(
            f"{value.name!r} is a {kind} with private state that its clone() does not keep: "
            f"{', '.join(lost)}. Make that fields, or let clone() hand it on."
        )
    _rename(node, made)
    return made


def surrounded_by(stack: Stack, made: BaseAgent, node: Node) -> BaseAgent:
    """A native agent on which middleware acts, and on what it runs without having it below itself.

    Args:
        node: what it was made for.
    """
    if not isinstance(cast(object, made), BaseAgent):
        made = made.model_copy()  # a workflow, which is the user's own
        object.__setattr__(made, "_middleware", stack)
        object.__setattr__(made, "ir", node)
        return made
    object.__setattr__(made, "_middleware", stack)

    def note(callback_context: CallbackContext) -> None:
        surround_all(private.invocation(callback_context), stack)

    callbacks: Any = made.before_agent_callback or []
    made.before_agent_callback = [note, *(callbacks if isinstance(callbacks, list) else [callbacks])]
    return made


def _lost(value: BaseAgent, made: BaseAgent) -> list[str]:
    """The private attributes that a clone has not got from the agent that it is a clone of."""
    before, after = value.__pydantic_private__ or {}, made.__pydantic_private__ or {}
    return [name for name, held in before.items() if after.get(name) is not held]


def _rename(node: Node, made: BaseAgent) -> None:
    """Give a clone, and the agents in it, the names that the tree gave to them."""
    if isinstance(node, KnownNativeNode):
        _rename(node.body, made)
        return
    if made.name != node.name:
        made.name = node.name
    if not isinstance(node, NativeNode):  # nobody has looked into that
        for child, agent in zip(node.children, made.sub_agents, strict=True):
            _rename(child, agent)
