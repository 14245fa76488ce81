"""The graph of ADK 2's `Workflow` as a tree: sequences, fan-outs with a join, routes and loops.

ADK runs the graph itself; the tree is what checks, pictures and estimates look at.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, Protocol, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent

from adk_fluent.ir.annotations import Adopted, Annotations
from adk_fluent.ir.base import Node
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access, function_name
from adk_fluent.ir.nodes import NO_LIMIT, LoopNode, ParallelNode, RouteNode, SequenceNode, TransformNode
from adk_fluent.ir.source import sightings
from adk_fluent.ir.state_keys import Sightings

_DEFAULT: Final = "__DEFAULT__"


class NodeReader(Protocol):
    """Reads the nodes of a graph."""

    def agent(self, agent: BaseAgent) -> Node:
        """An agent of ADK's with all below it."""
        ...

    def llm(self, agent: LlmAgent) -> Node:
        """An agent that asks a model."""
        ...

    def graph(self, value: object) -> Node:
        """A graph inside this one."""
        ...

    def unknown(self, value: object, name: str) -> Node:
        """What cannot be looked into."""
        ...


@frozen
class Routed(Frozen):
    """Whether the node before a route of a graph has chosen this value, or one of the others."""

    value: object
    others: tuple[object, ...] = ()
    access: ClassVar[Access] = NO_ACCESS

    @property
    def __name__(self) -> str:
        return f"it chooses {' or '.join(map(repr, (self.value, *self.others)))}"

    def __call__(self, state: Mapping[str, Any]) -> bool:
        """Never called: ADK runs the graph."""
        raise TypeError("Only ADK's own graph knows which way is chosen.")


@frozen
class GraphFunction(Frozen):
    """A function that is a node of a graph.

    Attributes:
        from_state: whether ADK fills its parameters from the state, by name, or from what came before.
    """

    function: Callable[..., Any]
    from_state: bool = True

    @property
    def __name__(self) -> str:
        return function_name(self.function, "function")

    @property
    def seen(self) -> Sightings:
        """What its source shows."""
        return sightings(self.function)

    @property
    def access(self) -> Access:
        """The keys that ADK gives it, and whether its source shows all the others."""
        parameters, seen = inspect.signature(self.function).parameters.values(), self.seen
        reads = frozenset(one.name for one in parameters if self.from_state and _is_key(one))
        known = seen.gives and (seen.whole or not any(map(_is_context, parameters)))
        return Access(reads, frozenset(), known, known)

    def __call__(self, state: Mapping[str, Any]) -> None:
        """Never called: ADK runs the graph."""
        raise TypeError("Only ADK's own graph runs it.")


@frozen
class Onward(Frozen):
    """A way of a graph that leads straight on: it has no step of its own."""

    target: str
    access: ClassVar[Access] = NO_ACCESS

    @property
    def __name__(self) -> str:
        return f"on to {self.target}"

    def __call__(self, state: Mapping[str, Any]) -> None:
        """Never called: ADK runs the graph."""
        raise TypeError("Only ADK's own graph goes on.")


