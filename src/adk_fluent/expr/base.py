"""`Expr`: a thin, immutable, typed handle on an IR node, and the operators that join expressions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self, TypeVar, cast, overload

from adk_fluent.errors import ArgumentError, ExpressionError, UnknownMethodError
from adk_fluent.expr.arguments import describe, observer, unpacked, with_argument
from adk_fluent.expr.declarations import Declarations
from adk_fluent.expr.terminals import Terminals
from adk_fluent.ir.adk_objects import is_native
from adk_fluent.ir.annotations import ContextSpec, InstructionSpec
from adk_fluent.ir.base import UNSET, Node
from adk_fluent.ir.execution import STEP_BY_STEP, Wrapped
from adk_fluent.ir.frozen import note_use
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.node_names import check_name, written
from adk_fluent.ir.nodes import (
    AgentNode,
    LoopNode,
    ParallelNode,
    PieceFn,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
    StepFn,
    TapFn,
    TapNode,
    TimeoutNode,
    TransformFn,
    TransformNode,
)
from adk_fluent.ir.predicates import Match, Predicate
from adk_fluent.tools.sources import AgentTool
from adk_fluent.tools.spec import checked, each

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent as NativeAgent
    from google.adk.plugins.base_plugin import BasePlugin

    from adk_fluent.expr.workflow import Fallback, FanOut, Loop, Pipeline, Until
    from adk_fluent.middleware.protocol import Middleware
    from adk_fluent.state.schema import StateSchema

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


class Expr(Terminals[T_co], Declarations):
    """Base class of all expressions, which users compose and terminals run.

    Expressions never change: each method returns a new one. They compare and hash by structure, so you can
    share and store them, and use one in several pipelines. The type parameter is the type that `ask` returns.

    Attributes:
        node: the expression's IR node.
        name: the expression's name, or an empty text.
    """

    __slots__ = ("__weakref__", "_node")

    _what: ClassVar[str] = "step"

    if TYPE_CHECKING:
        _node: Any
        """The node; the `node` property of each class states its type."""

    def __init__(self) -> None:
        raise ExpressionError(f"{type(self).__name__} is not built directly; compose expressions instead.")

    @classmethod
    def from_node(cls, node: Node) -> Self:
        """Make an expression of this class from a node."""
        made = object.__new__(cls)
        object.__setattr__(made, "_node", node)
        return made

    @property
    def node(self) -> Node:
        """The expression's IR node."""
        return self._node

    @property
    def name(self) -> str:
        """The expression's name; empty if it has none."""
        return self.node.name

    def to_ir(self) -> Node:
        """Return the frozen tree of IR nodes.

        >>> from adk_fluent import Agent
        >>> (Agent("a") >> Agent("b")).to_ir().kind
        'sequence'
        """
        return self.node

    # --- changing a field: used by every builder method -------------------------------------------

    def _set(self, **fields: object) -> Self:
        return self.from_node(self.node.updated(fields))

    def _append(self, field: str, *values: object) -> Self:
        present = getattr(self.node, field)
        return self._set(**{field: (*(() if present is UNSET else present), *values)})

    def _hook(self, field: str, *functions: object) -> Self:
        method = field.removesuffix("_callback")
        for fn in functions:
            if not callable(fn) or isinstance(fn, Expr | type):
                given = cast(object, fn)
                raise ArgumentError(
                    f"{method}() takes functions, not {describe(given)}.{unpacked(given, method)}"
                )
        return self._append(field, *functions)

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
        from adk_fluent.expr.workflow import Pipeline

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
        from adk_fluent.expr.workflow import FanOut, Pipeline

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
        from adk_fluent.expr.workflow import Fallback

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
        if not is_native(other):
            raise ArgumentError(
                f"{operator} takes an expression on its left, not {describe(other)}. "
                f"Write {self.name or 'agent'} {operator} {function_name(other, 'fn')}."
            )
        return lifted

    def __mul__(self, rounds: int | Until) -> Loop[T_co]:
        """Run this again and again: `n` times, or `until(predicate, max=n)`."""
        from adk_fluent.expr.workflow import Loop, Until

        if isinstance(rounds, Until):
            return Loop(self, max_iterations=rounds.max).until(rounds.predicate)
        if callable(rounds):
            me, test = self.name or "a", function_name(rounds, "fn")
            raise ArgumentError(
                f"* takes a number of rounds, not {describe(rounds)}; wrap it: {me} * until({test}, max=10)."
            )
        return Loop(self, max_iterations=rounds)

    if not TYPE_CHECKING:  # a type checker reports these operands itself

        def __rmul__(self, other: object) -> Never:
            hint = f" Write {self.name or 'agent'} * {other!r}." if isinstance(other, int) else ""
            raise ArgumentError(f"* takes the expression on its left, not {describe(other)}.{hint}")

        def __rmatmul__(self, other: object) -> Never:
            hint = f" Write {self.name or 'agent'} @ {other.__name__}." if isinstance(other, type) else ""
            raise ArgumentError(f"@ takes the agent on its left, not {describe(other)}.{hint}")

    # --- what every expression can do -------------------------------------------------------------

    def named(self, name: str) -> Self:
        """Return the same expression with another name.

        Raises:
            InvalidNameError: ADK would reject the name.
        """
        return self._set(name=check_name(name, self._what))

    def timeout(self, seconds: float) -> Timeout[T_co]:
        """Cancel this expression after `seconds` of work and raise `AgentTimeoutError`.

        Time does not count while an event is stored, or while the program that reads the stream handles it.

        >>> from adk_fluent import Agent
        >>> Agent("slow").timeout(30).node.seconds
        30
        """
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < inf:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"timeout() takes a positive number of seconds, not {seconds!r}.")
        return Timeout[T_co].from_node(TimeoutNode(body=self.node, seconds=seconds))

    def schema(self, schema: type[StateSchema]) -> Self:
        """Bind a `StateSchema` to this expression: checks use it, and a run enforces it.

        If an agent or step in this expression writes a session key that the schema does not declare, or a
        value of another type, the run raises an error before the value reaches the session.

        Raises:
            ArgumentError: `schema` is not a subclass of `StateSchema`.
            StateKeyError: at run time, an undeclared key was written; the message names agent and key.
            StateTypeError: at run time, a value had the wrong type; the message names agent and key.
        """
        from adk_fluent.state.schema import StateSchema

        if not isinstance(schema, type) or not issubclass(schema, StateSchema):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"schema() takes a subclass of StateSchema, not {describe(schema)}.")
        return self._set(annotations=self.node.annotations.replace(schema=schema))

    def middleware(self, *middleware: Middleware | BasePlugin) -> Self:
        """Put middleware around everything in this expression; the first object is the outermost.

        The middleware of an enclosing expression is further out. An object that is attached twice acts once,
        at the outer place. Hooks around a whole run are called once per run, for any part of the expression
        that has them. `build()` returns an agent without plugins: give ADK the result of `to_app()` instead.

        Args:
            middleware: objects with hooks; see `adk_fluent.middleware.Middleware`. ADK's own plugins, too.

        Raises:
            ArgumentError: an object is not middleware, or one of its hooks has a wrong signature.

        >>> from adk_fluent import Agent
        >>> from adk_fluent.middleware import Middleware
        >>> class Counting(Middleware):
        ...     asked = 0
        ...     async def before_model(self, ctx, request):
        ...         self.asked += 1
        >>> len(Agent("a").middleware(Counting()).node.annotations.middleware)
        1
        """
        from adk_fluent.middleware.checking import attached

        added = attached(middleware, "middleware()")
        return self._say(middleware=(*self.node.annotations.middleware, *added))

    @overload
    def tap(self, fn: TapFn) -> Pipeline[T_co]: ...
    @overload
    def tap(self, fn: PieceFn) -> Pipeline[T_co]: ...
    def tap(self, fn: TapFn | PieceFn) -> Pipeline[T_co]:
        """Call `fn` with the state after this expression has run; `fn` cannot change the state."""
        return self >> Step.from_node(TapNode(fn=observer(fn, "tap()")))

    def artifacts(self, *operations: Expr[Any]) -> Pipeline[T_co]:
        """Run `A` operations after this, in order.

        Raises:
            ArgumentError: no operation is given, or an argument is not an `A` operation.

        >>> from adk_fluent import A, Agent
        >>> Agent("writer").writes("report").artifacts(A.publish("report.md"))
        Pipeline(writer, publish)
        """
        from adk_fluent.expr.artifacts import artifact_steps

        if not operations:
            raise ArgumentError("artifacts() needs at least one A operation, such as A.publish('report.md').")
        whole: Expr[Any] = self
        for operation in operations:
            artifact_steps(operation, "artifacts()")
            whole = whole >> operation
        return cast("Pipeline[T_co]", whole)

    def until(self, predicate: Predicate) -> Loop[T_co]:
        """Repeat this until `predicate(state)` holds, at most 10 times; see `Loop`."""
        from adk_fluent.expr.workflow import Loop

        return Loop(self).until(predicate)

    def proceed_if(self, predicate: Predicate) -> Conditional[T_co]:
        """Run this only if `predicate(state)` holds; what follows runs either way."""
        test = observer(predicate, "proceed_if()")
        return Conditional[T_co].from_node(RouteNode(rules=((test, self.node),)))

    # --- values -----------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.node == cast("Expr[Any]", other).node

    def __hash__(self) -> int:
        return hash(self.node)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[[Node], Self], tuple[Node]]:
        return type(self).from_node, (self.node,)

    def __repr__(self) -> str:
        names = [written(child) for child in self.node.children]
        inside = ", ".join([repr(self.name)] * bool(self.name) + names)
        return f"{type(self).__name__}({inside if len(inside) <= 200 else f'{inside[:200]}…'})"

    if not TYPE_CHECKING:  # a type checker that saw these would accept any attribute

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(
                f"Expressions do not change; .{name} cannot be set. Each method returns a new one."
            )

        def __delattr__(self, name: str) -> None:
            raise AttributeError(f"Expressions do not change; .{name} cannot be deleted.")

        def __getattr__(self, name: str) -> Never:
            if name.startswith("_"):
                raise AttributeError(name)
            kind = type(self)
            raise UnknownMethodError(f"{kind.__name__} has no method {name!r}{_instead(kind, name)}")


