"""`PerAgent`: what was found about each agent of a tree, by its unique name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from adk_fluent.errors import MissingKeyError, did_you_mean

T = TypeVar("T")


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
