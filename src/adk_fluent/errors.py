"""Every error that adk-fluent raises on purpose.

All derive from `ADKFluentError`. Each message is one line that says what was wrong, which agent or
state key it concerns, and what to do about it.

    >>> from adk_fluent.errors import ADKFluentError, InvalidNameError
    >>> issubclass(InvalidNameError, ADKFluentError)
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from adk_fluent._lazy import listing

if TYPE_CHECKING:
    from adk_fluent.backends.events import RunResult

MAX_CAUSE: Final = 300
"""Characters that a message takes over of another error's; providers answer with whole JSON documents."""

_EXTRAS: Final[Mapping[str, str]] = {
    "a2a": "'google-adk[a2a]'",
    "arrow": "'pyarrow>=17'",
    "cost": "'genai-prices>=0.2'",
    "diskcache": "'diskcache>=5.6'",
    "eval": "'google-adk[eval]'",
    "mcp": "'mcp>=1.24,<3'",
    "otel": "'opentelemetry-sdk>=1.36' 'opentelemetry-exporter-otlp-proto-http>=1.36'",
    "pubsub": "'google-cloud-pubsub>=2.20'",
    "queues": "'aio-pika>=9.4' 'nats-py>=2.7' 'redis>=5'",
    "redis": "'redis>=5'",
    "temporal": "'temporalio>=1.35'",
    "viz": "'resvg-py>=0.5' 'ttf-opensans>=2020.10.30'",
}


class ADKFluentError(Exception):
    """Base of every error raised on purpose; catch it to catch them all.

    Attributes:
        answers: where it ended a `map`, the answers to the other prompts: the index of the prompt → its
            answer; else `None`.
    """

    answers: Mapping[int, Any] | None = None


# --- The expression is wrong: raised while it is written. -----------------------------------------


class ExpressionError(ADKFluentError):
    """An expression was put together wrongly: an empty pipeline, a wrong type, a missing key."""


class InvalidNameError(ExpressionError):
    """A name that ADK would reject (not an identifier, or reserved)."""


class DuplicateNameError(ExpressionError):
    """Two different nodes of one tree have the same name; equal ones are a reuse and are fine."""


class ArgumentError(ExpressionError, TypeError):
    """An argument of the wrong type; also a `TypeError`, so generic handlers see it."""


class UnknownMethodError(ExpressionError, AttributeError):
    """A method or factory that does not exist; also an `AttributeError`, so `hasattr` works."""


class CycleError(ExpressionError):
    """An expression that could only run for ever, such as an unconditional transfer to its own parent."""


class SchemaError(ExpressionError):
    """A `StateSchema` class that cannot be: a type that state cannot hold, two scopes, a taken name."""


class SchemaCompositionError(SchemaError):
    """Two schemas that are joined, or a schema and its parent, declare one field differently."""


# --- The expression cannot be compiled or stored. -------------------------------------------------


class CompileError(ADKFluentError):
    """The running ADK, or the chosen target, cannot express this node."""


class UnsupportedNodeError(CompileError):
    """A backend does not handle this node type; the message names the node and the backend."""


class BoundaryError(CompileError):
    """A pipeline cannot be cut where an execution boundary says; the message names what is in the way."""


class ContractError(ADKFluentError):
    """A contract check found errors that stop a build or a run; one paragraph per finding."""


class BackendError(ADKFluentError):
    """A backend was asked for what it cannot do; the message names it, the terminal, and what to do."""


class EngineError(BackendError):
    """A durable engine is not there, refuses, or has no worker for what it was asked to run."""


class RecordingError(ADKFluentError):
    """A file that is no whole recording, one of a newer kind, or what a recording cannot give."""


class CodecError(ADKFluentError):
    """A node that cannot be written as JSON, or JSON that is not a node."""


# --- The run went wrong. --------------------------------------------------------------------------


class RunError(ADKFluentError):
    """Base of errors raised while a pipeline runs, and what an error event raises that nothing catches.

    Attributes:
        result: the events, state and usage of the run until then; `None` if it had not begun. `run`, `ask`,
            `map`, `stream`, `session` and `resume` set it.

    Example:
        >>> import asyncio
        >>> from google.adk.models.llm_response import LlmResponse
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> blocked = mock_backend({"a": "Hello.", "b": LlmResponse(error_code="SAFETY")})
        >>> try:
        ...     result = asyncio.run((Agent("a") >> Agent("b")).run("Hi", backend=blocked))
        ... except RunError as error:
        ...     print(error.result.by("a")[0].content)
        Hello.
    """

    result: RunResult[Any] | None = None


