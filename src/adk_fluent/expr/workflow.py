"""Expressions that contain others: `Pipeline`, `FanOut`, `Loop`, `Fallback`, `Race`, `MapOver`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Self, TypeVar, cast, overload

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr._generated import WorkflowMethods
from adk_fluent.expr.arguments import check_key, observer, positive, refuse_fields
from adk_fluent.expr.base import Expr, Step, lift
from adk_fluent.expr.options import leaving_out
from adk_fluent.ir.base import Node
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.node_names import check_name
from adk_fluent.ir.nodes import (
    FallbackNode,
    LoopNode,
    MapOverNode,
    ParallelNode,
    RaceNode,
    SequenceNode,
    StepFn,
)
from adk_fluent.ir.predicates import Predicate, StateView

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
_Silent = Step | StepFn
if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent as NativeAgent

    _Member = Expr[Any] | StepFn | NativeAgent | str


class _Associative(Expr[T_co]):
    """An expression that an associative operator makes.

    `a >> b >> c` stores its two sides only. The first access to `node` flattens all sides into one node.
    Flattening at each operator would copy the members again and again: quadratic time for a long chain.
    """

    __slots__ = ("_sides",)

    _plain: ClassVar[Node]
    """The node without children; a node is flattened only if it differs from this one by its children."""

    @classmethod
    def joined(cls, left: Expr[Any], right: Expr[Any]) -> Self:
        """Join two sides to one expression."""
        made = object.__new__(cls)
        object.__setattr__(made, "_node", None)
        object.__setattr__(made, "_sides", (left, right))
        return made

    @property
    def node(self) -> Node:
        if self._node is None:
            object.__setattr__(self, "_node", self._plain.with_children(self._flat()))
            object.__setattr__(self, "_sides", None)
        return cast(Node, self._node)

    def _flat(self) -> tuple[Node, ...]:
        flat: list[Node] = []
        pending: list[Expr[Any]] = [self]
        while pending:
            part = pending.pop()
            # Read it only once: another thread may flatten it, and sets the node before it drops the sides.
            sides = part._sides if isinstance(part, type(self)) and part._node is None else None
            if sides is not None:
                pending.extend(reversed(sides))
            else:
                flat.extend(self.members_of(part.node))
        return tuple(flat)

    @classmethod
    def members_of(cls, node: Node) -> tuple[Node, ...]:
        """The members that a node adds to a composite of this kind: its children, or the node itself."""
        plain = type(node) is type(cls._plain) and node.with_children(()) == cls._plain
        return node.children if plain else (node,)

    @classmethod
    def gather(
        cls, owner: type[Expr[Any]], members: tuple[object, ...], name: str | None, what: str
    ) -> tuple[str, tuple[Node, ...]]:
        """The name and the member nodes from the constructor's arguments; the first may be the name."""
        called = owner.__name__
        if members and isinstance(members[0], str):
            if name is not None:
                raise ArgumentError(f"{called} got two names, {members[0]!r} and {name!r}; give one.")
            name, members = members[0], members[1:]
        nodes: list[Node] = []
        where, routes = f"{called}()", cls is Pipeline
        for member in members:
            before = nodes[-1] if routes and nodes else None
            nodes += cls.members_of(lift(member, where, before).node)
        if not nodes and name is None:
            raise ExpressionError(f"{called}() is empty: give it at least one {what}.")
        return "" if name is None else check_name(name, owner._what), tuple(nodes)

    def _begin(self, members: tuple[object, ...], name: str | None, what: str) -> None:
        given, nodes = self.gather(type(self), members, name, what)
        object.__setattr__(self, "_node", self._plain.with_children(nodes).replace(name=given))

    def _with(self, member: object, method: str) -> Self:
        before = self if self.node.children else None
        added = self.members_of(lift(member, f".{method}()", before=before).node)
        return self.from_node(self.node.with_children((*self.node.children, *added)))


