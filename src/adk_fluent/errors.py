"""All errors that adk-fluent raises on purpose.

They derive from `ADKFluentError`. Each message is one line: what is wrong, which agent or state key it
concerns, and what to do about it.

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
"""Most characters of another error that a message quotes; providers answer with whole JSON documents."""

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
    """Base class of all errors of adk-fluent; catch it to catch them all.

    Attributes:
        answers: if the error ended a `map`, the answers to the other prompts, by the index of the prompt;
            else `None`.
    """

    answers: Mapping[int, Any] | None = None


# --- The expression is wrong: raised while it is written. -----------------------------------------


class ExpressionError(ADKFluentError):
    """An expression is invalid: an empty pipeline, a wrong type, a missing key."""


class InvalidNameError(ExpressionError):
    """A name that ADK would reject (not an identifier, or reserved)."""


class DuplicateNameError(ExpressionError):
    """Two different nodes of one tree have the same name. Equal nodes may: that is one node, used twice."""


class ArgumentError(ExpressionError, TypeError):
    """An argument has a wrong type or value; also a `TypeError`, so generic handlers catch it."""


class UnknownMethodError(ExpressionError, AttributeError):
    """A method or factory does not exist; also an `AttributeError`, so `hasattr` works."""


class CycleError(ExpressionError):
    """An expression would run for ever, as with an unconditional transfer to its own parent."""


class SchemaError(ExpressionError):
    """A `StateSchema` class is invalid: a type that state cannot hold, two scopes, a reserved name."""


class SchemaCompositionError(SchemaError):
    """Two joined schemas, or a schema and its parent, declare one field differently."""


# --- The expression cannot be compiled or stored. -------------------------------------------------


class CompileError(ADKFluentError):
    """The installed ADK, or the chosen target, cannot express a node."""


class UnsupportedNodeError(CompileError):
    """A backend does not support a node type; the message names the node and the backend."""


class BoundaryError(CompileError):
    """A pipeline cannot be cut at an execution boundary; the message names the obstacle."""


class ContractError(ADKFluentError):
    """The contract check found errors that stop a build or a run; one paragraph per finding."""


class BackendError(ADKFluentError):
    """A backend does not support an operation; the message names both, and what to do."""


class EngineError(BackendError):
    """A durable engine cannot be reached, refuses a run, or has no worker for it."""


class RecordingError(ADKFluentError):
    """A file is not a whole recording, has a newer format, or does not hold the requested part."""


class CodecError(ADKFluentError):
    """A node cannot be written as JSON, or JSON is not a node."""


# --- The run went wrong. --------------------------------------------------------------------------


class RunError(ADKFluentError):
    """Base class of errors while a pipeline runs; also raised for an error event that nothing catches.

    Attributes:
        result: the events, state and usage of the run up to the error; `None` if no run had begun. `run`,
            `ask`, `map`, `stream`, `session` and `resume` set it.

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
    """The error message for an agent whose model reported a failure that nothing caught."""
    return (
        f"{agent!r} gave no answer but an error: {sentence(problem)} Give it a fallback ({agent} // other), "
        "or catch RunError."
    )


class MissingKeyError(RunError, KeyError):
    """An instruction needs a state key that is not set, or your code reads one from `RunResult.state`."""

    def __str__(self) -> str:  # KeyError shows the repr of its argument
        return str(self.args[0]) if self.args else ""


class UnfilledKeyError(ContractError, MissingKeyError):
    """A run in a new session would fail because a state key is missing. It was refused before any model call.

    `ExecutionConfig(contracts="log")` runs it anyway.
    """


class StateKeyError(MissingKeyError):
    """A schema's field is read but not set, or a bound schema does not declare a key."""


class UnknownFieldError(StateKeyError, AttributeError):
    """A schema has no field of that name; also an `AttributeError`, so `hasattr` works."""


class StateTypeError(RunError, TypeError):
    """A state value has not the declared type, breaks a constraint, or cannot be stored."""


class ReadOnlyStateError(RunError, TypeError):
    """Code wrote to state where it may only read: an instruction, a predicate, a transform's argument."""


class StateGuardError(RunError):
    """`S.guard`, `S.require` or `S.validate` found that state breaks its condition."""


class StepError(RunError):
    """A function of yours that is a step, or part of a step, raised; its error is the `__cause__`."""


class ToolError(RunError):
    """A tool raised an error that nothing caught; that error is the `__cause__`."""


class CallbackError(RunError):
    """A callback, planner, code executor, toolset or plugin raised an error that nothing caught.

    That error is the `__cause__`.
    """


class MiddlewareError(RunError):
    """A hook of a middleware raised, or returned an invalid value; its error is the `__cause__`."""


class ResourceError(RunError):
    """A function needs a resource that is not injected, or that could not be opened.

    If the resource's factory raised an error, that error is the `__cause__`.
    """


class ModelError(RunError):
    """A model call failed, or the provider refused it; that error is the `__cause__`."""


class ModelTimeoutError(ModelError, TimeoutError):
    """A model call exceeded the seconds of the `timeout` middleware; also a `TimeoutError`."""


class BudgetError(RunError):
    """A model call would use more tokens than a `token_budget` has left; the call was not made."""


class RateLimitError(ModelError):
    """A `rate_limiter` refused a model call because its limit is reached; the call was not made.

    Attributes:
        retry_after: seconds until the next call is allowed.
    """

    retry_after: float = 0.0


