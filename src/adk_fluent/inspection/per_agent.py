"""`PerAgent`: what was found about each agent of a tree, by its unique name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar, cast, runtime_checkable

from adk_fluent import _html as html
from adk_fluent.errors import MissingKeyError
from adk_fluent.spelling import did_you_mean

T = TypeVar("T")


@runtime_checkable
class Tabular(Protocol):
    """What can be shown as a table of labels and texts."""

    def rows(self) -> Iterable[tuple[str, str]]:
        """The labels and texts, in order; an empty text is left out."""
        ...


def tables(found: Mapping[str, Tabular]) -> str:
    """A table for each agent, under its name."""
    return "".join(html.title(agent) + html.facts(one.rows()) for agent, one in found.items())


class PerAgent(Mapping[str, T], Generic[T]):
    """A read-only mapping of agent names to what was found about each, in the order of the tree.

    An agent that is used twice stands here twice, as `writer` and `writer_2`. `str()` is readable text.

    Args:
        found: the pairs.
    """

    __slots__ = ("_found",)

    def __init__(self, found: Iterable[tuple[str, T]] = ()) -> None:
        self._found = dict(found)

    def __getitem__(self, agent: str) -> T:
        try:
            return self._found[agent]
        except KeyError:
            known = did_you_mean(agent, self._found) or f" There is {', '.join(self._found) or 'none'}."
            raise MissingKeyError(f"There is no agent {agent!r} here.{known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerAgent) and dict(self) == dict(other)  # pyright: ignore[reportUnknownArgumentType]  # of whatever it holds

    __hash__ = None

    def __repr__(self) -> str:
        return f"PerAgent({', '.join(self._found)})"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self._found.values())) or "There is no agent here."

    def _repr_html_(self) -> str:
        """As a notebook shows it: a table for each agent, or the text where there is no table."""
        if self._found and all(isinstance(one, Tabular) for one in self._found.values()):
            return tables(cast("dict[str, Tabular]", self._found))
        return html.preformatted(str(self))