class Pipeline(_Associative[T_co], WorkflowMethods):
    """Steps that run one after another.

    The first argument may be the name. Steps may also be functions `state -> dict | None`.

    Args:
        steps: expressions or functions, in order.
        name: the name, if it is not the first argument.

    Raises:
        ExpressionError: there is neither a step nor a name.

    Example:
        >>> from adk_fluent import Agent, Pipeline
        >>> Pipeline("etl").step(Agent("extract")).step(Agent("load"))
        Pipeline('etl', extract, load)
    """

    __slots__ = ()
    _what = "pipeline"
    _plain = SequenceNode()

    # The type is that of the last step with text. If the last two steps have none, the type is unknown.
    @overload
    def __init__(self: Pipeline[Never], name: str, /) -> None: ...
    @overload
    def __init__(self: Pipeline[Never], *, name: str) -> None: ...
    @overload
    def __init__(
        self: Pipeline[object],
        *steps: *tuple[*tuple[_Member, ...], _Silent, _Silent],
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Pipeline[U], *steps: *tuple[*tuple[_Member, ...], Expr[U], _Silent], name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Pipeline[Any],
        *steps: *tuple[*tuple[_Member, ...], NativeAgent, _Silent],
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Pipeline[object], *steps: *tuple[*tuple[_Member, ...], _Silent], name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Pipeline[U], *steps: *tuple[*tuple[_Member, ...], Expr[U]], name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Pipeline[Any], *steps: *tuple[*tuple[_Member, ...], NativeAgent], name: str | None = None
    ) -> None: ...
    @overload
    def __init__(  # pyright: ignore[reportOverlappingOverload]  # the one that fits an unpacked list
        self: Pipeline[U], *steps: Expr[U], name: str | None = None
    ) -> None: ...
    @overload
    def __init__(self: Pipeline[Any], *steps: Expr[Any] | NativeAgent, name: str | None = None) -> None: ...
    @leaving_out("unknown")
    def __init__(self, *steps: object, name: str | None = None, **unknown: object) -> None:
        refuse_fields("Pipeline", "step", unknown, ("name",))
        self._begin(steps, name, "step")

    def __call__(self: Pipeline[Never], state: StateView) -> dict[str, Any]:
        """Return the changes that a chain of S transforms would make in `state`; for tests, without a run.

        >>> from adk_fluent import S
        >>> (S.set(topic="tea") >> S.rename(topic="subject"))({})
        {'subject': 'tea'}

        Raises:
            ArgumentError: a step is not a transform.
            TransformError: a step's function is async, or did not return a dict.
        """
        from adk_fluent.state.operations import changes_of

        return changes_of(self.node, state)

    @overload
    def step(self, step: Step | StepFn) -> Self: ...
    @overload
    def step(self, step: Expr[U] | Mapping[Any, Expr[U]]) -> Pipeline[U]: ...
    @overload
    def step(self, step: NativeAgent) -> Pipeline[Any]: ...
    def step(self, step: object) -> Pipeline[Any]:
        """Return the pipeline with one more step at its end."""
        return self._with(step, "step")


Merge = Literal["wait_all", "first_complete", "interleave"]
_MERGES = ("wait_all", "first_complete", "interleave")


def _merge(how: Merge) -> Merge:
    if how not in _MERGES:
        raise ArgumentError(f"FanOut(merge=) is one of {', '.join(map(repr, _MERGES))}, not {how!r}.")
    return how


