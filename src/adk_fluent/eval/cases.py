"""`FluentCase`: one conversation, and what is expected of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast, runtime_checkable

from adk_fluent.errors import EvalError
from adk_fluent.ir.state_keys import StateFieldRef

if TYPE_CHECKING:
    from google.genai.types import Content


@runtime_checkable
class _Call(Protocol):
    """What `call_tool` makes: a tool with its arguments."""

    @property
    def name(self) -> str: ...
    @property
    def args(self) -> Mapping[str, Any]: ...


Call: TypeAlias = str | Mapping[str, Mapping[str, Any] | None] | _Call
"""An expected tool call: its name, `{name: arguments}`, or `call_tool(name, **arguments)`.

`{name: None}` expects a call that lacks arguments, which ADK tells from one whose arguments are empty.
"""

State: TypeAlias = Mapping[Any, "object | Callable[[Any], object]"]
"""State key, or field of a schema → what its value must be: a value, a type, or a predicate of it.

To a type checker a schema's field is of the type of its value, so the keys cannot be told more closely.
"""

_LONGEST_ID: Final = 48
_DICTS: Final = ("mock_tool_outputs", "initial_state", "state_assertions", "state_after")


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A tool call that is expected.

    Attributes:
        name: the tool.
        args: its arguments; `None` where any will do.
        bare: whether the call must lack arguments, as calls in ADK's sets may.
    """

    name: str
    args: Mapping[str, Any] | None = None
    bare: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a case.

    Attributes:
        said: what the user says.
        calls: the tool calls that are expected, `None` where they are not judged.
        reference: the answer that is expected, `None` where it is not compared with one. An empty text is
            the answer of a turn in one of ADK's sets that has none.
    """

    said: str | Content
    calls: tuple[ExpectedCall, ...] | None = None
    reference: str | Content | None = None


@dataclass(frozen=True)
class FluentCase:
    """One conversation, and what is expected of it. What a case does not state is not judged.

    Args:
        input: what the user says; a list for several turns. Under a `UserSimulation`, how the simulated user
            begins.
        expected_trajectory: the tool calls, in order: names, and where arguments matter
            `call_tool(name, **args)` or `{name: {...}}`. They are those of the last turn, unless it is a list
            with one list, or `None`, per turn.
        expected_response_contains: text that the last answer must contain, letter by letter.
        reference_response: what the last answer is compared with: text, or a `Content`. A list has one, or
            `None`, per turn.
        mock_tool_outputs: tool → what its calls give, in its place: a value, an exception or its class to
            raise, or a function (async or not) or class of the call's arguments. It takes the place of the
            tool and of the `T` operations around it; middleware, callbacks and retries act as ever. Where
            the tool would ask a person, the answer in a later turn counts; without one the call is approved.
        initial_state: what the session's state holds before the first turn.
        tags: what the case is counted under in the report.
        target_node: the name of the agent or step that is evaluated, cut out of the pipeline with what holds
            for it there: the model it inherits, middleware, resources, schema. What earlier steps would have
            written stands in `initial_state`.
        state_assertions: what the state must hold at the end: state key or schema field → a value, a type,
            or a predicate of the value.
        state_after: agent → the same, right after its last words in the conversation.
        thresholds: metric → the least score here, where it is not that of the suite.
        metadata: anything; `"id"` is the name of the case, else one is made of its input, and
            `"conversation_plan"` is what a simulated user is to do in this case.

    Raises:
        EvalError: something in it is not of these types.

    Example:
        >>> case = FluentCase("My bill is wrong", expected_trajectory=["find_bill"], tags=["billing"])
        >>> case.turns[0].calls
        (ExpectedCall(name='find_bill', args=None),)
    """

    input: str | Content | Sequence[str | Content] = ""
    expected_trajectory: Sequence[Call | Sequence[Call] | None] | None = None
    expected_response_contains: str | None = None
    reference_response: str | Content | Sequence[str | Content | None] | None = None
    mock_tool_outputs: Mapping[str, object | Callable[..., object]] | None = None
    initial_state: Mapping[str, Any] | None = None
    tags: Sequence[str] = ()
    target_node: str | None = None
    state_assertions: State | None = None
    state_after: Mapping[str, State] | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict[str, float])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if isinstance(self.tags, str):
            raise EvalError(f"A case's tags are a list, not {self.tags!r}: write [{self.tags!r}].")
        if (tags := several(self.tags)) is None:
            raise EvalError(f"{self._where}: tags is a list of text, not {self.tags!r:.40}.")
        for name in ("target_node", "expected_response_contains"):
            if not isinstance(value := getattr(self, name), str | None):
                raise EvalError(f"{self._where}: {name} is text, not {value!r:.40}.")
        for name in (*_DICTS, "thresholds", "metadata"):
            value = getattr(self, name)
            if not (isinstance(value, Mapping) or (value is None and name in _DICTS)):
                raise EvalError(f"{self._where}: {name} is a dict, not {value!r:.40}.")
        object.__setattr__(self, "tags", tags)
        object.__setattr__(
            self,
            "thresholds",
            {str(getattr(name, "value", name)): value for name, value in self.thresholds.items()},
        )
        object.__setattr__(self, "_turns", self._paired())

    @property
    def _where(self) -> str:
        said = self.metadata.get("id") if isinstance(self.metadata, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        return f"Case {said!r}" if said else f"Case {self.input!r:.50}"

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, each with what is expected of it."""
        return cast("tuple[Turn, ...]", getattr(self, "_turns"))  # noqa: B009  # worked out once, when it is made

    def _paired(self) -> tuple[Turn, ...]:
        single = isinstance(self.input, str) or not isinstance(cast(object, self.input), Sequence)
        said = cast(
            "list[str | Content]", [self.input] if single else list(cast("Sequence[Any]", self.input))
        )
        if not said:
            raise EvalError("A case has an input: what the user says, or a list with one text per turn.")
        for text in said:
            if not (isinstance(text, str) or hasattr(text, "parts")):
                raise EvalError(f"{self._where}: input: a turn is text or a Content, not {text!r:.40}.")
        calls = self._calls(len(said))
        references = self._references(len(said))
        return tuple(map(Turn, said, calls, references))

    def _calls(self, turns: int) -> list[tuple[ExpectedCall, ...] | None]:
        given = self.expected_trajectory
        if given is None:
            return [None] * turns
        if isinstance(given, str | Mapping) or not isinstance(cast(object, given), Iterable):
            raise EvalError(f"{self._where}: expected_trajectory is a list of tool calls, not {given!r:.40}.")
        if given and all(one is None or isinstance(one, list | tuple) for one in given):
            per_turn = cast("Sequence[Sequence[Call] | None]", given)
            self._per_turn("expected_trajectory", len(per_turn), turns)
            return [None if one is None else tuple(map(self._call, one)) for one in per_turn]
        return [*[None] * (turns - 1), tuple(map(self._call, given))]

    def _call(self, call: object) -> ExpectedCall:
        match call:
            case str():
                return ExpectedCall(call)
            case Mapping():
                items = list(cast("Mapping[str, Any]", call).items())
                if len(items) == 1 and items[0][1] is None:
                    return ExpectedCall(items[0][0], bare=True)
                if len(items) == 1 and isinstance(items[0][1], Mapping):
                    return ExpectedCall(items[0][0], dict(cast("Mapping[str, Any]", items[0][1])))
            case ExpectedCall():
                return call
            case _Call():
                return ExpectedCall(call.name, dict(call.args))
            case _:
                pass
        raise EvalError(
            f"{self._where}: an expected tool call is a name, {{name: {{arguments}}}} or "
            f"call_tool(name, ...), not {call!r:.40}."
        )

    def _references(self, turns: int) -> list[str | Content | None]:
        given: object = self.reference_response
        if isinstance(given, str) or not isinstance(given, Sequence):
            given = [*[None] * (turns - 1), given]
        references = cast("Sequence[str | Content | None]", given)
        self._per_turn("reference_response", len(references), turns)
        for one in references:
            if not (isinstance(one, str | None) or hasattr(one, "parts")):
                raise EvalError(f"{self._where}: a reference_response is text, not {one!r:.40}.")
        return list(references)

    def _per_turn(self, name: str, given: int, turns: int) -> None:
        if given != turns:
            raise EvalError(f"{self._where}: {name} has {given} parts for {turns} turns; give one per turn.")


