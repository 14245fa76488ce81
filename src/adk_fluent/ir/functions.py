"""The user's functions inside nodes: the state keys that they use, their names and their import paths."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeVar, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.state_keys import NO_SIGHTINGS, Sighting, Sightings, StateFieldRef, state_key

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__adk_fluent_declares__"
_IDEMPOTENT = "__adk_fluent_idempotent__"


@frozen
class Access(Frozen):
    """The state keys that a function reads and writes, as far as they are known.

    Attributes:
        reads: keys that it reads, scope prefix included.
        writes: keys that it writes.
        reads_known: False if it may read other keys, too.
        writes_known: False if it may write other keys, too.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    reads_known: bool = True
    writes_known: bool = True

    def __or__(self, other: Access) -> Access:
        if not self.given or not other.given:  # one of them touches nothing
            return other if other.given else self
        return Access(
            self.reads | other.reads,
            self.writes | other.writes,
            self.reads_known and other.reads_known,
            self.writes_known and other.writes_known,
        )


NO_ACCESS: Final = Access()
UNKNOWN_ACCESS: Final = Access(reads_known=False, writes_known=False)


def declares(
    *,
    reads: Iterable[str | StateFieldRef] = (),
    writes: Iterable[str | StateFieldRef] = (),
    idempotent: bool | None = None,
) -> Callable[[F], F]:
    """Tell the checker which state keys a function, predicate, transform or tool touches.

    Args:
        reads: keys the function reads, scope prefix included, or fields of a schema.
        writes: keys the function writes.
        idempotent: for a tool, True if two calls have the same effect as one. A tool with `False` is never
            called again, also if a middleware retries. Given alone, it declares nothing about keys.

    Example:
        >>> @declares(reads=["draft"], writes=["words"])
        ... def count(state):
        ...     return {"words": len(state["draft"].split())}
        >>> sorted(access(count).writes)
        ['words']
    """
    if isinstance(reads, str) or isinstance(writes, str):
        raise ArgumentError("declares() takes collections of keys: write reads=['key'], not reads='key'.")
    if idempotent not in (None, True, False):
        raise ArgumentError(f"declares(idempotent=) is True or False, not {idempotent!r:.40}.")
    facts = Access(keys_of(reads, "declares()", "reads"), keys_of(writes, "declares()", "writes"))
    marks: dict[str, object] = {} if idempotent is None else {_IDEMPOTENT: idempotent}
    if facts.given or idempotent is None:
        marks[_ATTRIBUTE] = facts

    def mark(fn: F) -> F:
        try:
            for name, value in marks.items():
                setattr(fn, name, value)
        except AttributeError:  # built-ins and bound methods take no attributes

            @functools.wraps(fn)
            def marked(*args: Any, **kwargs: Any) -> Any:
                return fn(*args, **kwargs)

            for name, value in marks.items():
                setattr(marked, name, value)
            return cast(F, marked)
        return fn

    return mark


def keys_of(keys: Iterable[str | StateFieldRef], where: str, argument: str) -> frozenset[str]:
    """The state keys that a user gives, as texts or as fields of a schema.

    Raises:
        ArgumentError: `keys` is one key instead of a collection, or a member is not a key.
    """
    if isinstance(keys, str | StateFieldRef):
        raise ArgumentError(f"{where} takes collections of keys: write {argument}=[{str(keys)!r}].")
    if not isinstance(keys, Iterable) or isinstance(keys, type | Frozen):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
        raise ArgumentError(f"{where[:-1]}{argument}=) takes a list of state keys, not {keys!r:.40}.")
    return frozenset(state_key(key, f"{where[:-1]}{argument}=)") for key in keys)


def access(*functions: object) -> Access:
    """The state keys that functions use together: those they declare or their source shows, else unknown.

    `None` counts as no function. A callable value may declare its keys in an attribute `access`.

    >>> sorted(access(lambda state: state["draft"] and state.get("score", 0) > 7).reads)
    ['draft', 'score']
    """
    total = NO_ACCESS
    for fn in functions:
        if fn is not None:
            facts = said(fn)
            total |= shown_access(fn) if facts is None else facts
    return total


