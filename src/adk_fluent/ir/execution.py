"""The ways in which a node runs its children, as values with their data.

Readers of a tree (analyses, estimate, pictures) ask a node for this value, and never for its type. So they
understand each new composite that runs its children in one of these ways. Tables are keyed by the class of
the value; `isinstance(node.runs, STEP_BY_STEP)` asks for one of several.
"""

from __future__ import annotations

from typing import ClassVar, Final

from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.matching import Match, Predicate


@frozen
class Execution(Frozen):
    """Base of the ways in which a node runs its children."""

    apart: ClassVar[bool] = False
    """True if each child, or each item, has a separate branch of the conversation."""


@frozen
class Leaf(Execution):
    """It has no children."""


@frozen
class HandOver(Execution):
    """It has no children: an agent that stands elsewhere runs in place of what is left around it.

    Attributes:
        target: the name of that agent.
        condition: tested first, if there is one; when it does not hold, the node does nothing.
    """

    target: str
    condition: Predicate | None = None


@frozen
class InOrder(Execution):
    """One child after another."""


@frozen
class Repeated(Execution):
    """All children in order, round after round.

    Attributes:
        max_rounds: the most rounds.
        until: tested after each round; if it holds, the node ends.
    """

    max_rounds: int
    until: Predicate | None = None


@frozen
class InParallel(Execution):
    """All children at the same time.

    Attributes:
        waits: True if the node ends after all children; False if it ends after the first.
    """

    apart: ClassVar[bool] = True
    waits: bool = True


@frozen
class FirstMatch(Execution):
    """The first child whose test holds, or none.

    Attributes:
        tests: a test for each child in order, but for the default.
        key: the state key that comparisons are about, if it is one.
        default: whether one more child, the last, runs where no test holds.
    """

    tests: tuple[Predicate, ...] = ()
    key: str | None = None
    default: bool = False

    def label(self, child: int) -> str | None:
        """The value at which a child runs, if its test compares with one."""
        test = self.tests[child] if child < len(self.tests) else None
        return str(test.value) if isinstance(test, Match) and test.op != "ne" else None


@frozen
class FirstSuccess(Execution):
    """One child after another until one succeeds; only what that one did lasts."""


@frozen
class RaceToSuccess(Execution):
    """All children at the same time until one succeeds; only what that one did lasts."""

    apart: ClassVar[bool] = True


@frozen
class OnFailure(Execution):
    """The node itself works, and its child, if it has one, runs in its place if it fails.

    Attributes:
        output_key: where the answer of the node itself is stored, if it is.
        answers: the type of that answer.
    """

    output_key: str | None = None
    answers: type = str


@frozen
class PerItem(Execution):
    """The child once for each item of a list, several at a time.

    Attributes:
        items: the state key of the list.
        item_key: where the child finds its item; it is gone afterwards.
        output_key: where the list of answers is written.
    """

    apart: ClassVar[bool] = True
    items: str
    item_key: str
    output_key: str


@frozen
class Wrapped(Execution):
    """The one child, once."""


@frozen
class ByModel(Execution):
    """The children to which a model hands over, in any order, or none."""


WAYS: Final = (
    Leaf,
    HandOver,
    InOrder,
    Repeated,
    InParallel,
    FirstMatch,
    FirstSuccess,
    RaceToSuccess,
    OnFailure,
    PerItem,
    Wrapped,
    ByModel,
)
"""Every way there is: tables that are keyed by them have each of these."""
STEP_BY_STEP: Final = (InOrder, Repeated)
"""One child runs after the other has."""
UNTIL_SUCCESS: Final = (FirstSuccess, RaceToSuccess)
"""The first child that succeeds ends it, and nothing that another child did lasts."""
ONE_COUNTS: Final = (FirstMatch, *UNTIL_SUCCESS, OnFailure)
"""What at most one child does lasts."""
SILENT_FRAMES: Final = (InOrder, Repeated, InParallel, *UNTIL_SUCCESS, Wrapped)
"""The node does nothing but run its children: it decides nothing by the state, and no model is asked."""
