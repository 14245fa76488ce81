"""`Expr` and what its operators make of it: `Pipeline`, `FanOut`, `Loop`, `Fallback` and steps.

Every operator of an expression gives an expression of another class, so these classes are in one module.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeVar, cast, overload

from adk_fluent import ir
from adk_fluent.errors import ArgumentError, ExpressionError, UnknownMethodError
from adk_fluent.expr._generated import WorkflowMethods
from adk_fluent.expr.adk_fields import instead, refuse_fields
from adk_fluent.expr.arguments import artifact_steps, describe, no_step, observer, rounds, with_argument
from adk_fluent.expr.handle import Chain, Handle, RefusedOperators
from adk_fluent.expr.options import leaving_out
from adk_fluent.ir import adk_objects, functions, graph
from adk_fluent.ir.execution import STEP_BY_STEP, Wrapped
from adk_fluent.ir.frozen import Frozen, frozen, note_use
from adk_fluent.ir.nodes import PieceFn, StepFn, TapFn, TransformFn, agent_of
from adk_fluent.ir.predicates import Predicate, StateView
from adk_fluent.tools import sources, spec

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent as NativeAgent


T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


class Expr(Handle[T_co], RefusedOperators):
    """Base class of all expressions, which users compose and terminals run.

    Expressions never change: each method returns a new one. They compare and hash by structure, so you can
    share and store them, and use one in several pipelines. The type parameter is the type that `ask` returns.

    Attributes:
        node: the expression's IR node.
        name: the expression's name, or an empty text.
    """

    __slots__ = ()

    # --- operators --------------------------------------------------------------------------------

    @overload
    def __rshift__(self, other: Step) -> Pipeline[T_co]: ...
    @overload
    def __rshift__(self, other: Expr[U]) -> Pipeline[U]: ...
    @overload
    def __rshift__(self, other: Mapping[Any, Expr[U]]) -> Pipeline[U]: ...
    @overload
    def __rshift__(self, other: StepFn) -> Pipeline[T_co]: ...
    @overload
    def __rshift__(self, other: NativeAgent) -> Pipeline[Any]: ...
    def __rshift__(self, other: object) -> Pipeline[Any]:
        """Run `other` after this: an expression, a function `state -> dict | None`, or `{value: branch}`."""
        return cast("type[Pipeline[Any]]", Pipeline).joined(self, lift(other, ">>", before=self))

    def __rrshift__(self, other: TransformFn | NativeAgent) -> Pipeline[T_co]:
        """Run this after a plain function, or after an agent of ADK's."""
        return lift(other, ">>") >> self

    @overload
    def __or__(self, other: Expr[U]) -> FanOut[T_co | U]: ...
    @overload
    def __or__(self, other: NativeAgent) -> FanOut[Any]: ...
    def __or__(self, other: object) -> FanOut[Any]:
        """Run both at the same time."""
        lifted = lift(other, "|")
        for side in (self, lifted):
            if isinstance(side, Pipeline):  # `a | b >> c` may be a mistake; a contract check looks at it
                note_use(side.node, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # the caller's
        return cast("type[FanOut[Any]]", FanOut).joined(self, lifted)

    @overload
    def __floordiv__(self, other: Expr[U]) -> Fallback[T_co | U]: ...
    @overload
    def __floordiv__(self, other: NativeAgent) -> Fallback[Any]: ...
    def __floordiv__(self, other: object) -> Fallback[Any]:
        """Run `other` if this one fails."""
        return cast("type[Fallback[Any]]", Fallback).joined(self, lift(other, "//"))

    def __ror__(self, other: NativeAgent) -> FanOut[Any]:
        """Run an agent of ADK's and this at the same time."""
        return self._after(other, "|") | self

    def __rfloordiv__(self, other: NativeAgent) -> Fallback[Any]:
        """Run this if an agent of ADK's fails."""
        return self._after(other, "//") // self

    def _after(self, other: object, operator: str) -> Expr[Any]:
        """The left operand of `|` or `//` if it is an agent of ADK's.

        Raises:
            ArgumentError: it is something else.
        """
        lifted = lift(other, operator)
        if not adk_objects.is_native(other):
            raise ArgumentError(
                f"{operator} takes an expression on its left, not {describe(other)}. "
                f"Write {self.name or 'agent'} {operator} {functions.function_name(other, 'fn')}."
            )
        return lifted

    def __mul__(self, rounds: int | Until) -> Loop[T_co]:
        """Run this again and again: `n` times, or `until(predicate, max=n)`."""
        if isinstance(rounds, Until):
            return Loop(self, max_iterations=rounds.max).until(rounds.predicate)
        if callable(rounds):
            me, test = self.name or "a", functions.function_name(rounds, "fn")
            raise ArgumentError(
                f"* takes a number of rounds, not {describe(rounds)}; wrap it: {me} * until({test}, max=10)."
            )
        return Loop(self, max_iterations=rounds)

    # --- what every expression can do -------------------------------------------------------------

    def timeout(self, seconds: float) -> Timeout[T_co]:
        """Cancel this expression after `seconds` of work and raise `AgentTimeoutError`.

        Time does not count while an event is stored, or while the program that reads the stream handles it.

        >>> from adk_fluent import Agent
        >>> Agent("slow").timeout(30).node.seconds
        30
        """
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < inf:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"timeout() takes a positive number of seconds, not {seconds!r}.")
        return Timeout[T_co].from_node(ir.TimeoutNode(body=self.node, seconds=seconds))

    @overload
    def tap(self, fn: TapFn) -> Pipeline[T_co]: ...
    @overload
    def tap(self, fn: PieceFn) -> Pipeline[T_co]: ...
    def tap(self, fn: TapFn | PieceFn) -> Pipeline[T_co]:
        """Call `fn` with the state after this expression has run; `fn` cannot change the state."""
        return self >> Step.from_node(ir.TapNode(fn=observer(fn, "tap()")))

    def artifacts(self, *operations: Expr[Any]) -> Pipeline[T_co]:
        """Run `A` operations after this, in order.

        Raises:
            ArgumentError: no operation is given, or an argument is not an `A` operation.

        >>> from adk_fluent import A, Agent
        >>> Agent("writer").writes("report").artifacts(A.publish("report.md"))
        Pipeline(writer, publish)
        """
        if not operations:
            raise ArgumentError("artifacts() needs at least one A operation, such as A.publish('report.md').")
        whole: Expr[Any] = self
        for operation in operations:
            artifact_steps(operation, "artifacts()")
            whole = whole >> operation
        return cast("Pipeline[T_co]", whole)

    def until(self, predicate: Predicate) -> Loop[T_co]:
        """Repeat this until `predicate(state)` holds, at most 10 times; see `Loop`."""
        return Loop(self).until(predicate)

    def proceed_if(self, predicate: Predicate) -> Conditional[T_co]:
        """Run this only if `predicate(state)` holds; what follows runs either way."""
        test = observer(predicate, "proceed_if()")
        return Conditional[T_co].from_node(ir.RouteNode(rules=((test, self.node),)))

    if not TYPE_CHECKING:  # a type checker that saw it would accept any attribute

        def __getattr__(self, name: str) -> Never:
            if name.startswith("_"):
                raise AttributeError(name)
            from adk_fluent.expr.agent import Agent

            kind = type(self)
            raise UnknownMethodError(f"{kind.__name__} has no method {name!r}{instead(kind, Agent, name)}")


