"""The base of the `S` and `A` operations, the stored form of `S` operations, and their shared functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar, cast

from adk_fluent.errors import ArgumentError, MissingKeyError, TransformError
from adk_fluent.ir.annotations import TransformSpec
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import InOrder
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access, function_name, source_is_read, source_unread
from adk_fluent.ir.keys import KeyRead, KeyReads, Level
from adk_fluent.ir.nodes import TransformNode
from adk_fluent.ir.predicates import StateView, lost
from adk_fluent.ir.resources import UserCall
from adk_fluent.state.delta import ReadOnlyState, changes, without_unchanged
from adk_fluent.state.effects import Effect, OneOf, Packs, Unpacks

Changes = Mapping[str, Any]

_set_slot: Final = object.__setattr__
Result = TypeVar("Result")


class Described(TransformSpec):
    """Base of the operations of `S` and `A`: each declares its reads and effects.

    A subclass has its parameters as fields. It declares its `name` and, if it has them, its reads
    (`_reading`), its effects (`_doing`) and the user's functions in it (`functions`).
    """

    __slots__ = ("_access", "_effects", "_reads")  # computed when first needed; not part of the value
    _access: Access
    _effects: tuple[Effect, ...]
    _reads: tuple[KeyRead, ...]

    name: ClassVar[str] = ""
    """Its name in `S` or `A`, in stored graphs, and as the label of a step."""

    # --- declared by a subclass -------------------------------------------------------------------

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
        """The label of a step that runs it."""
        return self.name

    # --- derived from these declarations ----------------------------------------------------------

    @property
    def reads(self) -> tuple[KeyRead, ...]:
        return self._once("_reads", lambda: tuple(self._reading()))

    @property
    def effects(self) -> tuple[Effect, ...]:
        return self._once("_effects", lambda: tuple(self._doing()))

    @property
    def access(self) -> Access:
        return self._once("_access", self._touched)

    def _once(self, slot: str, find: Callable[[], Result]) -> Result:
        """Compute something once, and keep it in a slot.

        While `source_unread` is active the result differs, because it is for the stored form, so it is not
        kept.
        """
        if not source_is_read():
            return find()
        try:
            return cast(Result, getattr(self, slot))
        except AttributeError:
            _set_slot(self, slot, result := find())
            return result

    def _touched(self) -> Access:
        reads = [read.key for read in self.reads if read.via != "removal"]
        writes: list[str] = []
        reads_known = writes_known = True
        for effect in self.effects:
            reads += effect.reads
            writes += effect.writes
            reads_known = reads_known and effect.reads_known
            writes_known = writes_known and effect.writes_known
        touched = Access(frozenset(reads), frozenset(writes), reads_known, writes_known)
        for effect in self.effects:
            for part in effect.parts:
                touched |= part.access
        return touched

    def calls(self) -> Iterator[UserCall]:
        for function in self.functions:
            yield UserCall(function, "its function", injected=False)
        for effect in self.effects:
            if isinstance(effect, OneOf):
                yield from (UserCall(test, "its condition", injected=False) for test, _ in effect.ways)
            for part in effect.parts:
                yield from (call._replace(injected=False) for call in part.calls())

    @property
    def names_keys_as_it_runs(self) -> bool:
        return any(isinstance(effect, Packs | Unpacks) for effect in self.effects)


class StateOperation(Described):
    """Base of the `S` operations: a function from the state to its changes (`__call__`)."""

    left_out: ClassVar[frozenset[str]] = frozenset()
    """The fields that its stored form leaves out, because the stored node has them already."""

    def __init_subclass__(cls) -> None:
        OPERATIONS[cls.name] = cls

    def __call__(self, state: StateView, /) -> Changes:
        """The changes of the state: key → new value, `None` for a removed key."""
        return {}

    # --- the stored form --------------------------------------------------------------------------

    def as_stored(self) -> Operation:
        fields = (field for field in self._defaults if field not in self.left_out)
        with source_unread():
            touched = self.replace().access
        return Operation(self.name, tuple((field, getattr(self, field)) for field in fields), touched)

    @classmethod
    def restored(cls, params: Mapping[str, Any], access: Access) -> Self:
        """Restore the operation that was stored with these parameters."""
        return cls(**params)


OPERATIONS: Final[dict[str, type[StateOperation]]] = {}
"""The class of every operation, by name. Python adds a class when it defines it."""


@frozen
class Operation(Frozen):
    """The stored form of an operation.

    Attributes:
        name: the name of the operation.
        params: its parameters, as pairs.
        access: the state keys that it reads and writes.
    """

    __module__ = "adk_fluent.state.operations"  # stored graphs name the class by this module

    name: str
    params: tuple[tuple[str, Any], ...] = ()
    access: Access = NO_ACCESS

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> StateOperation:
        stored = cls(**values)
        operation = OPERATIONS.get(stored.name)
        if operation is None:
            raise ValueError(f"S has no operation {stored.name!r}")
        return operation.restored(dict(stored.params), stored.access)


# --- shared by the operations ---------------------------------------------------------------------


def key_reads(keys: Iterable[str], level: Level = "required", type: object = None) -> KeyReads:
    """The reads of several keys, in a stable order."""
    return (KeyRead(key, "operation", level, type) for key in sorted(set(keys)))


def value_at(state: StateView, key: str, operation: str) -> Any:
    """The value of a required key.

    Args:
        operation: the operation that needs it, for the message: `S.transform`.

    Raises:
        MissingKeyError: the key is not set.
    """
    if key not in state:
        raise MissingKeyError(
            f"{operation} needs state key {key!r}, which is not set."
            + (lost(state, key) or " Write it before, or put S.default in front.")
        )
    return state[key]


def chain_changes(state: StateView, steps: Iterable[TransformNode]) -> dict[str, Any]:
    """The changes of several transforms in sequence, each applied to the result of the one before."""
    total: dict[str, Any] = {}
    for step in steps:
        view = state.over(total) if isinstance(state, ReadOnlyState) else ReadOnlyState({**state, **total})
        total |= changes(step, step.fn(view), view)
    return total


def changes_of(node: Node, state: StateView) -> dict[str, Any]:
    """The changes of a state by a transform or a sequence of transforms, outside a run.

    Raises:
        ArgumentError: the node has a part that is not a transform.
        TransformError: a function is async, or did not return a dict.

    >>> from adk_fluent import S
    >>> changes_of((S.rename(a="b") >> S.drop("b")).node, {"a": 1})
    {'a': None}
    """
    steps = node.children if isinstance(node.runs, InOrder) else (node,)
    for step in steps:
        if not isinstance(step, TransformNode):
            raise ArgumentError(
                f"Only S transforms and functions of the state can be called with a state, and "
                f"{step.name or step.label!r} is neither. To run it, use .run() or .ask()."
            )
    view = ReadOnlyState(state)
    total: dict[str, Any] = {}
    for step in cast("tuple[TransformNode, ...]", steps):
        before = view.over(total)
        total |= changes(step, _plain_result(step, step.fn(before)), before)
    return without_unchanged(total, view)


def _plain_result(step: TransformNode, result: object) -> object:
    """Return the result of a step's function, or raise an error if it must be awaited."""
    if not inspect.isawaitable(result):
        return result
    if inspect.iscoroutine(result):
        result.close()
    function = step.fn.functions[0] if isinstance(step.fn, StateOperation) else step.fn
    name = function_name(function, "fn")
    raise TransformError(
        f"Transform {step.name or step.label!r} is async, and nothing awaits it here. Call the function by "
        f"itself, await {name}(state), or run the step."
    )