@lru_cache(maxsize=256)
def _instead(cls: type[Expr[Any]], name: str) -> str:
    """The end of the message "has no method": the class that has the method, or the nearest name.

    The result is cached, because programs that test an object (`hasattr(x, "root_agent")`) do so repeatedly.
    """
    from adk_fluent.expr.agent import Agent
    from adk_fluent.expr.arguments import generating, nearest

    call = f"{name}()" if hasattr(Agent, name) else generating(name)
    if call is not None and cls is not Agent:
        its = "its agents have prompts" if name in _PROMPTS else "that is for its agents"
        return f": {its}. Call .{call} on an Agent, before it is joined with others."
    known = {n for kind in (cls, Agent) for n in dir(kind) if not n.startswith("_")}
    return f".{nearest(name, sorted(known))}"


_PROMPTS = ("instruct", "instruction", "static", "global_instruct", "prompt")


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


def lift(value: object, where: str, before: Expr[Any] | Node | None = None) -> Expr[Any]:
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
    if is_native(value):
        return adopted(value)
    if isinstance(value, Mapping):
        return _route_of(cast("Mapping[Any, Any]", value), before)
    if callable(value) and not isinstance(value, type):
        return Step.from_node(TransformNode(fn=cast(TransformFn, with_argument(value, where))))
    hint = f" Did you mean Agent({value!r})?" if isinstance(value, str) else ""
    if isinstance(value, ContextSpec):
        hint = " A C spec belongs to an agent: Agent(...).context(...)."
    if isinstance(value, InstructionSpec):
        hint = " A P prompt belongs to an agent: Agent(...).instruct(...)."
    hint = hint or _one_by_one(value, where)
    raise ArgumentError(
        f"{where} takes an expression or a function of the state, not {describe(value)}.{hint}"
    )


