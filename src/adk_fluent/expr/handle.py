"""`Handle`: an immutable, typed value around an IR node; what expressions are beside their operators."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.arguments import describe, no_method, unpacked
from adk_fluent.expr.declarations import Declarations
from adk_fluent.expr.terminals import Terminals
from adk_fluent.ir.annotations import ContextSpec, InstructionSpec
from adk_fluent.ir.base import UNSET, Node
from adk_fluent.ir.execution import STEP_BY_STEP, Wrapped
from adk_fluent.ir.graph import check_name, written
from adk_fluent.ir.nodes import agent_of

if TYPE_CHECKING:
    from google.adk.plugins.base_plugin import BasePlugin

    from adk_fluent.middleware.protocol import Middleware
    from adk_fluent.state.schema import StateSchema

T_co = TypeVar("T_co", covariant=True)


class Handle(Terminals[T_co], Declarations):
    """Base of `Expr`: it holds a node, and makes new expressions of the same class from changed nodes."""

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
            if not callable(fn) or isinstance(fn, Handle | type):
                given = cast(object, fn)
                raise ArgumentError(
                    f"{method}() takes functions, not {describe(given)}.{unpacked(given, method)}"
                )
            no_method(fn, f"{method}()")
        return self._append(field, *functions)

    # --- what every expression can do -------------------------------------------------------------

    def named(self, name: str) -> Self:
        """Return the same expression with another name.

        Raises:
            InvalidNameError: ADK would reject the name.
        """
        return self._set(name=check_name(name, self._what))

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

    # --- values -----------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and self.node == cast("Handle[Any]", other).node

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


class Chain(Handle[T_co]):
    """Base of the expressions that an associative operator makes.

    `a >> b >> c` stores its two sides only. The first access to `node` flattens all sides into one node.
    Flattening at each operator would copy the members again and again: quadratic time for a long chain.
    """

    __slots__ = ("_sides",)

    _plain: ClassVar[Node]
    """The node without children; a node is flattened only if it differs from this one by its children."""

    @classmethod
    def joined(cls, left: Handle[Any], right: Handle[Any]) -> Self:
        """Join two sides to one expression."""
        made = object.__new__(cls)
        object.__setattr__(made, "_node", None)
        object.__setattr__(made, "_sides", (left, right))
        return made

    @property
    def node(self) -> Node:
        """The node, with all members."""
        if self._node is None:
            object.__setattr__(self, "_node", self._plain.with_children(self._flat()))
            object.__setattr__(self, "_sides", None)
        return cast(Node, self._node)

    def _flat(self) -> tuple[Node, ...]:
        flat: list[Node] = []
        pending: list[Handle[Any]] = [self]
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


def no_step(value: object, where: str) -> ArgumentError:
    """The error for a value that cannot be a step, with a hint at what was meant.

    Args:
        where: the operator or method, for the message.
    """
    hint = f" Did you mean Agent({value!r})?" if isinstance(value, str) else ""
    if isinstance(value, ContextSpec):
        hint = " A C spec belongs to an agent: Agent(...).context(...)."
    if isinstance(value, InstructionSpec):
        hint = " A P prompt belongs to an agent: Agent(...).instruct(...)."
    hint = hint or _one_by_one(value, where)
    return ArgumentError(
        f"{where} takes an expression or a function of the state, not {describe(value)}.{hint}"
    )


def _one_by_one(values: object, where: str) -> str:
    """The hint for a list of expressions: the same without the list; empty for other values."""
    listed = list(cast("Collection[object]", values)) if isinstance(values, list | tuple | set) else []
    steps = [cast("Handle[Any]", value) for value in listed if isinstance(value, Handle)]
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


def key_written_by(node: Node) -> str | None:
    """The key that the last agent of `node` writes, if it writes exactly one; else `None`."""
    while isinstance(node.runs, (*STEP_BY_STEP, Wrapped)) and node.children:
        node = node.children[-1]
    if not (agent := agent_of(node)):
        return None
    if isinstance(agent.output_key, str):
        return agent.output_key
    return agent.written_fields[0].key if len(agent.written_fields) == 1 else None