def step_access(fn: object) -> Access:
    """The state keys that a function uses as a step, including the keys of the dict that it returns."""
    if (facts := said(fn)) is not None:
        return facts
    seen = shown_by(fn)
    reads = _keys(seen.reads) if seen.whole else frozenset[str]()
    known = seen.whole and seen.returns_known
    return Access(reads, _keys(seen.returns) if known else frozenset(), seen.whole, known)


def shown_access(fn: object) -> Access:
    """The state keys that a call of a function uses, as its source shows; its result does not count."""
    seen = shown_by(fn) if callable(fn) else NO_SIGHTINGS
    return Access(_keys(seen.reads), _keys(seen.writes)) if seen.whole else UNKNOWN_ACCESS


def _keys(found: tuple[Sighting, ...]) -> frozenset[str]:
    return frozenset(one.key for one in found)


def said(fn: object) -> Access | None:
    """The access that a function declares; `None` if it declares nothing."""
    facts = getattr(fn, _ATTRIBUTE, None) or getattr(fn, "access", None)
    return facts if isinstance(facts, Access) else None


def shown_by(fn: object) -> Sightings:
    """The uses of state that the source of a function shows, whether it declares them or not."""
    from adk_fluent.ir.source import sightings  # only functions that declare nothing need it

    return sightings(fn) if source_is_read() else NO_SIGHTINGS


def shown_around(middleware: object) -> Sightings:
    """Read from source which keys the hooks of a user's middleware, or of an ADK plugin, write.

    A plugin's hook before a run or an agent has always run by then; any other hook need not. The result is
    not `whole` if a hook uses the state in a way that its source does not show.
    """
    kinds = type(middleware).__mro__
    known = {name for kind in kinds if kind.__module__.startswith(_FRAMEWORKS) for name in vars(kind)}
    own = {name: None for kind in kinds if not kind.__module__.startswith(_FRAMEWORKS) for name in vars(kind)}
    writes: list[Sighting] = []
    whole = True
    for name in own:
        hook = getattr(type(middleware), name)
        if name.startswith("_") or name not in known or not isinstance(hook, FunctionType):
            continue
        seen = shown_by(getattr(middleware, name))
        writes += (one.replace(always=one.always and name in _AHEAD) for one in seen.writes)
        whole = whole and (seen.whole or "state" not in hook.__code__.co_names)
    return Sightings(writes=tuple(writes), whole=whole)


_FRAMEWORKS: Final = ("google.", "adk_fluent.", "builtins", "abc")
_AHEAD: Final = frozenset({"before_agent_callback", "before_run_callback"})


def source_is_read() -> bool:
    """True if `access` reads the source of functions that declare nothing."""
    return _reads_source.get()


@contextmanager
def source_unread() -> Generator[None]:
    """Inside, let `access` return only what functions declare.

    The stored form of a graph must not depend on whether the source is available.
    """
    token = _reads_source.set(False)
    try:
        yield
    finally:
        _reads_source.reset(token)


_reads_source: Final = ContextVar("adk_fluent_reads_source", default=True)


def declared_idempotent(fn: object) -> bool | None:
    """True or False as a function declares `idempotent`; `None` if it does not."""
    return getattr(fn, _IDEMPOTENT, None)


def only_reads(fn: object, where: str) -> None:
    """Check that a function which may only read the state declares no writes.

    Args:
        fn: a predicate or a tap.
        where: the method that takes it, for the message.

    Raises:
        ArgumentError: the function declares keys that it writes.

    >>> @declares(writes=["seen"])
    ... def once(state):
    ...     return not state.get("seen")
    >>> only_reads(once, "until()")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ArgumentError: until(): 'once' declares that it writes 'seen'
    """
    if keys := sorted((said(fn) or NO_ACCESS).writes):
        raise ArgumentError(
            f"{where}: {function_name(fn, '<lambda>')!r} declares that it writes "
            f"{', '.join(map(repr, keys))}, and here it can only read. Write in a separate step: "
            "a function of the state that returns a dict, or S.set(...)."
        )


