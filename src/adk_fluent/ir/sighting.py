"""What the source of a function shows of the state keys it touches; it is read, never run.

What is found so may happen, no more: a line in an `if` need not run. A function is read whole when its
context goes nowhere but into accesses with keys that are written down; then it touches no others.
"""

from __future__ import annotations

from typing import Final

from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.keys import Level


@frozen
class Sighting(Frozen):
    """One place in source where a key is read or written.

    Attributes:
        key: the state key, scope prefix included.
        where: file and line.
        level: what it means when the key is missing; for reads.
    """

    key: str
    where: str
    level: Level = "optional"


@frozen
class Sightings(Frozen):
    """What source shows.

    Attributes:
        reads: where it reads keys.
        writes: where it writes keys.
        whole: it shows all that is done with the context it is given.
        gives: it shows all that its results do to the state, where one may be an event with a change of it.
    """

    reads: tuple[Sighting, ...] = ()
    writes: tuple[Sighting, ...] = ()
    whole: bool = False
    gives: bool = False


NO_SIGHTINGS: Final = Sightings()
