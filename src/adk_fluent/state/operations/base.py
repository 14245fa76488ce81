"""What every `S` operation is, and the form in which one is stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar, cast

from adk_fluent.errors import ArgumentError, MissingKeyError, TransformError
from adk_fluent.ir.annotations import TransformSpec
from adk_fluent.ir.base import Node
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access, function_name, source_is_read, source_unread
from adk_fluent.ir.keys import KeyRead, KeyReads, Level
from adk_fluent.ir.matching import StateView, lost
from adk_fluent.ir.nodes import SequenceNode, TransformNode
from adk_fluent.ir.resources import Call
from adk_fluent.state.delta import ReadOnlyState, changes, differing
from adk_fluent.state.effects import Effect, OneOf, Packs, Unpacks

Changes = Mapping[str, Any]

# The types of the fields of operations. What a field is called says what it is for; these say what it takes.
Key = str
Keys = tuple[str, ...]
KeySet = frozenset[str]
Pairs = tuple[tuple[str, str], ...]
Constants = tuple[tuple[str, Any], ...]
Number = int | float
Text = str
ValueFn = Callable[[Any], Any]
Combine = Callable[..., Any] | None
Computed = tuple[tuple[str, Callable[[StateView], Any]], ...]
Steps = tuple[TransformNode, ...]
Cases = tuple[tuple[str, tuple[TransformNode, ...]], ...]

_put: Final = object.__setattr__
Found = TypeVar("Found")


class Described(TransformSpec):
    """Base of the operations of `S` and `A`: what each says of itself, and what follows from that.

    A subclass has its parameters as fields, and says its `name` and, where there is something to say, what it
    reads (`_reading`), its effects (`_doing`) and the user's functions in it.
    """

    __slots__ = ("_access", "_effects", "_reads")  # found when first asked for; no part of the value
    _access: Access
    _effects: tuple[Effect, ...]
    _reads: tuple[KeyRead, ...]

    name: ClassVar[str] = ""
    """What it is called in `S` or `A`, in stored graphs, and as a step."""

    # --- what it says about itself ----------------------------------------------------------------

    def _reading(self) -> KeyReads:
        return iter(())

    def _doing(self) -> Iterable[Effect]:
        return ()

    @property
    def functions(self) -> tuple[object, ...]:
        """The user's functions that it calls."""
        return ()

    @property
    def step_label(self) -> str:
        """What a step that runs it is called."""
        return self.name

    # --- what follows from that -------------------------------------------------------------------

    @property
    def reads(self) -> tuple[KeyRead, ...]:
        return self._once("_reads", lambda: tuple(self._reading()))

    @property
    def effects(self) -> tuple[Effect, ...]:
        return self._once("_effects", lambda: tuple(self._doing()))

    @property
    def access(self) -> Access:
        return self._once("_access", self._touched)

    def _once(self, slot: str, find: Callable[[], Found]) -> Found:
        """Find something once; anew while source is not read, since only what is stored asks so."""
        if not source_is_read():
            return find()
        try:
            return cast(Found, getattr(self, slot))
        except AttributeError:
            _put(self, slot, found := find())
            return found

    def _touched(self) -> Access:
        reads = [read.key for read in self.reads if read.via != "removal"]
        writes: list[str] = []
        reads_known = writes_known = True
        for effect in self.effects:
            reads += effect.reads
            writes += effect.writes
            reads_known = reads_known and effect.reads_known
            writes_known = writes_known and effect.writes_known
        own = Access(frozenset(reads), frozenset(writes), reads_known, writes_known)
        for effect in self.effects:
            for part in effect.parts:
                own |= part.access
        return own

    def calls(self) -> Iterator[Call]:
        for function in self.functions:
            yield Call(function, "its function", injected=False)
        for effect in self.effects:
            if isinstance(effect, OneOf):
                yield from (Call(test, "its condition", injected=False) for test, _ in effect.ways)
            for part in effect.parts:
                yield from (call._replace(injected=False) for call in part.calls())

    @property
    def names_keys_as_it_runs(self) -> bool:
        return any(isinstance(effect, Packs | Unpacks) for effect in self.effects)


