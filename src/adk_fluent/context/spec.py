"""`Context`: what part of the conversation an agent sees, as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import ContextSpec
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.functions import NO_ACCESS, Access, function_name
from adk_fluent.ir.keys import KeyRead, KeyReads, Level, Via, in_templates
from adk_fluent.ir.matching import Predicate, holds

if TYPE_CHECKING:
    from adk_fluent.context.view import View

SOURCES: Final = frozenset(
    {"default", "none", "user_only", "user", "from_agents", "exclude_agents", "window", "rolling"}
    | {"from_agents_windowed", "select"}
)
"""Operations that say by themselves what is seen."""

SHOWN: Final = frozenset({"from_state", "notes", "template"})
"""Operations that show something beside the conversation."""

NEUTRAL: Final = frozenset({"validate", "priority", "write_notes"})
"""Operations that leave what is seen as it is."""


@frozen
class Context(ContextSpec):
    """Which part of the conversation an agent sees; made by the factories of `C`.

    `a + b` sees what either of them selects; `a | b` passes what `a` selects through `b`. A filter that
    stands in a `+` without a selection of its own (`C.window(3) + C.redact("x")`) filters the whole sum. Both
    operators are associative, and `a + a` is `a`.

    Attributes:
        op: the operation's name; `sum` and `pipe` join `parts`.
        params: its keyword parameters, as pairs.
        parts: the specs that it joins or wraps.
        contents: whether the selection reaches the model as real messages; see `as_contents`.
        touches: the state keys that this operation itself touches.

    Example:
        >>> from adk_fluent import C
        >>> C.window(n=3) + C.from_state("topic")
        C.window(n=3) + C.from_state('topic')
    """

    op: str
    params: tuple[tuple[str, Any], ...] = ()
    parts: tuple[Context, ...] = ()
    contents: bool = False
    touches: Access = NO_ACCESS

    def key_reads(self, *, certain: bool = True) -> KeyReads:
        """What it reads; under a condition a missing key may be meant."""
        needed: Level = "required" if certain else "tolerant"
        if self.op == "from_state":
            yield from (KeyRead(key, "context", needed) for key in self.param["keys"])
        elif self.op == "template":
            yield from in_templates([self.param["text"]], "context", needed)
        else:
            level: Level = "optional" if self.op in ("notes", "write_notes") else "tolerant"
            via: Via = "context" if self.op == "notes" else "function"  # the others look, and do not show it
            own = self.touches.reads.difference(*(part.access.reads for part in self.parts))
            yield from (KeyRead(key, via, level) for key in sorted(own))
        for part in self.parts:
            yield from part.key_reads(certain=certain and self.op != "when")

    @property
    def access(self) -> Access:
        """The state keys it reads and writes, as far as that is known."""
        total = self.touches
        for part in self.parts:
            total |= part.access
        return total

    def view(self) -> View:
        """What it lets an agent see, as far as that is known before it runs."""
        from adk_fluent.context.view import view

        return view(self)

    @property
    def param(self) -> Mapping[str, Any]:
        """Its parameters by name."""
        return dict(self.params)

    @property
    def is_selection(self) -> bool:
        """Whether it says by itself what is seen; a filter alone filters the whole conversation."""
        if self.op == "sum":
            return any(part.is_selection for part in self.parts)
        if self.op in ("pipe", "when"):
            return self.parts[0].is_selection
        return self.op in SOURCES or self.op in SHOWN

    def as_contents(self) -> Context:
        """The same selection as real messages instead of text in the instruction.

        What is selected of the conversation reaches the model as ADK would send it: in the roles of user and
        model, with images, files and tool calls. State values stay in the instruction.
        """
        return self.replace(contents=True)

    def resolved(self, state: Mapping[str, Any], agent: str = "") -> Context | None:
        """The spec without its conditions: a `C.when` that does not hold is as if it were not there.

        Raises:
            PredicateError: a condition raised, or must be awaited; it names `agent`.
        """
        if self.op == "when":
            test = self.param["test"]
            return self.parts[0].resolved(state, agent) if _holds(test, state, agent) else None
        if not self.parts:
            return self
        parts = tuple(part for each in self.parts if (part := each.resolved(state, agent)) is not None)
        return self.replace(parts=parts) if parts else None

    def __add__(self, other: Context) -> Context:
        return _joined("sum", self, _checked(other, "+"))

    def __or__(self, other: Context) -> Context:
        return _joined("pipe", self, _checked(other, "|"))

    def __repr__(self) -> str:
        if self.op in _SIGNS:
            inner = _SIGNS[self.op].join(self._inside(part) for part in self.parts)
            shown = f"({inner})" if self.contents else inner
        else:
            shown = f"C.{self.op}({', '.join(self._arguments())})"
        return shown + ".as_contents()" * self.contents

    def _inside(self, part: Context) -> str:
        return f"({part!r})" if self.op == "sum" and part.op == "pipe" and not part.contents else repr(part)

    def _arguments(self) -> list[str]:
        shown: list[str] = []
        for name, value in self.params:
            if name == "patterns":
                shown += [repr(pattern) for pattern, _ in cast("tuple[tuple[str, int], ...]", value)]
            elif name in _POSITIONAL:
                shown += [_short(item) for item in cast("tuple[object, ...]", value)]
            elif name == "pairs":
                shown += [f"{key}={item!r}" for key, item in cast("tuple[tuple[str, object], ...]", value)]
            elif value is not None:
                shown.append(f"{name}={_short(value)}")
        return shown + [repr(part) for part in self.parts]


_SIGNS: Final = {"sum": " + ", "pipe": " | "}
_POSITIONAL: Final = ("keys", "names", "fields", "checks")


def _short(value: object) -> str:
    return function_name(value, "<lambda>") if callable(value) else repr(value)


def _joined(op: str, left: Context, right: Context) -> Context:
    parts: list[Context] = []
    for side in (left, right):
        for part in side.parts if side.op == op else (side,):
            if op == "pipe" or part not in parts:
                parts.append(part)
    if len(parts) == 1:
        return parts[0]
    return Context(op, parts=tuple(parts), contents=left.contents or right.contents)


def _checked(other: object, sign: str) -> Context:
    if isinstance(other, Context):
        return other
    raise ArgumentError(
        f"{sign} joins two C specs, not a C spec and {type(other).__name__} {other!r:.40}. "
        "A spec belongs to an agent: Agent(...).context(C...)."
    )


def _holds(test: Predicate | str, state: Mapping[str, Any], agent: str) -> bool:
    """Whether a condition holds: a function of the state, or a key that must be set and true."""
    return bool(state.get(test)) if isinstance(test, str) else holds(test, state, "C.when", agent)
