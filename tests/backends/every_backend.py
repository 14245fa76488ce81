"""Every backend there is, and what each of them cannot do; `test_conformance` runs over them.

To add one (a durable engine, replay):

1. put a function that makes it into `BACKENDS`. It gets the expression and what each agent says, and gives
   the backend and the expression to run, which differs from the one given only if the backend asks the
   agents' own models;
2. put what it cannot do into `CANNOT`: what is asked of it (one of `ASKED`) with the class and the text of
   the error that says so. The tests assert that error; nothing is skipped;
3. if it stores sessions, nothing else: `test_who_stores_sessions` finds it by its methods.

`Toy` is a whole backend, and `Keeping` one that stores sessions.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent.backends import (
    ADKBackend,
    AgentEvent,
    Backend,
    DryRunBackend,
    MockBackend,
    Pending,
    ReplayerBackend,
    StoredSession,
    TraceBackend,
    Usage,
    VizBackend,
)
from adk_fluent.backends.adk.running.runner import fresh_services
from adk_fluent.backends.preview import PreviewBackend
from adk_fluent.backends.turns import state_after
from adk_fluent.config import ExecutionConfig
from adk_fluent.debug import Recording
from adk_fluent.distributed import DistributedBackend, ExecutionBoundary
from adk_fluent.errors import (
    ADKFluentError,
    BackendError,
    SessionError,
    UnsupportedNodeError,
)
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AgentNode, GateNode, Node, SequenceNode, TransformNode, rewrite, walk
from adk_fluent.state.delta import changes
from tests.backends.support import PlainLlm, failing, reply, seen

if TYPE_CHECKING:
    from tests.backends.temporal.engine import Workers

Said = str | Exception | Callable[[str], str]
"""What an agent says: text, an error to raise, or a function of all that it hears."""
BLOCKED = "(blocked)"
"""What is said in place of an answer that the provider blocks."""


# --- two backends ---------------------------------------------------------------------------------


class Toy:
    """Runs sequences of agents and steps; agents say what `says` has for them, or what the user said."""

    def __init__(self, says: Mapping[str, Said] | None = None) -> None:
        self.says: Mapping[str, Said] = says or {}

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> list[Node]:
        return [step for step in walk(node) if not isinstance(step, SequenceNode)]

    async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
        return [event async for event in self.stream(compiled, prompt, **options)]

    async def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        state, history = dict(options["state"]), options["history"]
        heard = "\n".join([*(event.content or "" for event in history), str(prompt)])
        for step in compiled:
            match step:
                case AgentNode(name=name):
                    said = self.says.get(name, str(prompt))
                    said = said if isinstance(said, str | Exception) else said(heard)
                    event = spoken(name, said, step.output_key)
                case TransformNode():
                    event = AgentEvent(step.label, state_delta=changes(step, step.fn(state), state))
                case GateNode():
                    yield AgentEvent("gate", pending=(Pending(str(uuid.uuid4()), "gate", str(step.message)),))
                    return
                case _:
                    raise UnsupportedNodeError(f"Toy runs no {step.kind}; take ADKBackend().")
            state.update(event.state_delta)
            yield event


def spoken(name: str, said: str | Exception, key: Any) -> AgentEvent:
    """The event of an agent that says something, and writes it under a key."""
    if isinstance(said, Exception):
        raise said
    if said == BLOCKED:
        return AgentEvent(name, error="SAFETY: blocked")
    wrote: dict[str, Any] = {key: said} if isinstance(key, str) else {}
    return AgentEvent(name, said, wrote, is_final=True, model="plain", usage=Usage(1, 2, 3))


@dataclass
class Kept:
    """What `Keeping` keeps of a session."""

    state: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[AgentEvent] = field(default_factory=list[AgentEvent])
    before: dict[str, tuple[dict[str, Any], int]] = field(
        default_factory=dict[str, tuple[dict[str, Any], int]]
    )
    waiting: dict[str, tuple[Pending, list[Node]]] = field(
        default_factory=dict[str, tuple[Pending, "list[Node]"]]
    )


class Keeping(Toy):
    """A `Toy` that stores sessions, by their ids."""

    def __init__(self, says: Mapping[str, Said] | None = None) -> None:
        super().__init__(says)
        self.kept: dict[str, Kept] = {}

    async def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        if options["services"]:
            raise BackendError(f"Keeping has its own store; leave {min(options['services'])} out.")
        kept, run = self.kept.setdefault(options["session_id"], Kept()), str(uuid.uuid4())
        kept.before[run] = (dict(kept.state), len(kept.events))
        kept.state.update(options["state"])
        kept.events.append(AgentEvent("user", prompt, invocation_id=run))
        async with aclosing(self._steps(kept, run, compiled, prompt)) as events:
            async for event in events:
                yield event

    async def _steps(
        self, kept: Kept, run: str, steps: list[Node], prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        history = [event for event in kept.events if event.invocation_id != run]
        async for event in super().stream(steps, prompt, state=kept.state, history=history):
            event = replace(event, id=str(uuid.uuid4()), invocation_id=run)
            kept.events.append(event)
            kept.state = state_after(kept.state, [event])
            for asked in event.pending:
                here = next(i for i, step in enumerate(steps) if isinstance(step, GateNode))
                kept.waiting[run] = (asked, steps[here + 1 :])
            yield event

    def _kept(self, session_id: str) -> Kept:
        if session_id not in self.kept:
            raise SessionError(f"There is no session {session_id!r}.")
        return self.kept[session_id]

    async def session(self, compiled: Any, *, session_id: str, **whose: Any) -> StoredSession:
        kept = self._kept(session_id)
        runs: dict[str, list[AgentEvent]] = {}
        for event in kept.events:
            runs.setdefault(event.invocation_id, []).extend([event] if event.author != "user" else [])
        return StoredSession(kept.state, {run: [asked] for run, (asked, _) in kept.waiting.items()}, runs)

    async def resume(
        self, compiled: Any, *, session_id: str, approvals: Mapping[str, Any], **whose: Any
    ) -> AsyncGenerator[AgentEvent, None]:
        kept = self._kept(session_id)
        run = next((run for run, (asked, _) in kept.waiting.items() if asked.id in approvals), None)
        if run is None:
            raise SessionError(f"Session {session_id!r} does not wait for {', '.join(approvals)}.")
        _, rest = kept.waiting.pop(run)
        yield AgentEvent("gate", invocation_id=run)
        async for event in self._steps(kept, run, rest, ""):
            yield event

    async def rewind(self, compiled: Any, *, session_id: str, before_invocation_id: str, **_: Any) -> None:
        kept = self._kept(session_id)
        if before_invocation_id not in kept.before:
            raise SessionError(f"Session {session_id!r} has no run {before_invocation_id!r}.")
        kept.state, count = kept.before[before_invocation_id]
        del kept.events[count:]

    async def forget(self, compiled: Any, *, session_id: str, **whose: Any) -> None:
        self.kept.pop(session_id, None)


# --- all of them ----------------------------------------------------------------------------------

Says = Mapping[str, Said]
Made = tuple[Backend, Expr[Any]]


def _response(name: str, says: Says, request: LlmRequest) -> LlmResponse | Exception:
    """What a scripted model answers."""
    said = says.get(name, "ok")
    text = said if isinstance(said, str | Exception) else said(seen(request))
    if isinstance(text, Exception):
        return text
    if text == BLOCKED:
        return failing()
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=2, candidates_token_count=3)
    return reply(text, usage_metadata=usage, model_version="plain")


def with_models(expression: Expr[Any], says: Says) -> Expr[Any]:
    """The expression, each agent with a scripted model of its own, the same wherever it is used."""

    @cache
    def model(name: str) -> PlainLlm:
        async def answer(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
            response = _response(name, says, request)
            if isinstance(response, Exception):
                raise response
            yield response

        return PlainLlm.of(answer)

    def scripted(node: Node) -> Node:
        return node.replace(model=model(node.name)) if isinstance(node, AgentNode) else node

    return expression.from_node(rewrite(expression.node, scripted))


def _script(expression: Expr[Any], says: Says) -> dict[str, Any]:
    agents = [node.name for node in walk(expression.node) if isinstance(node, AgentNode)]
    return {name: partial(_response, name, says) for name in agents}


def _replayer(expression: Expr[Any], says: Says) -> ReplayerBackend:
    """A replay in which nothing was recorded, so that all is asked live."""
    return ReplayerBackend(Recording(), "live", live=MockBackend(_script(expression, says)))


def _adk(expression: Expr[Any], says: Says) -> Made:
    return ADKBackend(fresh_services().session_service), with_models(expression, says)


def _temporal(expression: Expr[Any], says: Says) -> Made:
    """Workers in a thread, on the server that the fixture `workers` has started."""
    from tests.backends.temporal.engine import Served

    return Served(WORKERS[-1]), with_models(expression, says)


def _distributed(expression: Expr[Any], says: Says) -> Made:
    """Segments behind bytes: a sequence is cut before each step but the first, and those it runs twice."""

    def cut(step: Node) -> Node:
        return (
            step
            if expression.node.children.count(step) > 1
            else step.replace(annotations=step.annotations.replace(boundary=ExecutionBoundary()))
        )

    root = expression.node
    if isinstance(root, SequenceNode):
        first, *others = root.children
        expression = expression.from_node(root.replace(children=(first, *map(cut, others))))
    return DistributedBackend(MockBackend(_script(expression, says))), expression


WORKERS: list[Workers] = []
"""Where the workers of a durable engine run, while there are any."""

NEWEST: Collection[str] = ("temporal",)
"""The backends that only the newest ADK has."""

BACKENDS: Mapping[str, Callable[[Expr[Any], Says], Made]] = {
    "adk": _adk,
    "mock": lambda expr, says: (MockBackend(_script(expr, says)), expr),
    "preview": lambda expr, says: (PreviewBackend(expr.node, _script(expr, says)), expr),
    "dry_run": lambda expr, says: (DryRunBackend(_script(expr, says)), expr),
    "trace": lambda expr, says: (TraceBackend(MockBackend(_script(expr, says))), expr),
    "replay": lambda expr, says: (_replayer(expr, says), expr),
    "distributed": _distributed,
    "viz": lambda expr, says: (VizBackend(), expr),
    "toy": lambda expr, says: (Toy(says), expr),
    "keeping": lambda expr, says: (Keeping(says), expr),
    "temporal": _temporal,
}
"""Name → what makes the backend, and the expression to run on it."""

ASKED = (
    *("run", "stream", "ask", "map", "session", "resume", "rewind", "chat.resume"),
    *("session_id", "keep", "session_service", "artifact_service"),
)
"""What is asked of a backend: a terminal, or an option."""

Errors = Mapping[str, tuple[type[ADKFluentError], str]]

DRAWS = (BackendError, r"^VizBackend draws expressions and runs nothing, .*visualize\(\); to run, take .*\.$")


def stores_none(backend: str) -> dict[str, tuple[type[ADKFluentError], str]]:
    """What a backend without sessions says."""
    take = r"take a backend that does, such as ADKBackend\(\)\."
    start = f"^{backend} stores no sessions, which "
    return {
        "resume": (BackendError, rf"{start}resume\(\) needs\. T{take[1:]}$"),
        "rewind": (BackendError, rf"{start}rewind\(\) needs\. T{take[1:]}$"),
        "chat.resume": (BackendError, rf"{start}resume\(\) needs\. T{take[1:]}$"),
        "keep": (BackendError, rf"{start}session\(keep=True\) needs\. Leave keep out, or {take}$"),
        **{
            name: (BackendError, rf"{start}\w+\({name}=\) needs\. Leave {name} out, or {take}$")
            for name in ("session_id", "session_service", "artifact_service")
        },
    }


CANNOT: Mapping[str, Errors] = {
    "adk": {},
    "mock": {},
    "preview": {},
    "dry_run": {},
    "trace": {},
    "replay": {},
    "distributed": {},
    "viz": {
        **stores_none("VizBackend"),
        **dict.fromkeys(("run", "stream", "ask", "map", "session", "chat.resume"), DRAWS),
    },
    "toy": stores_none("Toy"),
    "temporal": {
        "session_service": (BackendError, r"^TemporalBackend .*give it to run_worker\(session_service=\)\.$"),
        "artifact_service": (
            BackendError,
            r"^TemporalBackend .*give it to run_worker\(artifact_service=\)\.$",
        ),
    },
    # A refusal of its own.
    "keeping": {
        "session_service": (BackendError, "^Keeping has its own store; leave session_service out.$"),
        "artifact_service": (BackendError, "^Keeping has its own store; leave artifact_service out.$"),
    },
}
"""Backend → what it cannot do → the error that says so."""


@dataclass(frozen=True)
class Stage:
    """One backend at a time."""

    kind: str

    def __call__(self, expression: Expr[Any], says: Says | None = None) -> tuple[Any, dict[str, Any]]:
        """An expression to run, and the option that runs it on this backend."""
        backend, expression = BACKENDS[self.kind](expression, says or {})
        return expression, {"backend": backend}

    @contextmanager
    def may(self, asked: str) -> Generator[pytest.ExceptionInfo[ADKFluentError] | None]:
        """Inside, the backend does what is asked, or raises the error that the table has for it."""
        assert asked in ASKED
        expected = CANNOT[self.kind].get(asked)
        if expected is None:
            yield None
            return
        cls, text = expected
        with pytest.raises(cls, match=text) as caught:
            yield caught
        assert "\n" not in str(caught.value)


async def read(stream: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    """All events of a stream."""
    return [event async for event in stream]
