"""The `C` operations that select: entries of the conversation, or state values in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from adk_fluent.context.entries import TEMPLATE, USER, Entries, Entry, Scene, Selection, show
from adk_fluent.context.filters import EntryFilter
from adk_fluent.context.spec import SELECTS, Context
from adk_fluent.context.view import ContextView
from adk_fluent.errors import MissingKeyError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyRead
from adk_fluent.ir.predicates import is_held, lost
from adk_fluent.ir.template import Placeholder, all_keys, placeholders, render

if TYPE_CHECKING:
    from adk_fluent.context.entries import Selecting


class Source(EntryFilter):
    """Base of the operations that select entries of the conversation."""

    __slots__ = ()

    @property
    def ways(self) -> frozenset[bool]:
        return SELECTS


@frozen
class DefaultContext(Source):
    """Selects everything, so that ADK assembles the conversation itself."""

    op: ClassVar[str] = "default"
    is_default: ClassVar[bool] = True
    neutral: ClassVar[bool] = True

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return tuple(entry for entry in entries if not entry.compacted)


@frozen
class Nothing(Source):
    """Selects nothing of the conversation."""

    op: ClassVar[str] = "none"

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return ()

    def view_after(self, given: ContextView) -> ContextView:
        return given.nothing()


@frozen
class UserOnly(Source):
    """Selects the user's messages."""

    op: ClassVar[str] = "user_only"

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return _by_user(entries)

    def view_after(self, given: ContextView) -> ContextView:
        return replace(given.some(), authors=frozenset())


def _by_user(entries: Entries) -> Entries:
    return tuple(entry for entry in entries if entry.is_user_message)


@frozen
class User(Source):
    """Selects some of the user's messages: all, the first, the last, or the first and the last."""

    op: ClassVar[str] = "user"

    strategy: str = "all"

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        messages = _by_user(entries)
        has_current = any(entry.is_user_message for entry in scene.pinned)
        last = messages[-1:] if not has_current else ()
        first = messages[:1]
        chosen = {"all": messages, "first": first, "last": last, "bookend": (*first, *last)}
        return tuple(dict.fromkeys(chosen[self.strategy]))

    def view_after(self, given: ContextView) -> ContextView:
        return replace(given.some(unknown=self.strategy != "all"), authors=frozenset())


@frozen
class FromAgents(Source):
    """Selects the user's messages and all events of some agents."""

    op: ClassVar[str] = "from_agents"
    spread: ClassVar[str] = "names"

    names: tuple[str, ...]

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return tuple(entry for entry in entries if entry.is_user_message or entry.by(self.names))

    def view_after(self, given: ContextView) -> ContextView:
        return given.by(frozenset(self.names))


@frozen
class ExcludeAgents(Source):
    """Selects everything except the events of some agents."""

    op: ClassVar[str] = "exclude_agents"
    spread: ClassVar[str] = "names"

    names: tuple[str, ...]

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        # A summary that ADK made may hold texts of an excluded agent. The events that it covers are still
        # among the entries, so nothing is lost without the summary.
        return tuple(entry for entry in entries if entry.kind == "event" and not entry.by(self.names))

    def view_after(self, given: ContextView) -> ContextView:
        return replace(given.some(), excluded=given.excluded | frozenset(self.names))


def last_turns(entries: Entries, scene: Scene, n: int) -> Entries:
    """The events of the last `n` turns, the current one included."""
    return tuple(entry for entry in entries if entry.kind == "event" and entry.turn > scene.turn - n)


@frozen
class Window(Source):
    """Selects the last `n` turns, the current one included."""

    op: ClassVar[str] = "window"

    n: int

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return last_turns(entries, scene, self.n)

    def view_after(self, given: ContextView) -> ContextView:
        return replace(given.some(), turns=self.n if given.turns is None else min(self.n, given.turns))


@frozen
class FromAgentsWindowed(Source):
    """Selects the user's messages and, for each agent, its events since the last `n` texts that it wrote."""

    op: ClassVar[str] = "from_agents_windowed"

    pairs: tuple[tuple[str, int], ...]

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        found = {entry.index for entry in entries if entry.is_user_message}
        for name, n in self.pairs:
            mine = [entry for entry in entries if entry.by([name])]
            indexes = [entry.index for entry in mine if entry.text][-n:]
            found |= {entry.index for entry in mine if indexes and entry.index >= indexes[0]}
        return tuple(entry for entry in entries if entry.kind == "event" and entry.index in found)

    def view_after(self, given: ContextView) -> ContextView:
        return given.by(frozenset(name for name, _ in self.pairs), unknown=True)

    def _arguments(self) -> list[str]:
        return [f"{name}={n!r}" for name, n in self.pairs]


