"""What the source of a function shows of the state keys it touches; it is read, never run.

A function is read whole when its context, or the state, goes nowhere but into accesses with keys that are
written down; then it touches no others.
"""

from __future__ import annotations

from typing import Final, Literal

from adk_fluent.ir.frozen import Frozen, frozen

Level = Literal["required", "tolerant", "lenient", "optional"]
"""What a missing key means: something breaks; it is left out; nothing happens; it was expected."""


@frozen
class Sighting(Frozen):
    """One place in source where a key is read or written.

    Attributes:
        key: the state key, scope prefix included.
        where: file and line.
        level: what it means when the key is missing; for reads. `required`: each call reads it; `lenient`:
            only some do; `optional`: the function expects that it is missing.
        always: whether the key is there after every call that returns; for writes.
    """

    key: str
    where: str
    level: Level = "optional"
    always: bool = False

    @property
    def softened(self) -> Level:
        """The level for code that may find more in the state than the tree shows, or that may never run."""
        return "lenient" if self.level == "required" else self.level


@frozen
class Sightings(Frozen):
    """What source shows.

    Attributes:
        reads: where it reads keys.
        writes: where it writes keys of the state.
        returns: the keys of the dicts that it returns.
        whole: it shows all that is done with the context, or the state, it is given.
        gives: it shows all that its results do to the state, where one may be an event with a change of it.
        returns_known: it shows the keys of every dict that it returns.
        by_state: nothing but the state decides what it returns.
    """

    reads: tuple[Sighting, ...] = ()
    writes: tuple[Sighting, ...] = ()
    returns: tuple[Sighting, ...] = ()
    whole: bool = False
    gives: bool = False
    returns_known: bool = False
    by_state: bool = False


NO_SIGHTINGS: Final = Sightings()