def no_answer(agent: str, problem: str) -> str:
    """The message for an agent whose model reported a failure that nothing caught."""
    return (
        f"{agent!r} gave no answer but an error: {sentence(problem)} Give it a fallback ({agent} // other), "
        "or catch RunError."
    )


class MissingKeyError(RunError, KeyError):
    """An agent's instruction needs a state key that is not set."""

    def __str__(self) -> str:  # KeyError shows the repr of its argument
        return str(self.args[0]) if self.args else ""


class UnfilledKeyError(ContractError, MissingKeyError):
    """A run in a new session that must fail for want of a state key; it was refused before a model was asked.

    `ExecutionConfig(contracts="log")` runs it anyway.
    """


class StateKeyError(MissingKeyError):
    """A state key that is not set where a schema's field is read, or that a bound schema does not declare."""


class UnknownFieldError(StateKeyError, AttributeError):
    """A schema has no field of that name; also an `AttributeError`, so `hasattr` works."""


class StateTypeError(RunError, TypeError):
    """A state value that is not of the type its schema declares, breaks a constraint, or fits no store."""


class ReadOnlyStateError(RunError, TypeError):
    """A write where state can only be read: an instruction, a predicate, a transform's argument."""


class StateGuardError(RunError):
    """`S.guard`, `S.require` or `S.validate` found state that does not hold what it must."""


class StepError(RunError):
    """A function of yours that is a step, or part of one, raised; its error is the `__cause__`."""


class ToolError(RunError):
    """A tool raised, and nothing caught it; its error is the `__cause__`."""


class CallbackError(RunError):
    """A callback, planner, code executor, toolset or plugin raised, and nothing caught it.

    Its error is the `__cause__`.
    """


class MiddlewareError(RunError):
    """A hook of a middleware raised, or gave what cannot be used; its error is the `__cause__`."""


class ResourceError(RunError):
    """A function was to be given what is not there: nobody injects it, or it could not be opened.

    What a resource's factory raised is the `__cause__`.
    """


class ModelError(RunError):
    """A model could not be asked, or its provider refused; that error is the `__cause__`."""


class ModelTimeoutError(ModelError, TimeoutError):
    """A model call did not end in the seconds that the `timeout` middleware gives; also a `TimeoutError`."""


class BudgetError(RunError):
    """A model call would use more tokens than a `token_budget` has left; the call was not made."""


class RateLimitError(ModelError):
    """A `rate_limiter` that refuses had no call left; the call was not made.

    Attributes:
        retry_after: seconds until one is free.
    """

    retry_after: float = 0.0


class CircuitOpenError(ModelError):
    """A `circuit_breaker` has stopped calls to a model that kept failing; the call was not made.

    Attributes:
        retry_after: seconds until one call is let through to see whether the model answers again.
    """

    retry_after: float = 0.0


class ContextError(RunError):
    """`C.validate` refused an agent's context, or it exceeds a `C.budget(overflow="error")`."""


class PredicateError(RunError):
    """A predicate or condition raised (the cause is chained), or must be awaited where nothing awaits it."""


class TransformError(RunError):
    """A state transform returned something that is not a dict."""


class ArtifactError(RunError):
    """An artifact that is not there, or cannot be read or written; or there is no artifact service."""