class Step(Expr[Never]):
    """A step without text: a transform, tap, gate, capture or transfer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({repr(self.name) if self.name else self.node.label})"


class Timeout(Expr[T_co]):
    """An expression with a time limit."""

    __slots__ = ()


class Conditional(Expr[T_co]):
    """An expression that is skipped unless a predicate holds."""

    __slots__ = ()


if TYPE_CHECKING:
    _Silent = Step | StepFn
    _Member = Expr[Any] | StepFn | NativeAgent | str
    # The members of a constructor, by those at the end, which decide about the type of the answer:
    _EndsUnknown = tuple[*tuple[_Member, ...], _Silent, _Silent]
    _EndsSilent = tuple[*tuple[_Member, ...], Expr[U], _Silent]
    _EndsNativeSilent = tuple[*tuple[_Member, ...], NativeAgent, _Silent]
    _EndsAnySilent = tuple[*tuple[_Member, ...], _Silent]
    _Ends = tuple[*tuple[_Member, ...], Expr[U]]
    _EndsNative = tuple[*tuple[_Member, ...], NativeAgent]


class _Associative(Chain[T_co], Expr[T_co]):
    """An expression that an associative operator makes, and that takes further members."""

    __slots__ = ()

    @classmethod
    def gather(
        cls, owner: type[Expr[Any]], members: tuple[object, ...], name: str | None, what: str
    ) -> tuple[str, tuple[ir.Node, ...]]:
        """The name and the member nodes from the constructor's arguments; the first may be the name."""
        called = owner.__name__
        if members and isinstance(members[0], str):
            if name is not None:
                raise ArgumentError(f"{called} got two names, {members[0]!r} and {name!r}; give one.")
            name, members = members[0], members[1:]
        nodes: list[ir.Node] = []
        where, routes = f"{called}()", cls is Pipeline
        for member in members:
            before = nodes[-1] if routes and nodes else None
            nodes += cls.members_of(lift(member, where, before).node)
        if not nodes and name is None:
            raise ExpressionError(f"{called}() is empty: give it at least one {what}.")
        return "" if name is None else graph.check_name(name, owner._what), tuple(nodes)

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
    _plain = ir.SequenceNode()

    # The type is that of the last step with text. If the last two steps have none, the type is unknown.
    @overload
    def __init__(self: Pipeline[Never], name: str, /) -> None: ...
    @overload
    def __init__(self: Pipeline[Never], *, name: str) -> None: ...
    @overload
    def __init__(self: Pipeline[object], *steps: *_EndsUnknown, name: str | None = None) -> None: ...
    @overload
    def __init__(self: Pipeline[U], *steps: *_EndsSilent[U], name: str | None = None) -> None: ...
    @overload
    def __init__(self: Pipeline[Any], *steps: *_EndsNativeSilent, name: str | None = None) -> None: ...
    @overload
    def __init__(self: Pipeline[object], *steps: *_EndsAnySilent, name: str | None = None) -> None: ...
    @overload
    def __init__(self: Pipeline[U], *steps: *_Ends[U], name: str | None = None) -> None: ...
    @overload
    def __init__(self: Pipeline[Any], *steps: *_EndsNative, name: str | None = None) -> None: ...
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
    _plain = ir.ParallelNode()

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
    _plain = ir.FallbackNode()


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
        self: Loop[object], *steps: *_EndsUnknown, max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[U], *steps: *_EndsSilent[U], max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[Any], *steps: *_EndsNativeSilent, max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[object], *steps: *_EndsAnySilent, max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[U], *steps: *_Ends[U], max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[Any], *steps: *_EndsNative, max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(  # pyright: ignore[reportOverlappingOverload]  # the one that fits an unpacked list
        self: Loop[U], *steps: Expr[U], max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Loop[Any], *steps: Expr[Any] | NativeAgent, max_iterations: int = 10, name: str | None = None
    ) -> None: ...
    @leaving_out("unknown")
    def __init__(
        self, *steps: object, max_iterations: int = 10, name: str | None = None, **unknown: object
    ) -> None:
        refuse_fields("Loop", "step", unknown, ("max_iterations", "name"))
        given, body = Pipeline.gather(Loop, steps, name, "step")
        made = ir.LoopNode(name=given, children=body, max_iterations=rounds(max_iterations))
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