def _is_context(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is ADK's context, through which a function comes to the state."""
    return parameter.name in ("ctx", "context") or "Context" in str(parameter.annotation)


def _is_key(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is a key that must be there."""
    named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    given = parameter.name == "node_input" or _is_context(parameter)
    return named and not given and parameter.default is parameter.empty


class _OtherShape(Exception):
    """The graph is none of the shapes that a tree has."""


def shape(workflow: Any, reading: NodeReader) -> Node | None:
    """What can be known of a workflow; `None` for a graph of another shape."""
    graph = getattr(workflow, "graph", None)
    if graph is None or not graph.edges:
        return None
    try:
        steps = _Shape(graph.edges, reading).all()
    except _OtherShape:
        return None
    return SequenceNode(children=tuple(steps)) if len(steps) != 1 else steps[0]


class _Shape:
    """Turns the edges of a graph into steps."""

    def __init__(self, edges: list[Any], reading: NodeReader) -> None:
        self._reading = reading
        self._nodes: dict[str, Any] = {}
        self._ways: dict[str, list[tuple[object, str]]] = {}
        self._placed: set[str] = set()
        for edge in edges:
            for node in (edge.from_node, edge.to_node):
                self._nodes[node.name] = node
            route: object = edge.route
            values = cast("list[object]", route) if isinstance(route, list) else [route]
            ways = self._ways.setdefault(edge.from_node.name, [])
            ways += [(value, edge.to_node.name) for value in values]

    def all(self) -> list[Node]:
        """The steps of the whole graph."""
        starts = [
            name
            for name, node in self._nodes.items()
            if type(node).__name__ == "StartNode" or name == "__START__"
        ]
        if len(starts) != 1:
            raise _OtherShape
        steps, name = self._after(starts[0], frozenset())
        steps += self._chain(name, frozenset())
        if self._placed | set(starts) != set(self._nodes):
            raise _OtherShape
        return steps

    def _chain(self, name: str | None, stop: frozenset[str]) -> list[Node]:
        """The steps from a node on, up to one of `stop`."""
        steps: list[Node] = []
        first: dict[str, int] = {}
        while name is not None and name not in stop:
            if name in self._placed:
                raise _OtherShape
            self._placed.add(name)
            first[name] = len(steps)
            if type(self._nodes[name]).__name__ != "JoinNode":
                steps.append(self._step(self._nodes[name]))
            ways = self._ways.get(name, [])
            back = [way for way in ways if way[1] in first]
            if back:
                on = self._loop(steps, first, ways, back)
                more, name = self._onward(f"after_{name}", on, stop, certain=True)
            else:
                more, name = self._after(name, stop)
            steps += more
        return steps

    def _loop(
        self,
        steps: list[Node],
        first: dict[str, int],
        ways: list[tuple[object, str]],
        back: list[tuple[object, str]],
    ) -> list[tuple[object, str]]:
        """Make a loop of the steps that a way leads back to; gives the ways that leave it."""
        on = [way for way in ways if way not in back]
        if len({target for _, target in back}) != 1 or any(value is None for value, _ in back):
            raise _OtherShape
        begin = first[back[0][1]]
        leaves = None if any(value in (None, _DEFAULT) for value, _ in on) else _routed(on)
        steps[begin:] = [LoopNode(children=tuple(steps[begin:]), max_iterations=NO_LIMIT, until=leaves)]
        return on

    def _after(self, name: str, stop: frozenset[str]) -> tuple[list[Node], str | None]:
        """What follows a node: the steps of the branches behind it, and the node where these meet."""
        return self._onward(f"after_{name}", self._ways.get(name, []), stop)

    def _onward(
        self, title: str, ways: list[tuple[object, str]], stop: frozenset[str], *, certain: bool = False
    ) -> tuple[list[Node], str | None]:
        """What some ways of a node lead to; `certain` if it chooses one of them."""
        routed = [way for way in ways if way[0] is not None]
        if not ways:
            return [], None
        if len(ways) == 1 and (certain or not routed):
            return [], ways[0][1]
        if routed and len(routed) < len(ways):
            raise _OtherShape
        targets = list(dict.fromkeys(target for _, target in ways))
        if len(targets) == 1 and (certain or any(value == _DEFAULT for value, _ in ways)):
            return [], targets[0]  # whatever is chosen
        # What comes after a single way runs only if that is chosen.
        meet = self._meeting(targets, joined=not routed, stop=stop) if len(targets) > 1 else None
        if not routed or meet is not None:
            until = stop if meet is None else stop | {meet}
            branches = {target: self._sequence(self._chain(target, until), target) for target in targets}
        else:
            branches = self._apart(title, ways, targets, stop)
        if not routed:
            return [ParallelNode(children=tuple(branches.values()))], meet
        return [_route(title, ways, branches, certain)], meet

    def _apart(
        self, title: str, ways: list[tuple[object, str]], targets: list[str], stop: frozenset[str]
    ) -> dict[str, Node]:
        """The branches of ways of which only some meet again, such as where one way is to give up."""
        ahead = {target: set(self._reached(target)) - stop for target in targets}
        branches: dict[str, Node] = {}
        for target in targets:
            group = [other for other in targets if ahead[other] & ahead[target]]
            if target in branches:
                continue
            if 1 < len(group) < len(targets):
                some = [way for way in ways if way[1] in group]
                steps, at = self._onward(f"{title}_{target}", some, stop, certain=True)
                steps += self._chain(at, stop)
                branches |= dict.fromkeys(group, self._sequence(steps, target))
            else:
                branches[target] = self._sequence(self._chain(target, stop), target)
        return branches

    def _sequence(self, steps: list[Node], target: str) -> Node:
        if not steps:  # it leads straight to where the ways meet
            return TransformNode(name=f"on_to_{target}", fn=Onward(target))
        return steps[0] if len(steps) == 1 else SequenceNode(children=tuple(steps))

    def _meeting(self, names: list[str], *, joined: bool, stop: frozenset[str]) -> str | None:
        """The first node that all of some ways come to: a join, or where routes meet again."""
        ahead = [list(self._reached(name)) for name in names]
        for name in ahead[0]:
            if all(name in other for other in ahead[1:]):
                if joined and type(self._nodes[name]).__name__ != "JoinNode":
                    raise _OtherShape
                return None if name in stop else name
        return None

    def _reached(self, name: str) -> Iterator[str]:
        seen, pending = {name}, [name]
        while pending:
            current = pending.pop(0)
            yield current
            for _, target in self._ways.get(current, []):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)

    def _step(self, node: Any) -> Node:
        if isinstance(node, LlmAgent):
            return self._reading.llm(node)
        if isinstance(node, BaseAgent):
            return self._reading.agent(node)
        if type(node).__name__ == "FunctionNode" and (function := _function(node)) is not None:
            from_state = getattr(node, "parameter_binding", "state") == "state"
            return TransformNode(name=node.name, fn=GraphFunction(function, from_state))
        if hasattr(node, "graph"):
            return self._reading.graph(node)
        return self._reading.unknown(node, node.name)


def _route(
    title: str, ways: list[tuple[object, str]], branches: Mapping[str, Node], certain: bool
) -> RouteNode:
    """A route with one rule for each branch; its last one needs none if it is certain that one is chosen."""
    chosen: dict[int, list[tuple[object, str]]] = {}
    for way in ways:
        chosen.setdefault(id(branches[way[1]]), []).append(way)
    default = next((branches[to] for value, to in ways if value == _DEFAULT), None)
    if default is None and certain:
        default = branches[chosen.popitem()[1][0][1]]
    rules = tuple(
        (test, branches[some[0][1]])
        for some in chosen.values()
        if branches[some[0][1]] is not default and (test := _routed(some)) is not None
    )
    return RouteNode(name=title, rules=rules, default=default, annotations=Annotations(adopted=Adopted()))


def _routed(ways: list[tuple[object, str]]) -> Routed | None:
    """The test whether one of some ways is chosen."""
    values = [value for value, _ in ways]
    return Routed(values[0], tuple(values[1:])) if values else None


def _function(node: Any) -> Callable[..., Any] | None:
    held = (getattr(node, name, None) for name in ("func", "_func"))
    return next((one for one in held if callable(one)), None)