def adopted(value: object, declare: Mapping[str, object] | None = None) -> Expr[Any]:
    """Convert a native agent into an expression; see `adk_fluent.adopt.adopt`."""
    from adk_fluent.adopt.reading.native_trees import read
    from adk_fluent.expr.agent import Agent
    from adk_fluent.expr.remote import RemoteAgent
    from adk_fluent.expr.workflow import FanOut, Loop, Pipeline

    node = read(value, declare)
    kinds: Mapping[type[Node], type[Expr[Any]]] = {
        AgentNode: Agent,
        SequenceNode: Pipeline,
        ParallelNode: FanOut,
        LoopNode: Loop,
        RemoteAgentNode: RemoteAgent,
    }
    kind = cast("type[Expr[Any]]", kinds.get(type(node), Expr))
    return kind.from_node(node)


def usable_tools(value: object) -> tuple[object, ...]:
    """The single tools of a value, checked; an agent of ADK's becomes a tool that runs it.

    Raises:
        ArgumentError: an agent cannot have the value as a tool.
    """
    if is_native(value) and hasattr(value, "sub_agents"):  # ADK accepts no agent as a tool
        return (AgentTool(adopted(value).node),)
    parts = each(checked(value))
    return parts if len(parts) == 1 else tuple(one for part in parts for one in usable_tools(part))