@frozen
class Until(Frozen):
    """The result of `until(predicate, max=)`, for use in `body * until(...)`."""

    predicate: Predicate
    max: int = 10


def lift(value: object, where: str, before: Expr[Any] | ir.Node | None = None) -> Expr[Any]:
    """Convert an operand of `>>` and the other operators into an expression.

    Args:
        value: an expression, a native agent, a function of the state, or a dict of branches.
        where: the operator or method, for the message.
        before: the expression before it; a dict routes on the key that this one writes.

    Raises:
        ArgumentError: the value cannot be a step.
    """
    if isinstance(value, Expr):
        return cast("Expr[Any]", value)
    if adk_objects.is_native(value):
        return adopted(value)
    if isinstance(value, Mapping):
        return _route_of(cast("Mapping[Any, Any]", value), before)
    if callable(value) and not isinstance(value, type):
        return Step.from_node(ir.TransformNode(fn=cast(TransformFn, with_argument(value, where))))
    raise no_step(value, where)


def adopted(value: object, declare: Mapping[str, object] | None = None) -> Expr[Any]:
    """Convert a native agent into an expression; see `adk_fluent.adopt.adopt`."""
    from adk_fluent.adopt.reading.native_trees import read
    from adk_fluent.expr.agent import Agent
    from adk_fluent.expr.remote import RemoteAgent

    node = read(value, declare)
    kinds: Mapping[type[ir.Node], type[Expr[Any]]] = {
        ir.AgentNode: Agent,
        ir.SequenceNode: Pipeline,
        ir.ParallelNode: FanOut,
        ir.LoopNode: Loop,
        ir.RemoteAgentNode: RemoteAgent,
    }
    kind = cast("type[Expr[Any]]", kinds.get(type(node), Expr))
    return kind.from_node(node)


def usable_tools(value: object) -> tuple[object, ...]:
    """The single tools of a value, checked; an agent of ADK's becomes a tool that runs it.

    Raises:
        ArgumentError: an agent cannot have the value as a tool.
    """
    if adk_objects.is_native(value) and hasattr(value, "sub_agents"):  # ADK accepts no agent as a tool
        return (sources.AgentTool(adopted(value).node),)
    parts = spec.each(spec.checked(value))
    return parts if len(parts) == 1 else tuple(one for part in parts for one in usable_tools(part))


def _key_written_by(node: ir.Node) -> str | None:
    """The key that the last agent of `node` writes, if it writes exactly one; else `None`."""
    while isinstance(node.runs, (*STEP_BY_STEP, Wrapped)) and node.children:
        node = node.children[-1]
    if not (agent := agent_of(node)):
        return None
    if isinstance(agent.output_key, str):
        return agent.output_key
    return agent.written_fields[0].key if len(agent.written_fields) == 1 else None


def _route_of(branches: Mapping[Any, Any], before: Expr[Any] | ir.Node | None) -> Expr[Any]:
    if not branches:
        raise ExpressionError("A route needs at least one branch; the dict after >> is empty.")
    node = before.node if isinstance(before, Expr) else before
    key = None if node is None else _key_written_by(node)
    if key is None:
        raise ExpressionError(
            "A dict after >> routes on the key that the agent before it writes, but that agent writes none. "
            "Add .writes('key') to it, or use Route('key')."
        )
    rules = tuple(
        (ir.Match(key, "eq", value), lift(branch, "a route").node) for value, branch in branches.items()
    )
    return Conditional[Any].from_node(ir.RouteNode(key=key, rules=rules))