class StateOperation(Described):
    """Base of the `S` operations: beside what each says of itself, what it does (`__call__`)."""

    elsewhere: ClassVar[frozenset[str]] = frozenset()
    """The fields that are not among its stored parameters, since something else that is stored says them."""

    def __init_subclass__(cls) -> None:
        OPERATIONS[cls.name] = cls

    def __call__(self, state: StateView, /) -> Changes:
        """What it changes: key → the value to write, `None` for a key that goes."""
        return {}

    # --- how it is stored -------------------------------------------------------------------------

    def as_stored(self) -> Operation:
        fields = (field for field in self._defaults if field not in self.elsewhere)
        with source_unread():
            touched = self.replace().access
        return Operation(self.name, tuple((field, getattr(self, field)) for field in fields), touched)

    @classmethod
    def restored(cls, params: Mapping[str, Any], access: Access) -> Self:
        """The operation that was stored with these parameters; what it touches follows from them."""
        return cls(**params)


OPERATIONS: Final[dict[str, type[StateOperation]]] = {}
"""Every operation by name; defining its class puts it here."""


@frozen
class Operation(Frozen):
    """An operation as stored graphs hold it.

    Attributes:
        name: which one.
        params: its parameters, as pairs.
        access: the state keys it touches.
    """

    __module__ = "adk_fluent.state.operations"  # where it stood when the first graphs were stored

    name: str
    params: tuple[tuple[str, Any], ...] = ()
    access: Access = NO_ACCESS

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> StateOperation:
        stored = cls(**values)
        found = OPERATIONS.get(stored.name)
        if found is None:
            raise ValueError(f"S has no operation {stored.name!r}")
        return found.restored(dict(stored.params), stored.access)


# --- what operations have in common ---------------------------------------------------------------


def each(keys: Iterable[str], level: Level = "required", type: object = None) -> KeyReads:
    """Reads of several keys, in a stable order."""
    return (KeyRead(key, "operation", level, type) for key in sorted(set(keys)))


def value_at(state: StateView, key: str, who: str) -> Any:
    """The value at a key that must be there.

    Args:
        who: who needs it, as messages call it: `S.transform`.

    Raises:
        MissingKeyError: it is not.
    """
    if key not in state:
        raise MissingKeyError(
            f"{who} needs state key {key!r}, which is not set."
            + (lost(state, key) or " Write it before, or put S.default in front.")
        )
    return state[key]


def chained(state: StateView, steps: Iterable[TransformNode]) -> dict[str, Any]:
    """What several transforms change one after another, each on the result of the one before."""
    total: dict[str, Any] = {}
    for step in steps:
        view = state.over(total) if isinstance(state, ReadOnlyState) else ReadOnlyState({**state, **total})
        total |= changes(step, step.fn(view), view)
    return total


def changes_of(node: Node, state: StateView) -> dict[str, Any]:
    """What a transform, or a sequence of them, changes in a state, outside a run.

    Raises:
        ArgumentError: it consists of something else.
        TransformError: a function is async, or did not return a dict.

    >>> from adk_fluent import S
    >>> changes_of((S.rename(a="b") >> S.drop("b")).node, {"a": 1})
    {'a': None}
    """
    steps = node.children if isinstance(node, SequenceNode) else (node,)
    for step in steps:
        if not isinstance(step, TransformNode):
            raise ArgumentError(
                f"Only S transforms and functions of the state can be called with a state, and "
                f"{step.name or step.label!r} is none. To run it, use .run() or .ask()."
            )
    view = ReadOnlyState(state)
    total: dict[str, Any] = {}
    for step in cast("tuple[TransformNode, ...]", steps):
        before = view.over(total)
        total |= changes(step, _at_once(step, step.fn(before)), before)
    return differing(total, view)


def _at_once(step: TransformNode, result: object) -> object:
    """What the function of a step gave, unless it must be awaited."""
    if not inspect.isawaitable(result):
        return result
    if inspect.iscoroutine(result):
        result.close()
    called = step.fn.functions[0] if isinstance(step.fn, StateOperation) else step.fn
    name = function_name(called, "fn")
    raise TransformError(
        f"Transform {step.name or step.label!r} is async, and nothing awaits it here. Call the function by "
        f"itself, await {name}(state), or run the step."
    )
