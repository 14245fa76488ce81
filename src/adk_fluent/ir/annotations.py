"""What an IR node carries beside its structure: facts for checks, pictures, cost and backends.

Annotations never change what a node *is*; they say how it is seen, streamed, placed or priced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Literal, Self, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.endpoints import place_of_queue
from adk_fluent.ir.files import ArtifactUse
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.ir.resources import Call

Visibility = Literal["user", "internal", "zero_cost"]
"""Who sees what a step says: the user, only other agents, or nobody because it says nothing."""

VisibilityPolicy = Literal["transparent", "filtered", "annotated"]


@frozen
class EdgeSemantics(Frozen):
    """How text travels along an edge to the next step.

    Attributes:
        buffering: `full` waits for the whole answer, `chunked` passes pieces of `chunk_size` tokens,
            `token` passes each piece as it is generated.
        backpressure: bound the queue between producer and consumer.
        chunk_size: tokens per chunk, for `chunked`.
        merge: how parallel branches come together.
    """

    buffering: Literal["full", "chunked", "token"] = "full"
    backpressure: bool = False
    chunk_size: int | None = None
    merge: Literal["wait_all", "first_complete", "interleave"] = "wait_all"


class Modality(Enum):
    """A kind of content an agent takes or gives."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    PDF = "pdf"
    STRUCTURED = "structured"
    CODE = "code"


@frozen
class ContentSpec(Frozen):
    """The modalities an agent accepts and produces, and its token limits."""

    input_modalities: frozenset[Modality] = frozenset({Modality.TEXT})
    output_modalities: frozenset[Modality] = frozenset({Modality.TEXT})
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None


Semantics = Literal["merge", "replace_session", "delete_keys"]
"""What the result of a transform means; see `TransformNode`."""


class StateSpec(Frozen):
    """Base of the values that say which state keys they touch."""

    __slots__ = ()

    @property
    def access(self) -> Access:
        """The state keys it reads and writes, as far as that is known."""
        return NO_ACCESS


class ContextSpec(StateSpec):
    """Base of the values that say what part of the conversation an agent sees."""

    __slots__ = ()

    def key_reads(self) -> KeyReads:
        """The keys it reads, each with through what and how much a missing one matters."""
        return iter(())

    @property
    def artifacts(self) -> tuple[ArtifactUse, ...]:
        """The artifacts that it shows."""
        return ()


class InstructionSpec(StateSpec):
    """Base of the values that say what an agent is told, where that is more than text."""

    __slots__ = ()

    def key_reads(self) -> KeyReads:
        """The keys it reads beside those of its templates."""
        return iter(())

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts in it that every run uses; their placeholders must be filled."""
        return ()


class TransformSpec(StateSpec):
    """Base of what says itself what it does to the state: the `S` operations, and those of `A`."""

    __slots__ = ()

    @property
    def reads(self) -> tuple[KeyRead, ...]:
        """The keys it reads, each with how, and how much a missing one matters."""
        return ()

    @property
    def effects(self) -> tuple[Any, ...]:
        """What it does, in order: values of `adk_fluent.state.effects`."""
        return ()

    @property
    def names_keys_as_it_runs(self) -> bool:
        """Whether only a run tells which keys it touches, which the analysis knows about."""
        return False

    semantics: ClassVar[Semantics] = "merge"
    """What its result means; see `TransformNode`."""

    @property
    def says(self) -> str | None:
        """The key whose value it gives to the user as an answer when it is shown (`.show()`)."""
        return None

    @property
    def affected_keys(self) -> frozenset[str] | None:
        """The keys that it removes by name."""
        return None

    def calls(self) -> Iterator[Call]:
        """The user's functions that it calls."""
        return iter(())

    def completed(self, affected_keys: frozenset[str] | None) -> Self:
        """The same as a node holds it which was stored with these keys."""
        return self


class ArtifactSpec(TransformSpec):
    """Base of the operations that say themselves what they do to the state and to artifacts: those of `A`."""

    __slots__ = ()

    @property
    def artifacts(self) -> tuple[ArtifactUse, ...]:
        """What it does with which artifacts, in order."""
        return ()

    @property
    def step_label(self) -> str:
        """What a step that runs it is called."""
        return "artifact"

    @property
    def wording(self) -> str:
        """What it does, in a few words."""
        return self.step_label


@frozen
class TransportConfig(Frozen):
    """How work reaches the other side of a boundary.

    Attributes:
        type: `queue`, the only one.
        endpoint: the URL of the queue, such as `redis://host:6379/heavy`; `None` if only who deploys knows.

    Raises:
        ArgumentError: there is no such type, or the endpoint is no URL of a queue.
    """

    type: Literal["queue"] = "queue"
    endpoint: str | None = None

    def _fill(self, values: Mapping[str, object]) -> None:
        super()._fill(values)
        if cast(object, self.type) != "queue":
            raise ArgumentError(f"TransportConfig(type={self.type!r:.40}): the only type is 'queue'.")
        endpoint = cast(object, self.endpoint)
        if not (endpoint is None or isinstance(endpoint, str)):
            raise ArgumentError(f"TransportConfig(endpoint=) takes a URL, not {endpoint!r:.40}.")
        if endpoint is not None:
            place_of_queue(endpoint)