class FanOut(_Associative[T_co], WorkflowMethods):
    """Branches that run at the same time, each seeing only the conversation before them and its own.

    Args:
        branches: expressions; the first argument may be the name.
        name: the name, if it is not the first argument.
        merge: the moment at which the fan-out ends; see the method `merge`.

    Raises:
        ExpressionError: there is neither a branch nor a name.
        ArgumentError: the value of `merge` does not exist.

    Example:
        >>> from adk_fluent import Agent, FanOut
        >>> FanOut(Agent("web"), Agent("papers"), name="research")
        FanOut('research', web, papers)
    """

    __slots__ = ()
    _what = "fan_out"
    _plain = ParallelNode()

    @overload
    def __init__(self: FanOut[Never], name: str, /, *, merge: Merge = "wait_all") -> None: ...
    @overload
    def __init__(self: FanOut[Never], *, name: str, merge: Merge = "wait_all") -> None: ...
    @overload
    def __init__(
        self: FanOut[U], *branches: Expr[U] | str, name: str | None = None, merge: Merge = "wait_all"
    ) -> None: ...
    @overload
    def __init__(
        self: FanOut[Any],
        *branches: Expr[Any] | NativeAgent | str,
        name: str | None = None,
        merge: Merge = "wait_all",
    ) -> None: ...
    @leaving_out("unknown")
    def __init__(
        self, *branches: object, name: str | None = None, merge: Merge = "wait_all", **unknown: object
    ) -> None:
        refuse_fields("FanOut", "branch", unknown, ("name", "merge"))
        self._begin(branches, name, "branch")
        object.__setattr__(self, "_node", self._node.replace(merge=_merge(merge)))

    @overload
    def branch(self, branch: Expr[U]) -> FanOut[T_co | U]: ...
    @overload
    def branch(self, branch: NativeAgent) -> FanOut[Any]: ...
    def branch(self, branch: object) -> FanOut[Any]:
        """Return the fan-out with one more branch."""
        return self._with(branch, "branch")

    def merge(self, how: Merge) -> Self:
        """Set the moment at which the fan-out ends.

        Args:
            how: `wait_all`, the default, waits for all branches. `interleave` does the same, and declares
                that the order of the branches' events does not matter. `first_complete` ends when one has
                completed without an error, and cancels the others at once: their model calls end, and they
                write nothing more. Values that a cancelled branch has stored stay; its text is not an answer.
                If all branches fail, `RunError` names each.

        Raises:
            ArgumentError: `how` is another value.

        >>> from adk_fluent import Agent
        >>> (Agent("web") | Agent("papers")).merge("first_complete").node.merge
        'first_complete'
        """
        return self.from_node(self.node.replace(merge=_merge(how)))


class Fallback(_Associative[T_co]):
    """Alternatives that are tried in order until one succeeds; made by `a // b`."""

    __slots__ = ()
    _what = "fallback"
    _plain = FallbackNode()


