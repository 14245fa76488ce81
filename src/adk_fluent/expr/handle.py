"""`Handle`: an immutable, typed value around an IR node; what expressions are beside their operators.

`RefusedOperators` has the errors for operators and uses that expressions do not have; each says what to write
instead. A method that another protocol looks for, such as `__call__` or `__await__`, is not there: frameworks
would take an expression for a function or a coroutine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, Self, TypeVar, cast

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.arguments import describe, no_method, unpacked
from adk_fluent.expr.declarations import Declarations
from adk_fluent.expr.terminals import Terminals
from adk_fluent.ir import UNSET, Node, adk_objects, functions, graph

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

    def _hook(self, field: str, *callbacks: object) -> Self:
        method = field.removesuffix("_callback")
        for fn in callbacks:
            if not callable(fn) or isinstance(fn, Handle | type):
                given = cast(object, fn)
                raise ArgumentError(
                    f"{method}() takes functions, not {describe(given)}.{unpacked(given, method)}"
                )
            no_method(fn, f"{method}()")
        return self._append(field, *callbacks)

    # --- what every expression can do -------------------------------------------------------------

    def named(self, name: str) -> Self:
        """Return the same expression with another name.

        Raises:
            InvalidNameError: ADK would reject the name.
        """
        return self._set(name=graph.check_name(name, self._what))

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
        names = [graph.written(child) for child in self.node.children]
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


# --- uses that expressions do not have ------------------------------------------------------------

_IN_ORDER: Final = "Write {left} >> {right} to run them one after another"
_REVERSED: Final = "Write {right} >> {left} to run them one after another."
_OPERATORS: Final[Mapping[str, tuple[str, str]]] = {
    "add": ("+", f"{_IN_ORDER}, or {{left}} | {{right}} to run them at the same time."),
    "sub": ("-", f"{_IN_ORDER}."),
    "and": ("&", f"{_IN_ORDER}, or {{left}} | {{right}} to run them at the same time."),
    "truediv": ("/", "Write {left} // {right} to run {right} if {left} fails."),
    "lshift": ("<<", _REVERSED),
}
"""Name of a special method → the operator, and what to write instead."""
_COMPARISONS: Final = {"gt": f"{_IN_ORDER}.", "ge": f"{_IN_ORDER}.", "lt": _REVERSED, "le": _REVERSED}
"""What to write instead of a comparison. Python asks `b < a` if the left side of `a > b` has no answer."""


def _is_step(value: object) -> bool:
    is_expression = isinstance(getattr(value, "node", None), Node) or adk_objects.is_native(value)
    return is_expression or (callable(value) and not isinstance(value, type))


def _shown(step: object) -> str:
    """A step, as users may have written it."""
    node = getattr(step, "node", None)
    if isinstance(node, Node):
        return graph.written(node, inner=True)
    return str(getattr(step, "name", "")) or functions.function_name(step, "fn")


def _refusal(problem: str, instead: str, *, swapped: bool = False) -> Callable[[object, object], Never]:
    """The special method for an operator that joins nothing; it says which operator does."""

    def refuse(self: object, other: object) -> Never:
        if not _is_step(other):
            hint = " To join a list, write Pipeline(*steps) or FanOut(*steps)." if other == 0 else ""  # sum()
            raise ArgumentError(f"{problem} One side is {describe(other)}.{hint}")
        left, right = map(_shown, (other, self) if swapped else (self, other))
        raise ArgumentError(f"{problem} {instead.format(left=left, right=right)}")

    return refuse


class RefusedOperators:
    """Base of `Expr` with the operators and changes that it refuses; as a value, it is always true."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker reports these itself

        def __bool__(self) -> bool:
            return True  # `agent or default` is common; with `__len__` alone, Python would ask for the length

        def __len__(self) -> Never:
            raise ArgumentError(
                "An expression has no length. len(expression.node.children) counts its members."
            )

        def __getitem__(self, key: object) -> Never:  # `for` and `in` ask it, too, as there is no `__iter__`
            raise ArgumentError(
                "An expression is not a list: it has no [...], no loop and no `in`. "
                "Its members are in expression.node.children."
            )

        def __rmul__(self, other: object) -> Never:
            hint = f" Write {self.name or 'agent'} * {other!r}." if isinstance(other, int) else ""
            raise ArgumentError(f"* takes the expression on its left, not {describe(other)}.{hint}")

        def __rmatmul__(self, other: object) -> Never:
            hint = f" Write {self.name or 'agent'} @ {other.__name__}." if isinstance(other, type) else ""
            raise ArgumentError(f"@ takes the agent on its left, not {describe(other)}.{hint}")

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(
                f"Expressions do not change; .{name} cannot be set. Each method returns a new one."
            )

        def __delattr__(self, name: str) -> None:
            raise AttributeError(f"Expressions do not change; .{name} cannot be deleted.")


for _name, (_sign, _instead) in _OPERATORS.items():
    _problem = f"{_sign} does not join expressions."
    setattr(RefusedOperators, f"__{_name}__", _refusal(_problem, _instead))
    setattr(RefusedOperators, f"__r{_name}__", _refusal(_problem, _instead, swapped=True))
for _name, _instead in _COMPARISONS.items():
    setattr(RefusedOperators, f"__{_name}__", _refusal("Expressions have no order to compare.", _instead))