@frozen
class ScalingConfig(Frozen):
    """How many workers may serve a boundary.

    Raises:
        ArgumentError: a number is none, or the least is more than the most.
    """

    min_instances: int = 0
    max_instances: int = 1

    def _fill(self, values: Mapping[str, object]) -> None:
        super()._fill(values)
        if not (_is_whole(self.min_instances, 0) and _is_whole(self.max_instances, 1)):
            raise ArgumentError(f"{self!r} takes whole numbers, from 0 and from 1.")
        if self.min_instances > self.max_instances:
            raise ArgumentError(f"{self!r}: the least may not be more than the most.")


@frozen
class ExecutionBoundary(Frozen):
    """A cut before an expression: from here on it may run in another process or on another machine."""

    serialization: Literal["json", "protobuf", "arrow"] = "json"
    transport: TransportConfig | None = None
    isolation: Literal["none", "process", "container"] = "none"
    scaling: ScalingConfig | None = None


@frozen
class ModelCandidate(Frozen):
    """A model that may be chosen, with its price in USD per 1,000 tokens.

    Attributes:
        model: its name, as ADK resolves it: `gemini-2.5-flash`, `openai/gpt-4o`.
        cost_per_1k_input: what 1,000 tokens of a request cost; without it, and the next, what
            `adk_fluent.cost.price_of` knows of the model.
        cost_per_1k_output: what 1,000 tokens of an answer cost.
        quality_tier: higher is better.
        max_tokens: the longest request it may get, in tokens, estimated at four characters each.
        condition: `state -> bool`; the candidate is considered only when it is true.
    """

    model: str
    cost_per_1k_input: float | None = None
    cost_per_1k_output: float | None = None
    quality_tier: int = 1
    max_tokens: int | None = None
    condition: Callable[[Mapping[str, Any]], bool] | None = None


@frozen
class AuthConfig(Frozen):
    """How to authenticate against a remote agent. The token is never shown in a `repr`.

    Raises:
        ArgumentError: there is no such type, or the token is no text that fits in a header.
    """

    type: Literal["bearer", "api_key"] = "bearer"
    token: str = ""

    def _fill(self, values: Mapping[str, object]) -> None:
        super()._fill(values)
        token = cast(object, self.token)
        if self.type not in ("bearer", "api_key"):
            raise ArgumentError(f"AuthConfig(type=) is one of 'bearer', 'api_key', not {self.type!r:.40}.")
        if not isinstance(token, str):
            raise ArgumentError(f"AuthConfig(token=) takes text, not {type(token).__name__}.")
        if not (token.isascii() and token.isprintable() and token == token.strip()):
            raise ArgumentError(
                "AuthConfig(token=) takes what a header can carry: printable ASCII without a space or a line "
                "break at its ends. Was it read from a file? Add .strip()."
            )

    def __repr__(self) -> str:
        return f"AuthConfig(type={self.type!r}, token=***)"


@frozen
class RetryConfig(Frozen):
    """How often a remote call is attempted, and the first delay in seconds.

    Raises:
        ArgumentError: it is attempted less than once, or the delay is negative.
    """

    max_attempts: int = 3
    initial_delay: float = 1.0

    def _fill(self, values: Mapping[str, object]) -> None:
        super()._fill(values)
        if not _is_whole(self.max_attempts, 1):
            raise ArgumentError(
                f"RetryConfig(max_attempts=) takes a whole number from 1, not {self.max_attempts!r:.40}."
            )
        delay = cast(object, self.initial_delay)
        if not isinstance(delay, int | float) or not delay >= 0:
            raise ArgumentError(f"RetryConfig(initial_delay=) takes seconds from 0, not {delay!r:.40}.")


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@frozen
class Adopted(Frozen):
    """What is known of an agent because it was made with ADK alone.

    Attributes:
        tools: tools that run agents, each with what these touch.
    """

    tools: tuple[tuple[object, Access], ...] = ()

    def inside(self, tool: object) -> Access | None:
        """What the agents inside a tool touch; `None` for one that runs none."""
        return next((touched for held, touched in self.tools if held is tool), None)


@frozen
class Annotations(Frozen):
    """What is said about a node; `None` means nothing was said.

    Attributes:
        visibility: overrides what topology would infer (`.show()`, `.hide()`).
        policy: what a caller sees of this expression (`.transparent()`, `.filtered()`, `.annotated()`).
        edge: semantics of the edge leaving the node.
        context: what part of the conversation the node sees.
        content: modalities and token limits.
        boundary: where execution may be cut before the node.
        schema: the state schema bound to the node.
        strict: building the tree refuses errors and warnings of its contract check (`.strict()`).
        middleware: what acts around everything in the node, the outermost first (`.middleware()`).
        resources: name → what functions inside are given under that name (`.inject()`), as pairs.
        adopted: it was read of an agent made with ADK alone, so the source of its functions counts.
    """

    visibility: Visibility | None = None
    policy: VisibilityPolicy | None = None
    edge: EdgeSemantics | None = None
    context: ContextSpec | None = None
    content: ContentSpec | None = None
    boundary: ExecutionBoundary | None = None
    schema: type | None = None
    strict: bool | None = None
    middleware: tuple[object, ...] = ()
    resources: tuple[tuple[str, Any], ...] = ()
    adopted: Adopted | None = None


NO_ANNOTATIONS: Final = Annotations()
