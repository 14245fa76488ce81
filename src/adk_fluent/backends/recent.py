"""What is made once and kept for the next time, as long as it is among the last that were asked for."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, Generic, TypeVar

V = TypeVar("V")

FORMS: Final = 16
"""How many forms of one expression are kept: compiled with another configuration, run with other services."""

EXPRESSIONS: Final = 256
"""Of how many expressions a backend keeps what it made, though none of them is needed any more."""

_FORMS: Final = "_adk_fluent_forms"


class Recent(Generic[V]):
    """The values that were last asked for, by key."""

    def __init__(self, limit: int = FORMS) -> None:
        self._limit = limit
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value for a key, made if it is not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._lock:
            self._values[key] = made
            while len(self._values) > self._limit:
                self._values.popitem(last=False)
        return made

    def forget(self, key: Hashable) -> None:
        """Keep the value for a key no longer."""
        self._values.pop(key, None)


def forms_of(subject: object, by: object) -> Recent[Any]:
    """What `by`, a backend, made of `subject`, an expression: it goes when either of the two does.

    It is kept with `by`, since what a backend makes may lead back to it and would else keep it alive. An
    object without a `__dict__` keeps nothing.
    """
    try:
        table: Recent[tuple[object, Recent[Any]]] = vars(by).setdefault(_FORMS, Recent(EXPRESSIONS))
    except (AttributeError, TypeError):
        return Recent()
    key = id(subject)

    def entry() -> tuple[object, Recent[Any]]:
        return weakref.ref(subject, lambda _: table.forget(key)), Recent()

    return table.get(key, entry)[1]