def _one_by_one(values: object, where: str) -> str:
    """The hint for a list of expressions: the same without the list; empty for other values."""
    listed = list(cast("Collection[object]", values)) if isinstance(values, list | tuple | set) else []
    steps = [cast("Expr[Any]", value) for value in listed if isinstance(value, Expr)]
    if not steps or len(steps) < len(listed):
        return ""
    names = [step.name or step.node.label for step in steps]
    if len(names) == 1:
        return " Take it out of the list."
    if where in ("Pipeline()", "FanOut()", "race()"):
        return f" Unpack the list: {where[:-1]}*steps)."
    if where in ("|", "//"):
        return f" Write {where} {f' {where} '.join(names)}."
    start, together, in_order = ">> " * (where == ">>"), " | ".join(names), " >> ".join(names)
    return f" Write {start}({together}) to run them at the same time, or {start}{in_order} one after another."


def _route_of(branches: Mapping[Any, Any], before: Expr[Any] | Node | None) -> Expr[Any]:
    if not branches:
        raise ExpressionError("A route needs at least one branch; the dict after >> is empty.")
    node = before.node if isinstance(before, Expr) else before
    key = None if node is None else _written_by(node)
    if key is None:
        raise ExpressionError(
            "A dict after >> routes on the key that the agent before it writes, but that agent writes none. "
            "Add .writes('key') to it, or use Route('key')."
        )
    rules = tuple(
        (Match(key, "eq", value), lift(branch, "a route").node) for value, branch in branches.items()
    )
    return Conditional[Any].from_node(RouteNode(key=key, rules=rules))


def _written_by(node: Node) -> str | None:
    """The key that the last agent of `node` writes, if it writes exactly one; else `None`."""
    while isinstance(node.runs, (*STEP_BY_STEP, Wrapped)) and node.children:
        node = node.children[-1]
    if not (agent := node.agent):
        return None
    if isinstance(agent.output_key, str):
        return agent.output_key
    return agent.written_fields[0].key if len(agent.written_fields) == 1 else None
