"""Steps: what an engine is asked to do, as values that JSON can hold, and what really does it.

A compiled tree decides; it asks no model and calls no function of the user's itself. Each of these is a
`Step`, which the engine at hand hands to a worker. Where there is none, the step is done at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from pydantic_core import PydanticSerializationError, to_jsonable_python

from adk_fluent.backends.adk.middleware.parting import decided_here
from adk_fluent.errors import RunError, on_one_line

if TYPE_CHECKING:
    from adk_fluent.backends.adk.running.runner import Services

Json = Any
Tell = Callable[[Json], Awaitable[None]]
"""Takes a piece of what a step gives before it is done."""

Worker = Callable[[], "Services"]
"""The services of the process that does steps."""

Kind = Literal["model", "tool", "function", "callback", "artifact", "remote"]


@dataclass(frozen=True, slots=True)
class Step:
    """Something with an effect.

    Attributes:
        kind: what it is.
        key: what it is about, the same in every process: `writer`, `writer.before_agent_callback.0`.
        agent: the agent or step of the expression that it belongs to.
        data: what it needs, as JSON.
    """

    kind: Kind
    key: str
    agent: str
    data: Mapping[str, Json]


class Engine(Protocol):
    """Does steps, and remembers what they gave."""

    async def do(self, step: Step) -> Json:
        """What the step gives."""
        ...

    def stream(self, step: Step) -> AsyncGenerator[Json, None]:
        """The pieces of what the step gives, then, as the last item, what `do` would give."""
        ...


class Doer(Protocol):
    """Really does a step."""

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """What the step gives, as JSON; pieces of it are told before."""
        ...


Maker = Callable[[Mapping[str, Json]], Doer | None]
"""Makes what does a step, of what the step is given."""


@dataclass(frozen=True, slots=True)
class Table:
    """What does each step of a compiled tree."""

    _doers: dict[str, Doer] = field(default_factory=dict[str, Doer])
    _makers: dict[str, Maker] = field(default_factory=dict[str, "Maker"])

    def make(self, kind: Kind, maker: Maker) -> None:
        """Set what makes a doer that was not known when the tree was compiled, of what the step is given."""
        self._makers[kind] = maker

    def add(self, kind: Kind, key: str, doer: Doer) -> None:
        """Set what does a step, unless it is set: a tree is compiled anew for each run."""
        self._doers.setdefault(f"{kind}:{key}", doer)

    async def perform(self, step: Step, tell: Tell) -> Json:
        """Do a step.

        Raises:
            RunError: the tree has no such step.
        """
        doer = self._doers.get(f"{step.kind}:{step.key}")
        if doer is None and (maker := self._makers.get(step.kind)) is not None:
            doer = maker(step.data)
        if doer is None:
            raise RunError(
                f"{step.agent!r}: this worker knows no {step.kind} {step.key!r}. "
                "Start the worker with the same code as the run."
            )
        return await doer(step.data, tell)


_engine: ContextVar[Engine | None] = ContextVar("adk_fluent_engine", default=None)


def use(engine: Engine) -> None:
    """From here on, in this task and those it starts, steps are done by this engine."""
    _engine.set(engine)
    decided_here()


def current() -> Engine | None:
    """The engine that does steps here, if any."""
    return _engine.get()


async def do(table: Table, step: Step) -> Json:
    """What a step gives: from the engine at hand, or done here."""
    engine = current()
    return await (table.perform(step, _nobody) if engine is None else engine.do(step))


async def _nobody(piece: Json) -> None:
    """Nobody listens."""


_FLAWED: Final = "JSON cannot hold {what} of {agent!r}: {error}. Give text, numbers, lists or dicts."


def jsonable(value: object, what: str, agent: str) -> Json:
    """A value as JSON holds it.

    Raises:
        RunError: JSON cannot hold it; the message names `what` of which `agent`.
    """
    try:
        return to_jsonable_python(value, bytes_mode="base64")
    except (PydanticSerializationError, ValueError) as error:
        raise RunError(_FLAWED.format(what=what, agent=agent, error=on_one_line(error))) from error


def state_json(state: Mapping[str, Any], agent: str) -> dict[str, Json]:
    """A state as JSON holds it.

    Raises:
        RunError: JSON cannot hold it; the message names the key.
    """
    return {key: jsonable(value, f"the state key {key!r}", agent) for key, value in state.items()}
