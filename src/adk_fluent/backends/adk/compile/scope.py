"""What a node is compiled within, what of a tree that has to know, and the native object of one node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from google.adk.models import BaseLlm
from pydantic import BaseModel, ValidationError

from adk_fluent.backends.adk.context.helper_models import HelperFor, named_model
from adk_fluent.backends.adk.middleware.stack import NOTHING, Stack
from adk_fluent.backends.adk.resources import Resources
from adk_fluent.backends.adk.steps.remote_observation import Answering
from adk_fluent.contracts.refusals import raise_first
from adk_fluent.contracts.tree_rules import tree_refusals
from adk_fluent.errors import CompileError
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import Execution
from adk_fluent.ir.graph import Named, transfers
from adk_fluent.ir.nodes import (
    AgentNode,
    ModelSelectorNode,
    RemoteAgentNode,
    agent_of,
)
from adk_fluent.ir.tools import agents_inside

ModelFor = Callable[[AgentNode, str, "str | BaseLlm | None"], "str | BaseLlm | None"]
"""Which model an agent gets: `(node, name the user gave, model it has) -> model`.

The model it has is its own or that of the agent above; `None` where there is neither, so that ADK's default
counts. To give `None` leaves it that one.
"""

AnotherFor = Callable[[AgentNode, str, "str | BaseLlm"], "str | BaseLlm"]
"""What is asked in place of a model that a middleware names: `(node, name the user gave, model)`."""

RemoteFor = Callable[[RemoteAgentNode, str], "BaseLlm | Answering | None"]
"""What answers in place of another process, for tests: `(node, name the user gave) -> model`."""

NO_RESOURCES: Final[Resources] = MappingProxyType({})
N = TypeVar("N", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Compilation:
    """What a node is compiled within.

    Attributes:
        transfers: names of the transfer steps of the whole tree.
        in_loop: whether an `escalate` can end something around the node.
        resources: what functions are given by name.
        overrides: what they are given in the place of some of these, whatever the tree says.
        model: the model of the agent above, which an agent without one has.
        middleware: what acts on the node.
        another_model: what is asked in place of a model that a middleware names.
        selector: what chooses the model of the agent above, where that is chosen at each call.
        remote_for: what answers in place of other processes; by default they do.
        tools_in_threads: whether tools that are not async are called in threads.
    """

    named: Named
    model_for: ModelFor | None = None
    transfers: frozenset[str] = frozenset()
    helper_for: HelperFor = named_model
    in_loop: bool = False
    resources: Resources = field(default_factory=dict[str, object])
    overrides: Resources = field(default_factory=dict[str, object])
    model: str | BaseLlm | None = None
    middleware: Stack = NOTHING
    another_model: AnotherFor | None = None
    selector: ModelSelectorNode | None = None
    remote_for: RemoteFor | None = None
    tools_in_threads: bool = True


def whole(
    named: Named, model_for: ModelFor | None = None, helper_for: HelperFor = named_model
) -> Compilation:
    """The scope of a whole tree, which is checked for what cannot run on any target.

    Raises:
        ExpressionError: a composite is empty, or a transfer could only run for ever.
        CompileError: a transfer has no target.
    """
    raise_first(tree_refusals(named.nodes))
    handing = frozenset(node.name for node, _ in transfers(named.nodes))
    return Compilation(named, model_for, handing, helper_for)


def within(node: Node, scope: Compilation) -> Compilation:
    """The scope inside a node: with what it injects, and the middleware that acts on it."""
    if node.annotations.middleware:
        scope = replace(scope, middleware=scope.middleware.around(node.annotations.middleware))
    if not (given := node.annotations.resources):
        return scope
    resources = {**scope.resources, **dict(given)}
    taken = {name: value for name, value in scope.overrides.items() if name in resources}
    return replace(scope, resources={**resources, **taken})


# --- questions to a tree ---------------------------------------------------------------------------


def needs_holding(nodes: Iterable[Node]) -> bool:
    """Whether a run of these nodes has what must be ended with it: resources, and a thread for its tools."""
    return any(node.annotations.resources or "tools" in node.given for node in nodes)


def injected_names(nodes: Iterable[Node]) -> frozenset[str]:
    """The names of the resources that functions anywhere in a tree, of these nodes, are given."""
    found = set[str]()
    for node in nodes:
        if node.annotations is NO_ANNOTATIONS and "tools" not in node.given:
            continue  # as most
        found.update(name for name, _ in node.annotations.resources)
        if (agent := agent_of(node)) is not None and "tools" in agent.given:
            for tree in agents_inside(agent.tools):
                found |= injected_names(walk(tree))
    return frozenset(found)


def _nodes(root: Node, until: tuple[type[Execution], ...]) -> Iterable[Node]:
    """The nodes below `root`, not looking inside one that runs its children in such a way."""
    for child in root.children:
        yield child
        if not isinstance(child.runs, until):
            yield from _nodes(child, until)


def names_below(root: Node, until: tuple[type[Execution], ...]) -> Iterable[str]:
    """The names of the nodes below `root`, not looking inside one that runs its children in such a way."""
    return (name for node in _nodes(root, until) for name in node.voices)


def voices_of(root: Node) -> Iterable[str]:
    """The names of all that is in a tree."""
    return (*root.voices, *names_below(root, until=()))


def native_children(root: Node, until: tuple[type[Execution], ...]) -> Iterable[str]:
    """The children of `root` that run a native agent, not inside one that runs its children in such a way."""

    def runs_one(node: Node) -> bool:
        inside = () if isinstance(node.runs, until) else node.children
        return node.as_given is not None or any(map(runs_one, inside))

    return [child.name for child in root.children if runs_one(child)]


def can_pause(root: Node) -> bool:
    """Whether a run of the tree may stop to wait for a person."""
    return any(
        node.may_pause
        or node.may_turn_to_ask
        or any(getattr(each, "may_pause", False) for each in node.annotations.middleware)
        for node in walk(root)
    )


# --- fields ---------------------------------------------------------------------------------------


@cache
def known_fields(cls: type[BaseModel]) -> frozenset[str]:
    """The fields that the installed ADK has; asking pydantic each time would cost more."""
    return frozenset(cls.model_fields)


def adk_fields(node: Node, names: Collection[str], cls: type[BaseModel]) -> dict[str, Any]:
    """The name of a node and the ADK fields that are set on it, as ADK's constructor takes them."""
    known = known_fields(cls)
    values: dict[str, Any] = {"name": node.name}
    for name, value in node.given.items():
        if name not in names:
            continue
        if name not in known:
            raise CompileError(
                f"{node.name!r}: the installed google-adk has no field {name!r} on {cls.__name__}. "
                "Remove the call that sets it, or use a newer google-adk."
            )
        values[name] = [*value] if isinstance(value, tuple) else value
    return values


@cache
def _validator(cls: type[N]) -> Callable[[Mapping[str, Any]], N]:
    """What `cls.model_validate` leads to; for a hundred agents the way there takes as long as a small one."""
    return cls.__pydantic_validator__.validate_python


def construct(cls: type[N], node: Node, values: Mapping[str, Any]) -> N:
    """The native object for `node`: `cls` with these values.

    Raises:
        CompileError: ADK refuses it.
    """
    try:
        return _validator(cls)(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the agent"
        raise CompileError(f"{node.name!r}: ADK refuses {where}: {first['msg']}") from error
    except ValueError as error:
        raise CompileError(f"{node.name!r}: ADK refuses it: {error}") from error