class Loop(Expr[T_co], WorkflowMethods):
    """Steps that run again and again.

    `until` is tested after each round, so the steps run at least once. If an agent or tool escalates, the
    loop ends at once.

    Args:
        steps: the body; the first argument may be the name.
        max_iterations: most rounds, 10 by default.
        name: the name, if it is not the first argument.

    Raises:
        ArgumentError: `max_iterations` is not a positive whole number.
        ExpressionError: there is neither a step nor a name.

    Example:
        >>> from adk_fluent import Agent, Loop
        >>> Loop("refine").step(Agent("writer")).step(Agent("critic")).max_iterations(3)
        Loop('refine', writer, critic)
    """

    __slots__ = ()
    _what = "loop"

    # The overloads set the type as those of `Pipeline` do.
    @overload
    def __init__(self: Loop[Never], name: str, /, *, max_iterations: int = 10) -> None: ...
    @overload
    def __init__(self: Loop[Never], *, name: str, max_iterations: int = 10) -> None: ...
    @overload
    def __init__(
        self: Loop[object],
        *steps: *tuple[*tuple[_Member, ...], _Silent, _Silent],
        max_iterations: int = 10,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[U],
        *steps: *tuple[*tuple[_Member, ...], Expr[U], _Silent],
        max_iterations: int = 10,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[Any],
        *steps: *tuple[*tuple[_Member, ...], NativeAgent, _Silent],
        max_iterations: int = 10,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[object],
        *steps: *tuple[*tuple[_Member, ...], _Silent],
        max_iterations: int = 10,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[U],
        *steps: *tuple[*tuple[_Member, ...], Expr[U]],
        max_iterations: int = 10,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[Any],
        *steps: *tuple[*tuple[_Member, ...], NativeAgent],
        max_iterations: int = 10,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(  # pyright: ignore[reportOverlappingOverload]  # the one that fits an unpacked list
        self: Loop[U], *steps: Expr[U], max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[Any],
        *steps: Expr[Any] | NativeAgent,
        max_iterations: int = 10,
        name: str | None = None,
    ) -> None: ...
    @leaving_out("unknown")
    def __init__(
        self, *steps: object, max_iterations: int = 10, name: str | None = None, **unknown: object
    ) -> None:
        refuse_fields("Loop", "step", unknown, ("max_iterations", "name"))
        given, body = Pipeline.gather(Loop, steps, name, "step")
        made = LoopNode(name=given, children=body, max_iterations=rounds(max_iterations))
        object.__setattr__(self, "_node", made)

    @overload
    def step(self, step: Step | StepFn) -> Self: ...
    @overload
    def step(self, step: Expr[U] | Mapping[Any, Expr[U]]) -> Loop[U]: ...
    @overload
    def step(self, step: NativeAgent) -> Loop[Any]: ...
    def step(self, step: object) -> Loop[Any]:
        """Return the loop with one more step at the end of its body."""
        before = self.node.children[-1] if self.node.children else None
        members = Pipeline.members_of(lift(step, ".step()", before=before).node)
        return self._set(children=(*self.node.children, *members))

    def max_iterations(self, count: int) -> Self:
        """Return the loop with another limit of rounds."""
        return self._set(max_iterations=rounds(count))

    def until(self, predicate: Predicate) -> Self:
        """Return the loop that also ends when `predicate(state)` holds after a round."""
        return self._set(until=observer(predicate, "until()"))


class Race(Expr[T_co]):
    """Branches that run at the same time; the first to succeed is kept. Made by `race`."""

    __slots__ = ()
    _what = "race"

    @classmethod
    def of(cls, *branches: object) -> Race[T_co]:
        """Make a race between at least two expressions."""
        if len(branches) < 2:
            raise ExpressionError("race() needs at least two expressions to choose from.")
        return cls.from_node(RaceNode(children=tuple(lift(branch, "race()").node for branch in branches)))


class MapOver(Expr[T_co]):
    """A body that runs once per item of a list in state. Made by `map_over`."""

    __slots__ = ()
    _what = "map"

    @classmethod
    def of(cls, key: str, body: object, item_key: str, output_key: str, concurrency: int) -> MapOver[T_co]:
        """Make a map over the list at `key`."""
        key, item_key = check_key(key, "map_over(key=)"), check_key(item_key, "map_over(item_key=)")
        output_key = check_key(output_key, "map_over(output_key=)")
        if item_key in (key, output_key):
            raise ArgumentError(
                f"map_over(item_key={item_key!r}): give the item another key; it is removed afterwards."
            )
        if not positive(concurrency):
            raise ArgumentError(f"map_over(concurrency=) takes a positive whole number, not {concurrency!r}.")
        inner = lift(body, "map_over()").node
        return cls.from_node(
            MapOverNode(
                list_key=key, body=inner, item_key=item_key, output_key=output_key, concurrency=concurrency
            )
        )


@frozen
class Until(Frozen):
    """The result of `until(predicate, max=)`, for use in `body * until(...)`."""

    predicate: Predicate
    max: int = 10


def rounds(value: object) -> int:
    """Return a loop's most rounds, if it is a positive whole number."""
    if not positive(value):
        raise ArgumentError(
            f"A loop runs a positive whole number of times, not {value!r}; the default is 10."
        )
    return cast(int, value)
