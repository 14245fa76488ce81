"""The effects of a transform on the state, as data: the keys that it reads, writes and removes.

An operation of `S` or `A` declares its effects. The effects of another function follow from the keys that it
declares, or from its source. This module does not interpret them: `analysis` does, with one table of all
classes of effects.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from adk_fluent.ir.annotations import TransformSpec
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import access, said, shown_by
from adk_fluent.ir.nodes import ArtifactNode, TransformNode
from adk_fluent.ir.predicates import Predicate

Transform = TransformNode | ArtifactNode
"""The nodes that transform the state and have effects."""

_set_slot: Final = object.__setattr__


class Effect:
    """One effect of a transform; the effects of a transform apply in their order.

    They compute from the values that the keys had before the transform. An effect is a frozen value. It is no
    dataclass, because each step of a tree has several effects and a dataclass is slower to make.
    """

    __slots__ = ()
    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._names = (*cls._names, *cast("tuple[str, ...]", cls.__slots__))

    @property
    def reads(self) -> tuple[str, ...]:
        """The keys that it reads."""
        return ()

    @property
    def writes(self) -> tuple[str, ...]:
        """The keys that it may write, as far as they are known."""
        return ()

    @property
    def reads_known(self) -> bool:
        """False if it may read other keys, too."""
        return True

    @property
    def writes_known(self) -> bool:
        """False if it may write other keys, too."""
        return True

    @property
    def sources(self) -> tuple[str, ...]:
        """The keys from whose values it computes the new values."""
        return ()

    @property
    def always_writes(self) -> tuple[str, ...]:
        """The keys that certainly hold a value of this transform after it."""
        return ()

    @property
    def may_remove(self) -> tuple[str, ...]:
        """The keys that may be absent after it."""
        return ()

    @property
    def constants(self) -> tuple[tuple[str, object], ...]:
        """The keys that it writes with values that are known before a run, as pairs."""
        return ()

    @property
    def parts(self) -> tuple[Transform, ...]:
        """The transforms that it may run."""
        return ()

    def type_of(self, key: str) -> Any:
        """The type of the value that it writes to a key; `None` if it is unknown."""
        return None

    @property
    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._names)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._fields == cast(Effect, other)._fields

    def __hash__(self) -> int:
        return hash((type(self), self._fields))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._fields))})"

    if not TYPE_CHECKING:  # with these methods, a type checker would accept any attribute

        def __setattr__(self, name: str, value: object) -> None:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise FrozenInstanceError(f"cannot delete field {name!r}")


# --- single keys ----------------------------------------------------------------------------------


class _KeyEffect(Effect):
    """Base of the effects on one key."""

    __slots__ = ("key",)
    key: str

    def __init__(self, key: str) -> None:
        _set_slot(self, "key", key)


class _ConstantEffect(_KeyEffect):
    """Base of the effects that write a constant to a key."""

    __slots__ = ("value",)
    value: Any

    def __init__(self, key: str, value: Any) -> None:
        _set_slot(self, "key", key)
        _set_slot(self, "value", value)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.key,)

    @property
    def constants(self) -> tuple[tuple[str, object], ...]:
        return ((self.key, self.value),)

    def type_of(self, key: str) -> Any:
        value: object = self.value
        return None if key != self.key or value is None else type(value)


class Needs(_KeyEffect):
    """The transform raises if the key is absent."""

    __slots__ = ()

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.key,)


class Holds(Effect):
    """The transform raises if the test does not hold."""

    __slots__ = ("test",)
    test: Predicate

    def __init__(self, test: Predicate) -> None:
        _set_slot(self, "test", test)

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(access(self.test).reads)

    @property
    def reads_known(self) -> bool:
        return access(self.test).reads_known


class Sets(_ConstantEffect):
    """Writes a constant; `None` removes the key."""

    __slots__ = ()

    @property
    def always_writes(self) -> tuple[str, ...]:
        return () if self.value is None else (self.key,)

    @property
    def may_remove(self) -> tuple[str, ...]:
        return (self.key,) if self.value is None else ()


class Defaults(_ConstantEffect):
    """Writes a constant if the key is absent."""

    __slots__ = ()


class Writes(Effect):
    """Writes a computed value.

    Attributes:
        key: the key that it writes.
        type: the type of the value; `None` if it is unknown.
        of: the keys from which it is computed; `None` if they are unknown.
    """

    __slots__ = ("key", "of", "type")
    key: str
    type: Any
    of: tuple[str, ...] | None

    def __init__(self, key: str, type: Any = None, of: tuple[str, ...] | None = ()) -> None:
        _set_slot(self, "key", key)
        _set_slot(self, "type", type)
        _set_slot(self, "of", of)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.of or ()

    @property
    def reads_known(self) -> bool:
        return self.of is not None

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.key,)

    @property
    def sources(self) -> tuple[str, ...]:
        return self.of or ()

    @property
    def always_writes(self) -> tuple[str, ...]:
        return (self.key,)

    def type_of(self, key: str) -> Any:
        return self.type if key == self.key else None


class MayWrite(Writes):
    """Writes a computed value on some paths of the function, as its source shows."""

    __slots__ = ()

    @property
    def always_writes(self) -> tuple[str, ...]:
        return ()


class Copies(Effect):
    """Writes the value of a key to another key, if the first is present.

    Attributes:
        source: the key that it copies.
        key: the key that it writes.
        type: the type of the new value, if it is not the copied value itself.
        of: other keys from which the new value is computed.
    """

    __slots__ = ("key", "of", "source", "type")
    source: str
    key: str
    type: Any
    of: tuple[str, ...]

    def __init__(self, source: str, key: str, type: Any = None, of: tuple[str, ...] = ()) -> None:
        _set_slot(self, "source", source)
        _set_slot(self, "key", key)
        _set_slot(self, "type", type)
        _set_slot(self, "of", of)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.sources

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.key,)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source, *self.of)

    def type_of(self, key: str) -> Any:
        return self.type if key == self.key else None


class Removes(_KeyEffect):
    """Removes a key if it is session-scoped."""

    __slots__ = ()

    @property
    def may_remove(self) -> tuple[str, ...]:
        return (self.key,)


# --- many keys ------------------------------------------------------------------------------------


class Keeps(Effect):
    """Removes every session-scoped key except these."""

    __slots__ = ("keys",)
    keys: tuple[str, ...]

    def __init__(self, keys: tuple[str, ...]) -> None:
        _set_slot(self, "keys", keys)


class Unpacks(_KeyEffect):
    """Replaces a dict by one key per leaf; only a run shows the names of these keys."""

    __slots__ = ()

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.key,)

    @property
    def writes_known(self) -> bool:
        return False

    @property
    def may_remove(self) -> tuple[str, ...]:
        return (self.key,)


class Packs(Effect):
    """Joins the leaves of dicts again, and removes their keys."""

    __slots__ = ()

    @property
    def reads_known(self) -> bool:
        return False

    @property
    def writes_known(self) -> bool:
        return False


class WritesAnything(Effect):
    """May write any key."""

    __slots__ = ()

    @property
    def writes_known(self) -> bool:
        return False


# --- other transforms -----------------------------------------------------------------------------


class OneOf(Effect):
    """Runs the transforms of one of several cases, or none.

    Attributes:
        ways: pairs of a test and the transforms that run in order if the test holds.
    """

    __slots__ = ("ways",)
    ways: tuple[tuple[Predicate, tuple[Transform, ...]], ...]

    def __init__(self, ways: tuple[tuple[Predicate, tuple[Transform, ...]], ...]) -> None:
        _set_slot(self, "ways", ways)

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(key for test, _ in self.ways for key in access(test).reads)

    @property
    def reads_known(self) -> bool:
        return all(access(test).reads_known for test, _ in self.ways)

    @property
    def parts(self) -> tuple[Transform, ...]:
        return tuple(part for _, parts in self.ways for part in parts)


class AtOnce(Effect):
    """Runs several transforms, all on the same input."""

    __slots__ = ("steps",)
    steps: tuple[TransformNode, ...]

    def __init__(self, steps: tuple[TransformNode, ...]) -> None:
        _set_slot(self, "steps", steps)

    @property
    def parts(self) -> tuple[Transform, ...]:
        return self.steps


# --- of a node ------------------------------------------------------------------------------------


def effects_of(node: Node) -> tuple[Effect, ...]:
    """The effects of a transform in order; empty for any other node.

    >>> from adk_fluent import S
    >>> effects_of(S.rename(a="b").node)
    (Removes('a'), Copies('b', (), 'a', None))
    """
    if isinstance(node, ArtifactNode):
        return cast("tuple[Effect, ...]", node.operation.effects)
    if not isinstance(node, TransformNode):
        return ()
    if isinstance(node.fn, TransformSpec):
        return cast("tuple[Effect, ...]", node.fn.effects)
    access_of_fn = node.access
    effects: list[Effect] = []
    if node.semantics == "replace_session":
        effects.append(Keeps(tuple(sorted(access_of_fn.writes))))
    effects += [Removes(key) for key in sorted(node.affected_keys or ())]
    if not access_of_fn.writes_known:
        effects.append(WritesAnything())
    sources = tuple(sorted(access_of_fn.reads)) if access_of_fn.reads_known else None
    effects += effects_of_returns(node.fn, access_of_fn.writes, sources)
    return tuple(effects)


def effects_of_returns(fn: object, keys: frozenset[str], of: tuple[str, ...] | None) -> list[Effect]:
    """The effects of a function that returns these keys: always, or on some paths if its source shows that.

    Args:
        of: the keys from which the values are computed; `None` if they are unknown.
    """
    returns = () if said(fn) is not None else shown_by(fn).returns
    always = {item.key for item in returns if item.always} if returns else keys
    return [(Writes if key in always else MayWrite)(key, None, of) for key in sorted(keys)]


def all_effects(node: Node) -> list[Effect]:
    """The effects of a transform and of all transforms that it may run; empty for any other node."""
    effects: list[Effect] = []
    for effect in effects_of(node):
        effects.append(effect)
        for part in effect.parts:
            effects += all_effects(part)
    return effects