class AnswerError(RunError, ValueError):
    """An agent's answer is not what its `returns` promises; also a `ValueError`.

    Attributes:
        agent: who answered, or should have.
        reason: what is wrong with the answer.
    """

    def __init__(self, message: str = "", *, agent: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.agent: str = agent
        self.reason: str = reason or message


class AskAgain(RunError):
    """Raise it in a tool, and the model gets the reason as the tool's result, and may call the tool again.

    Each tool may do so once in a row, unless `retries` or those of the agent's `.returns` say more; then the
    run ends with a `ToolError`. A call that succeeds starts the count again.

    Attributes:
        reason: what the model is told.
        retries: how often in a row the tool may ask again.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import call_tool, mock_backend
        >>> def weather(city: str) -> str:
        ...     if city != "Paris":
        ...         raise AskAgain(f"There is no city {city!r}. Did you mean 'Paris'?")
        ...     return "Sunny."
        >>> calls = [call_tool("weather", city="Pari"), call_tool("weather", city="Paris"), "It is sunny."]
        >>> agent = Agent("guide").tool(weather)
        >>> asyncio.run(agent.run("Weather in Pari?", backend=mock_backend({"guide": calls}))).text
        'It is sunny.'
    """

    def __init__(self, reason: str = "", *, retries: int = 1) -> None:
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"AskAgain() takes what the model is told, as text, not {reason!r:.40}.")
        super().__init__(reason)
        self.reason: str = reason or "Call it again, with other arguments."
        self.retries: int = whole_number(retries, "AskAgain(retries=)")


def whole_number(value: object, where: str) -> int:
    """A whole number that a user gave, not below zero.

    Raises:
        ArgumentError: it is none.

    >>> whole_number(2, "returns(retries=)")
    2
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ArgumentError(f"{where} takes a whole number from 0 on, not {value!r:.40}.")
    return value


class AgentTimeoutError(RunError, TimeoutError):
    """An expression did not finish in the seconds it was given; also a `TimeoutError`."""


class RemoteError(RunError):
    """A remote agent failed, and nothing stood in for it; the message names it and its endpoint."""


class SerializationError(RunError, TypeError):
    """A value that cannot cross an execution boundary, or data that did not come from one."""


class SegmentError(RunError):
    """A segment failed where it ran, or nobody ran it; the message names the segment, and what happened."""


class SessionError(RunError):
    """A session, invocation or approval that does not exist where one is needed."""


class SessionConflictError(SessionError):
    """Somebody else wrote to a session while a run was on its way in it; running the prompt again is safe.

    The store's own error is the `__cause__`.
    """


class SessionStoreError(SessionError):
    """A session store could not be reached, or refused what it was given; its error is the `__cause__`."""


class EventLoopError(RunError):
    """A blocking call such as `ask` was made inside a running event loop."""


class MockError(RunError):
    """A scripted model has no (more) response for an agent."""


class RealModelError(MockError):
    """A test would ask a real model, and nothing allows it."""


class ReplayError(MockError):
    """A replay was asked for what its recording does not hold; the message shows what differs."""


def install(extra: str) -> str:
    """The command that installs the packages of an extra.

    It names the packages, since `adk-fluent` is another project on the public registry.

    >>> install("cost")
    "pip install 'genai-prices>=0.2' (the extra 'cost')"
    """
    return f"pip install {_EXTRAS[extra]} (the extra {extra!r})"


def on_one_line(text: object) -> str:
    """A text, or the message of an error, on one line.

    >>> on_one_line(ValueError("first\\n  second"))
    'first second'
    """
    return " ".join(str(text).split())


def what_happened(error: BaseException) -> str:
    """The type and message of an error, on one line, cut where it gets long.

    >>> what_happened(ValueError("first\\n  second"))
    'ValueError: first second'
    """
    name, text = type(error).__name__.lstrip("_"), on_one_line(error)
    return f"{name}: {text:.{MAX_CAUSE}}{'…' * (len(text) > MAX_CAUSE)}" if text else name


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends a sentence already.

    >>> sentence("KeyError: 'x'"), sentence("Really?")
    ("KeyError: 'x'.", 'Really?')
    """
    return text if text.rstrip().endswith((".", "!", "?", "…")) else f"{text}."


class EvalError(ADKFluentError):
    """An evaluation that cannot be: a case, metric, judge or file that is wrong; nothing was run."""


class MissingExtraError(ADKFluentError):
    """A feature needs a package that an extra of adk-fluent brings; the message names the extra."""


class TelemetryError(ADKFluentError):
    """Spans or metrics cannot go where a `TelemetryConfig` wants them."""


class DirectoryError(ADKFluentError):
    """A directory of agents cannot be asked, or refused what it was asked; the message names it."""


class ServerError(ADKFluentError):
    """A server cannot listen where it should, does not listen, or does so already."""


class LocalModelError(ADKFluentError):
    """The embedded model cannot be loaded, or cannot answer this request (`adk_fluent.local`)."""


def __dir__() -> list[str]:
    return listing(__name__)