def several(value: object, kind: type = str) -> tuple[Any, ...] | None:
    """Several values of a class; `None` for one text or mapping, or where another value is among them.

    >>> several(["a"]), several("a"), several([1])
    (('a',), None, None)
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return None
    given = tuple(cast("Iterable[object]", value))
    return given if all(isinstance(each, kind) for each in given) else None


def key_of(key: str | StateFieldRef) -> str:
    """A state key, or that of a schema's field."""
    return key.key if isinstance(key, StateFieldRef) else key


def text_of(said: str | Content) -> str:
    """The words of a turn, without thoughts; an answer to a question of a run is named by what it answers."""
    if isinstance(said, str):
        return said
    words = (
        f"{part.function_response.name}: {part.function_response.response}"
        if part.function_response
        else part.text
        for part in said.parts or ()
        if not part.thought
    )
    return "\n".join(filter(None, words))


def named(cases: Sequence[FluentCase]) -> dict[str, FluentCase]:
    """The cases by their names: `metadata["id"]`, else words of the input, which stay when cases are added.

    Raises:
        EvalError: two cases were given one name.

    >>> list(named([FluentCase("My bill is $200 too high"), FluentCase("Hi", metadata={"id": "hello"})]))
    ['my_bill_is_200_too_high', 'hello']
    """
    given = [str(case.metadata["id"]) for case in cases if case.metadata.get("id") is not None]
    taken = set(given)
    if len(taken) < len(given):
        twice = next(name for name in given if given.count(name) > 1)
        raise EvalError(f"Two cases are called {twice!r}; results are told apart by metadata['id'].")
    found: dict[str, FluentCase] = {}
    for case in cases:
        name = case.metadata.get("id")
        name = _free(_words(case), taken) if name is None else str(name)
        taken.add(name)
        found[name] = case
    return found


def _words(case: FluentCase) -> str:
    words = re.findall(r"\w+", text_of(case.turns[0].said).casefold())
    return "_".join(words)[:_LONGEST_ID].strip("_") or "case"


def _free(name: str, taken: Container[str]) -> str:
    if name not in taken:
        return name
    return next(other for n in count(2) if (other := f"{name}_{n}") not in taken)