class CircuitOpenError(ModelError):
    """A `circuit_breaker` has stopped calls to a model that kept failing; the call was not made.

    Attributes:
        retry_after: seconds until one call is allowed again, to test if the model has recovered.
    """

    retry_after: float = 0.0


class ContextError(RunError):
    """`C.validate` refused an agent's context, or it exceeds a `C.budget(overflow="error")`."""


class PredicateError(RunError):
    """A predicate or condition raised, or is async where it must not be; its error is the `__cause__`."""


class TransformError(RunError):
    """A state transform returned something that is not a dict."""


class ArtifactError(RunError):
    """An artifact does not exist, or cannot be read or written, or there is no artifact service."""


class AnswerError(RunError, ValueError):
    """An agent's answer does not match the type of its `returns`; also a `ValueError`.

    Attributes:
        agent: name of the agent that answered, or should have.
        reason: the fault of the answer.
    """

    def __init__(self, message: str = "", *, agent: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.agent: str = agent
        self.reason: str = reason or message


class AskAgain(RunError):
    """Raise it in a tool: the model receives the reason as the tool's result, and may call the tool again.

    A tool may raise it once in a row, or more often if `retries` here or in the agent's `.returns` is larger.
    Beyond that, the run ends with a `ToolError`. A call that succeeds starts the count again.

    Attributes:
        reason: the text that the model receives.
        retries: most times in a row that the tool may raise it; 1 by default.

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
            raise ArgumentError(f"AskAgain() takes the reason for the model as text, not {reason!r:.40}.")
        super().__init__(reason)
        self.reason: str = reason or "Call it again, with other arguments."
        self.retries: int = whole_number(retries, "AskAgain(retries=)")


def whole_number(value: object, where: str) -> int:
    """Return `value` if it is a whole number, 0 or more.

    Raises:
        ArgumentError: `value` is something else; the message begins with `where`.

    >>> whole_number(2, "returns(retries=)")
    2
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ArgumentError(f"{where} takes a whole number from 0 on, not {value!r:.40}.")
    return value


class AgentTimeoutError(RunError, TimeoutError):
    """An expression did not finish within its time limit; also a `TimeoutError`."""


class RemoteError(RunError):
    """A remote agent failed and has no fallback; the message names it and its endpoint."""


class SerializationError(RunError, TypeError):
    """A value cannot cross an execution boundary, or data did not come from one."""


class SegmentError(RunError):
    """A segment failed, or no worker ran it; the message names the segment and the reason."""


class SessionError(RunError):
    """A session, invocation or approval does not exist."""


class SessionConflictError(SessionError):
    """Another process or task wrote to a session during a run; running the prompt again is safe.

    The store's own error is the `__cause__`.
    """


class SessionStoreError(SessionError):
    """A session store could not be reached, or refused a value; its error is the `__cause__`."""


class EventLoopError(RunError):
    """A blocking call such as `ask` was made inside a running event loop."""


class MockError(RunError):
    """A scripted model has no response, or none left, for an agent."""


class RealModelError(MockError):
    """A test would ask a real model, which is forbidden unless the test allows it."""


class ReplayError(MockError):
    """A replay needs an effect that its recording does not hold; the message shows the difference."""


def install(extra: str) -> str:
    """The command that installs the packages of an extra.

    It names the packages, because another project has the name `adk-fluent` on the public registry.

    >>> install("cost")
    "pip install 'genai-prices>=0.2' (the extra 'cost')"
    """
    return f"pip install {_EXTRAS[extra]} (the extra {extra!r})"


def on_one_line(text: object) -> str:
    """Join the lines of a text, or of an error's message, to one line.

    >>> on_one_line(ValueError("first\\n  second"))
    'first second'
    """
    return " ".join(str(text).split())


def what_happened(error: BaseException) -> str:
    """The type and message of an error on one line; the message is cut after `MAX_CAUSE` characters.

    >>> what_happened(ValueError("first\\n  second"))
    'ValueError: first second'
    """
    name, text = type(error).__name__.lstrip("_"), on_one_line(error)
    return f"{name}: {text:.{MAX_CAUSE}}{'…' * (len(text) > MAX_CAUSE)}" if text else name


def sentence(text: str) -> str:
    """Add a full stop to the text, unless it ends with a punctuation mark already.

    >>> sentence("KeyError: 'x'"), sentence("Really?")
    ("KeyError: 'x'.", 'Really?')
    """
    return text if text.rstrip().endswith((".", "!", "?", "…")) else f"{text}."


class EvalError(ADKFluentError):
    """An evaluation is invalid: a case, metric, judge or file is wrong. Nothing was run."""


class MissingExtraError(ADKFluentError):
    """A feature needs an extra that is not installed; the message names the extra."""


class TelemetryError(ADKFluentError):
    """Spans or metrics cannot be exported as a `TelemetryConfig` asks."""


class DirectoryError(ADKFluentError):
    """A directory of agents cannot be reached, or refused a request; the message names it."""


class ServerError(ADKFluentError):
    """A server cannot listen at its address, is not started, or is started already."""


class LocalModelError(ADKFluentError):
    """The embedded model cannot be loaded, or cannot answer a request (`adk_fluent.local`)."""


def __dir__() -> list[str]:
    return listing(__name__)