def takes_pieces(fn: object) -> bool:
    """True if a function takes an answer as it is generated: its first parameter is `AsyncIterator[str]`.

    >>> from collections.abc import AsyncIterator
    >>> async def count(pieces: AsyncIterator[str]) -> dict[str, int]:
    ...     return {"pieces": len([piece async for piece in pieces])}
    >>> takes_pieces(count), takes_pieces(len)
    (True, False)
    """
    target = fn.func if isinstance(fn, functools.partial) else fn
    notes: dict[str, object] = getattr(target, "__annotations__", None) or {}
    if not notes and not isinstance(target, type):  # an object that can be called
        notes = getattr(vars(type(target)).get("__call__"), "__annotations__", None) or {}
    first = next((note for name, note in notes.items() if name != "return"), None)
    text = first if isinstance(first, str) else str(first)
    return text.rpartition(".")[2] in _PIECES


_PIECES: Final = frozenset(f"Async{kind}[str]" for kind in ("Iterator", "Iterable")) | {
    "AsyncGenerator[str, None]",
    "AsyncGenerator[str]",
}


def function_name(fn: object, default: str) -> str:
    """An identifier for a step of this function: the function's name, or `default` for a lambda."""
    name = getattr(fn, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else default


def bound_values(fn: FunctionType, rebound: Collection[int]) -> list[object]:
    """The values in a function's defaults and closure that cannot change; for other values, their types.

    A list that grows, a client, or a counter that the function rebinds (`nonlocal`) is another value in each
    run of the same function.

    Args:
        rebound: the IDs of the cells that some function rebinds, as `rebound_cells` returns them.
    """
    cells = fn.__closure__ or ()
    held = [cell.cell_contents for cell in cells if id(cell) not in rebound and cell != CellType()]
    named = sorted((fn.__kwdefaults__ or {}).items())
    return [lasting(item) for item in (*(fn.__defaults__ or ()), *named, *held)]


def lasting(value: object) -> object:
    """The value if it cannot change, else its type."""
    match value:
        case None | bool() | int() | float() | str() | bytes() | Enum() | Frozen() | type():
            return value
        case FunctionType() | BuiltinFunctionType() | MethodType():
            return value
        case tuple() if type(cast(object, value)) is tuple:
            return tuple(map(lasting, cast("tuple[object, ...]", value)))
        case frozenset():
            return frozenset(map(lasting, cast("frozenset[object]", value)))
        case _:
            return type(value)


def rebound_cells(functions: Iterable[object]) -> frozenset[int]:
    """The IDs of the closure cells that one of these functions, or a nested one, rebinds (`nonlocal`).

    Functions in their closures count, too. Values that are not functions are ignored.
    """
    found: set[int] = set()
    seen: set[int] = set()
    left = list(functions)
    while left:
        fn = left.pop()
        if isinstance(fn, functools.partial):
            left.append(cast("functools.partial[object]", fn).func)
        elif isinstance(fn, MethodType):
            left.append(fn.__func__)
        elif isinstance(fn, FunctionType) and id(fn) not in seen:
            seen.add(id(fn))
            cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
            found |= {id(cells[name]) for name in _rebound(fn.__code__)}
            left += [cell.cell_contents for cell in cells.values() if cell != CellType()]
    return frozenset(found)


@functools.cache
def _rebound(code: CodeType) -> frozenset[str]:
    """The names of enclosing functions that a function rebinds."""
    own = {
        each.argval for each in dis.get_instructions(code) if each.opname in ("STORE_DEREF", "DELETE_DEREF")
    }
    inner = (_rebound(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(own.union(*inner)) & frozenset(code.co_freevars)


def import_path(target: object) -> str | None:
    """The path `module:qualname` at which `target` can be found again; `None` if it cannot."""
    module, qualname = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        return None
    path = f"{module}:{qualname}"
    return path if find(path) is target else None


def find(path: str) -> object | None:
    """The object at `module:qualname` in an imported module, or `None`.

    The function imports nothing and computes no attribute (a module may import in its `__getattr__`), so
    loading a stored graph runs no code.
    """
    module, _, qualname = path.partition(":")
    found: object | None = sys.modules.get(module)
    if not isinstance(found, ModuleType):
        return None
    for part in qualname.split("."):
        if not isinstance(found, type) and found is not sys.modules[module]:
            return None
        found = vars(found).get(part)
    return found.__func__ if isinstance(found, staticmethod) else found
