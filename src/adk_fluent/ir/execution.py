"""The ways in which a node runs its children, as values with their data.

An analysis, the cost estimate or a picture looks at this value, `node.runs`, and never at the type of the
node. So it understands each new composite that runs its children in one of these ways. Tables use the class
of the value as their key; `isinstance(node.runs, STEP_BY_STEP)` tests for several classes.
"""

from __future__ import annotations

from typing import ClassVar, Final

from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.predicates import Match, Predicate


@frozen
class Execution(Frozen):
    """Base of the ways in which a node runs its children."""

    separate_branches: ClassVar[bool] = False
    """True if each child, or each item, has a separate branch of the conversation."""


@frozen
class Leaf(Execution):
    """The node has no children."""


@frozen
class HandOver(Execution):
    """The node has no children: it ends the steps around it, and an agent elsewhere in the tree runs instead.

    Attributes:
        target: the name of that agent.
        condition: if it does not hold, the node does nothing; `None` always holds.
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

    separate_branches: ClassVar[bool] = True
    waits: bool = True


@frozen
class FirstMatch(Execution):
    """The first child whose test holds, or none.

    Attributes:
        tests: a test for each child in order, but for the default.
        key: the state key that the tests compare; `None` if they do not compare one key.
        default: True if there is one more child, the last, that runs if no test holds.
    """

    tests: tuple[Predicate, ...] = ()
    key: str | None = None
    default: bool = False

    def label(self, child: int) -> str | None:
        """The value with which the test of a child compares; `None` for any other test."""
        test = self.tests[child] if child < len(self.tests) else None
        return str(test.value) if isinstance(test, Match) and test.op != "ne" else None


@frozen
class FirstSuccess(Execution):
    """One child after another until one succeeds; the run keeps only the effects of that child."""


@frozen
class RaceToSuccess(Execution):
    """All children at the same time until one succeeds; the run keeps only the effects of that child."""

    separate_branches: ClassVar[bool] = True


@frozen
class OnFailure(Execution):
    """The node itself works; if it fails and has a child, the child runs in its place.

    Attributes:
        output_key: the state key for the answer of the node itself; `None` if it is not stored.
        answers: the type of that answer.
    """

    output_key: str | None = None
    answers: type = str


@frozen
class PerItem(Execution):
    """The child once for each item of a list, several at a time.

    Attributes:
        items: the state key of the list.
        item_key: the state key from which the child reads its item; removed afterwards.
        output_key: the state key for the list of answers.
    """

    separate_branches: ClassVar[bool] = True
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
"""All classes of this module: a table with these classes as keys has an entry for each."""
STEP_BY_STEP: Final = (InOrder, Repeated)
"""Children run one after another."""
UNTIL_SUCCESS: Final = (FirstSuccess, RaceToSuccess)
"""The node ends when a child succeeds, and the run keeps only the effects of that child."""
ONE_COUNTS: Final = (FirstMatch, *UNTIL_SUCCESS, OnFailure)
"""The run keeps the effects of at most one child."""
SILENT_FRAMES: Final = (InOrder, Repeated, InParallel, *UNTIL_SUCCESS, Wrapped)
"""The node only runs its children: it reads no state and calls no model."""
