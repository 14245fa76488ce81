"""The operations that replace a state value by another form of it: `as_json`, `from_json` and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from adk_fluent.artifacts import formats
from adk_fluent.artifacts.formats import Unfit
from adk_fluent.artifacts.operations.base import ArtifactOperation, Key, operation_at
from adk_fluent.artifacts.requests import Work
from adk_fluent.errors import ArtifactError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.ir.predicates import StateView
from adk_fluent.state.effects import Effect, Needs, Writes
from adk_fluent.state.operations.base import value_at


class _InPlace(ArtifactOperation):
    """Replaces the value at a key by another form of it."""

    takes: ClassVar[object] = None
    """The type that the value must have; `None` for any type."""
    gives: ClassVar[object] = str
    """The type of the new value; `None` if only a run shows it."""
    key: str

    def converted(self, value: Any) -> object:
        """Convert the value.

        Raises:
            Unfit: the value has the wrong shape.
        """
        return value

    def work(self, state: StateView) -> Work:
        yield from ()
        value = value_at(state, self.key, operation_at(state, self.name))
        try:
            return {self.key: self.converted(value)}
        except Unfit as error:
            who = operation_at(state, f"{self.name}({self.key!r})")
            raise ArtifactError(f"{who}: the value {error}.") from error

    def _reading(self) -> KeyReads:
        yield KeyRead(self.key, "artifact", type=self.takes)

    def _doing(self) -> Iterable[Effect]:
        return (Needs(self.key), Writes(self.key, self.gives, (self.key,)))

    @property
    def wording(self) -> str:
        return f"{self.key} {self.name.replace('_', ' ')}"


def _of_text(value: object, convert: Callable[[str], object]) -> object:
    if not isinstance(value, str):
        raise Unfit(f"is no text but {type(value).__name__} {value!r:.40}")
    return convert(value)


@frozen
class AsJson(_InPlace):
    """Replaces a value by JSON text."""

    name: ClassVar[str] = "as_json"
    key: Key

    def converted(self, value: Any) -> object:
        return formats.to_json(value)


@frozen
class AsCsv(_InPlace):
    """Replaces a list of dicts by CSV text."""

    name: ClassVar[str] = "as_csv"
    takes: ClassVar[object] = list
    key: Key

    def converted(self, value: Any) -> object:
        return formats.to_csv(value)


@frozen
class AsText(_InPlace):
    """Replaces a value by plain text."""

    name: ClassVar[str] = "as_text"
    key: Key

    def converted(self, value: Any) -> object:
        return formats.to_text(value)


@frozen
class FromJson(_InPlace):
    """Replaces JSON text by the value that it holds."""

    name: ClassVar[str] = "from_json"
    takes: ClassVar[object] = str
    gives: ClassVar[object] = None
    key: Key

    def converted(self, value: Any) -> object:
        return _of_text(value, formats.from_json)


@frozen
class FromCsv(_InPlace):
    """Replaces CSV text by a list of dicts."""

    name: ClassVar[str] = "from_csv"
    takes: ClassVar[object] = str
    gives: ClassVar[object] = list
    key: Key

    def converted(self, value: Any) -> object:
        return _of_text(value, formats.from_csv)


@frozen
class FromMarkdown(_InPlace):
    """Replaces Markdown text by a dict of its sections."""

    name: ClassVar[str] = "from_markdown"
    takes: ClassVar[object] = str
    gives: ClassVar[object] = dict
    key: Key

    def converted(self, value: Any) -> object:
        return _of_text(value, formats.from_markdown)
