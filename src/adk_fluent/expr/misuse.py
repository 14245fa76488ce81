"""Errors for uses that expressions, conversations and streams do not have; each says what to write instead.

A method that another protocol looks for, such as `__call__` or `__await__`, is not here: frameworks would
take an expression for a function or a coroutine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Never, cast

from adk_fluent.errors import ArgumentError, RunError
from adk_fluent.expr.arguments import describe
from adk_fluent.ir.adk_objects import is_native
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.graph import written

if TYPE_CHECKING:
    from types import AsyncGeneratorType, TracebackType

    from adk_fluent.backends.events import AgentEvent

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
    is_expression = isinstance(getattr(value, "node", None), Node) or is_native(value)
    return is_expression or (callable(value) and not isinstance(value, type))


def _shown(step: object) -> str:
    """A step, as users may have written it."""
    node = getattr(step, "node", None)
    if isinstance(node, Node):
        return written(node, inner=True)
    return str(getattr(step, "name", "")) or function_name(step, "fn")


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
    """Base of `Expr` with the operators that it does not have; as a value, an expression is always true."""

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


for _name, (_sign, _instead) in _OPERATORS.items():
    _problem = f"{_sign} does not join expressions."
    setattr(RefusedOperators, f"__{_name}__", _refusal(_problem, _instead))
    setattr(RefusedOperators, f"__r{_name}__", _refusal(_problem, _instead, swapped=True))
for _name, _instead in _COMPARISONS.items():
    setattr(RefusedOperators, f"__{_name}__", _refusal("Expressions have no order to compare.", _instead))


class OpenedAsync:
    """Base of classes that `async with` opens; a plain `with` raises an error that says so."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker reports `with` itself

        def __enter__(self) -> Never:
            raise ArgumentError(
                f"A {type(self).__name__} is opened by `async with`, inside an async function, not by `with`."
            )

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
        ) -> None: ...


class EventStream(AsyncGenerator["AgentEvent", None]):
    """The events of one run, read once by `async for`; a second loop over a stream that ended is an error.

    Its methods return what the generator's own do, so that no traceback shows a frame of this class.
    """

    def __init__(self, events: AsyncGenerator[AgentEvent, None]) -> None:
        self._events = cast("AsyncGeneratorType[AgentEvent, None]", events)

    def __aiter__(self) -> EventStream:
        if self._events.ag_frame is None:
            raise RunError(
                "This stream has ended, and its events are gone. Call stream() again for a new run, "
                "or keep the events in a list."
            )
        return self

    def __anext__(self) -> Any:
        return self._events.__anext__()

    def asend(self, value: None) -> Any:
        """Do the same as `anext`."""
        return self._events.asend(value)

    def athrow(self, *error: Any) -> Any:
        """Raise an error inside the run."""
        return self._events.athrow(*error)

    def aclose(self) -> Any:
        """End the run, and cancel its model calls."""
        return self._events.aclose()

    if not TYPE_CHECKING:  # a type checker reports `for` itself

        def __iter__(self) -> Never:
            raise ArgumentError(
                "A stream is read by `async for`, inside an async function, not by `for`. "
                "Elsewhere, use ask(), which waits for the answer."
            )