@frozen
class Select(Source):
    """Selects the events that match every given criterion: author, type and tag."""

    op: ClassVar[str] = "select"
    tears: ClassVar[bool] = True

    author: tuple[str, ...] | None = None
    type: str | None = None
    tag: str | None = None

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        author, kind, tag = self.author, self.type, self.tag
        return tuple(
            entry
            for entry in entries
            if entry.kind == "event"
            and (author is None or entry.by(author))
            and (kind is None or _TYPES[kind](entry))
            and (tag is None or tag in entry.tags)
        )

    def view_after(self, given: ContextView) -> ContextView:
        if self.author is None:
            return given.some(unknown=True)
        agents = frozenset(self.author) - {USER}
        return replace(given.by(agents, unknown=True), user=given.user and USER in self.author)


_TYPES: Final[Mapping[str, Callable[[Entry], bool]]] = {
    "text": lambda entry: bool(entry.text),
    "tool_call": lambda entry: bool(entry.function_calls),
    "tool_response": lambda entry: bool(entry.function_responses),
    "file": lambda entry: bool(entry.files),
}
ENTRY_TYPES: Final = tuple(_TYPES)


# --- values of the state --------------------------------------------------------------------------


class StateSource(Context):
    """Base of the operations that show state values.

    Alone they replace the conversation. After a `|` they add the values beside it.
    """

    __slots__ = ()
    only_adds: ClassVar[bool] = True

    @property
    def ways(self) -> frozenset[bool]:
        return SELECTS

    @property
    def is_untouched(self) -> bool:
        return False

    @property
    def seen_in_words(self) -> str:
        return "state keys only"

    def values(self, scene: Scene) -> Entries:
        """The state values to show, as entries."""
        return ()

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        yield from ()
        return replace(given, entries=self.values(scene), untouched=False)

    def piped(self, given: Selection, scene: Scene) -> Selecting:
        yield from ()
        return replace(given, entries=given.entries + self.values(scene))

    def view_after(self, given: ContextView) -> ContextView:
        return self.view_when_piped(replace(given.nothing(), keys=()))

    def view_when_piped(self, given: ContextView) -> ContextView:
        return given.beside([read.key for read in self.own_reads()])


def _labelled(keys: tuple[str, ...], scene: Scene) -> Entries:
    values = ((key, scene.state.get(key)) for key in keys)
    return tuple(
        Entry(kind="state", author=key, text=show(value)) for key, value in values if value is not None
    )


@frozen
class StateValues(StateSource):
    """Shows state values, labelled with their keys."""

    op: ClassVar[str] = "from_state"
    spread: ClassVar[str] = "keys"

    keys: tuple[str, ...]

    def values(self, scene: Scene) -> Entries:
        return _labelled(self.keys, scene)

    def own_reads(self) -> tuple[KeyRead, ...]:
        return tuple(KeyRead(key, "context") for key in self.keys)


@frozen
class Scratchpads(StateSource):
    """Shows the scratchpads that `C.write_notes` fills; an empty one is no error."""

    op: ClassVar[str] = "notes"
    spread: ClassVar[str] = "keys"

    keys: tuple[str, ...]

    def values(self, scene: Scene) -> Entries:
        return _labelled(self.keys, scene)

    def own_reads(self) -> tuple[KeyRead, ...]:
        return tuple(KeyRead(key, "context", "optional") for key in self.keys)


@frozen
class Template(StateSource):
    """Shows a text whose `{key}` placeholders are filled from state."""

    op: ClassVar[str] = "template"

    text: str

    @property
    def templates(self) -> tuple[str, ...]:
        return (self.text,)

    def values(self, scene: Scene) -> Entries:
        def value(placeholder: Placeholder) -> str:
            found = scene.state.get(placeholder.key)
            key = placeholder.key
            missing = found is None and (scene.removed(key) or not is_held(scene.state, key))
            if missing and not placeholder.optional:
                raise MissingKeyError(_missing(placeholder.key, scene))
            return "" if found is None else str(found)

        return (Entry(kind="state", author=TEMPLATE, text=render(self.text, value)),)

    def own_reads(self) -> tuple[KeyRead, ...]:
        return tuple(
            KeyRead(placeholder.key, "context", "optional" if placeholder.optional else "required")
            for placeholder in placeholders(self.text)
            if not placeholder.artifact
        )

    def view_when_piped(self, given: ContextView) -> ContextView:
        return given.beside(sorted(all_keys(self.text)))


def _missing(key: str, scene: Scene) -> str:
    remedy = lost(scene.state, key) or f" Write it before, or write {{{key}?}} if it may be missing."
    return f"Agent {scene.agent!r} needs state key {key!r} for its C.template, and it is not set.{remedy}"
