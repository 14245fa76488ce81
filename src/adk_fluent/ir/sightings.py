"""The state keys that a function uses, as its source shows. The source is read and never run.

The source shows all keys if the function uses its context, or the state, only in accesses with constant keys.
Then the function uses no other keys.
"""

from __future__ import annotations

from typing import Final, Literal

from adk_fluent.ir.frozen import Frozen, frozen

Level = Literal["required", "tolerant", "lenient", "optional"]
"""The effect of a missing key: `required`: an error; `tolerant`: the value is left out; `lenient`: no effect;
`optional`: the reader expects that it may be missing."""


@frozen
class Sighting(Frozen):
    """One place in source where a function reads or writes a key.

    Attributes:
        key: the state key, scope prefix included.
        where: file and line.
        level: for reads, the effect of a missing key. `required`: every call reads it; `lenient`: only some
            calls do; `optional`: the function expects that it may be missing.
        always: for writes, True if the key is set after every call that returns.
    """

    key: str
    where: str
    level: Level = "optional"
    always: bool = False

    @property
    def softened(self) -> Level:
        """The level for code that may never run, or that may find keys in the state which the tree lacks."""
        return "lenient" if self.level == "required" else self.level


@frozen
class Sightings(Frozen):
    """All uses of state that the source of a function shows.

    Attributes:
        reads: the places where it reads keys.
        writes: the places where it writes keys of the state.
        returns: the keys of the dicts that it returns.
        whole: True if the source shows every use of the context or state that the function receives.
        gives: True if the source shows every change of the state by its results, which may be events.
        returns_known: True if the source shows the keys of every dict that it returns.
        by_state: True if its result depends on the state alone.
    """

    reads: tuple[Sighting, ...] = ()
    writes: tuple[Sighting, ...] = ()
    returns: tuple[Sighting, ...] = ()
    whole: bool = False
    gives: bool = False
    returns_known: bool = False
    by_state: bool = False


NO_SIGHTINGS: Final = Sightings()
