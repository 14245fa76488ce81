"""Annotations of an IR node: facts for checks, pictures, cost and backends.

Annotations do not change the structure of a tree. They set how a node is seen, streamed, placed or priced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Literal, Self, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.endpoints import place_of_queue
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access
from adk_fluent.ir.keys import ArtifactUse, KeyRead, KeyReads
from adk_fluent.ir.resources import UserCall

Visibility = Literal["user", "internal", "zero_cost"]
"""The audience of a step's answer: `user`; `internal` for other agents only; `zero_cost` for no answer."""

VisibilityPolicy = Literal["transparent", "filtered", "annotated"]


@frozen
class EdgeSemantics(Frozen):
    """The transport of an answer along an edge to the next step.

    Attributes:
        buffering: `full` waits for the whole answer, `chunked` passes chunks of `chunk_size` tokens,
            `token` passes each chunk as it is generated.
        backpressure: limit the queue between producer and consumer.
        chunk_size: tokens per chunk, for `chunked`.
        merge: the way in which the answers of parallel branches are joined.
    """

    buffering: Literal["full", "chunked", "token"] = "full"
    backpressure: bool = False
    chunk_size: int | None = None
    merge: Literal["wait_all", "first_complete", "interleave"] = "wait_all"


class Modality(Enum):
    """A kind of content that an agent accepts or produces."""

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
        """The artifacts that it sends to the model."""
        return ()


class InstructionSpec(StateSpec):
    """Base of the values for an agent's instruction that are more than text, such as a prompt of `P`."""

    __slots__ = ()

    def key_reads(self) -> KeyReads:
        """The keys that it reads, apart from those of its templates."""
        return iter(())

    @property
    def templates(self) -> tuple[str, ...]:
        """Its texts that every run uses; their placeholders must be filled."""
        return ()


class TransformSpec(StateSpec):
    """Base of the values that declare their effects on the state: the operations of `S` and `A`."""

    __slots__ = ()

    @property
    def reads(self) -> tuple[KeyRead, ...]:
        """The keys that it reads, each with the channel and the effect of a missing key."""
        return ()

    @property
    def effects(self) -> tuple[Any, ...]:
        """Its effects in order: values of `adk_fluent.state.effects`."""
        return ()

    @property
    def names_keys_as_it_runs(self) -> bool:
        """True if its keys are known only in a run, and the analysis has its own rule for that."""
        return False

    semantics: ClassVar[Semantics] = "merge"
    """The meaning of its result; see `TransformNode`."""

    @property
    def says(self) -> str | None:
        """The key whose value the user receives as an answer if the step is shown (`.show()`)."""
        return None

    @property
    def affected_keys(self) -> frozenset[str] | None:
        """The keys that it removes by name."""
        return None

    def calls(self) -> Iterator[UserCall]:
        """The user's functions that it calls."""
        return iter(())

    def completed(self, affected_keys: frozenset[str] | None) -> Self:
        """The operation with the keys that a stored node has in `affected_keys`."""
        return self


class ArtifactSpec(TransformSpec):
    """Base of the operations of `A`: they declare their effects on the state, and their uses of artifacts."""

    __slots__ = ()

    @property
    def artifacts(self) -> tuple[ArtifactUse, ...]:
        """Its uses of artifacts, in order."""
        return ()

    @property
    def step_label(self) -> str:
        """The label of a step that runs it."""
        return "artifact"

    @property
    def wording(self) -> str:
        """A description in a few words."""
        return self.step_label


@frozen
class TransportConfig(Frozen):
    """The transport of work across a boundary.

    Attributes:
        type: `queue`, the only one.
        endpoint: the URL of the queue, such as `redis://host:6379/heavy`; `None` if it is set on deployment.

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
    """The number of workers that may serve a boundary.

    Raises:
        ArgumentError: a value is not a whole number, or the least is more than the most.
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
    """A cut before an expression, which may then run in another process or on another machine."""

    serialization: Literal["json", "protobuf", "arrow"] = "json"
    transport: TransportConfig | None = None
    isolation: Literal["none", "process", "container"] = "none"
    scaling: ScalingConfig | None = None


@frozen
class ModelCandidate(Frozen):
    """A model that may be chosen, with its price in USD per 1,000 tokens.

    Attributes:
        model: its name, as ADK resolves it: `gemini-2.5-flash`, `openai/gpt-4o`.
        cost_per_1k_input: the price of 1,000 tokens of a request. If you set neither price, the price in
            `adk_fluent.cost.price_of` counts.
        cost_per_1k_output: the price of 1,000 tokens of an answer.
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
    """The credential for a remote agent. A `repr` never shows the token.

    Raises:
        ArgumentError: the type is unknown, or the token is not a text that fits in a header.
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
    """The most attempts of a remote call, and the first delay in seconds.

    Raises:
        ArgumentError: there is less than one attempt, or the delay is negative.
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
    """Facts about an agent that was made with ADK alone.

    Attributes:
        tools: tools that run agents, each with the state keys that these agents use.
        agents: the trees of these agents, or of the agents inside a class of the user's.
    """

    tools: tuple[tuple[object, Access], ...] = ()
    agents: tuple[object, ...] = ()

    def inside(self, tool: object) -> Access | None:
        """The state keys that the agents inside a tool use; `None` if the tool runs no agents."""
        return next((touched for held, touched in self.tools if held is tool), None)

    def bodies(self, tool: object) -> tuple[object, ...]:
        """The trees of the agents that a tool runs."""
        pairs = zip(self.tools, self.agents, strict=False)
        return tuple(body for (held, _), body in pairs if held is tool)


@frozen
class Annotations(Frozen):
    """The annotations of a node; `None` means not set.

    Attributes:
        visibility: overrides the visibility that follows from the tree (`.show()`, `.hide()`).
        policy: the events that a caller sees (`.transparent()`, `.filtered()`, `.annotated()`).
        edge: the semantics of the edge that leaves the node.
        context: the part of the conversation that the node's agent sees.
        content: modalities and token limits.
        boundary: a cut before the node, where another process may continue.
        schema: the state schema bound to the node.
        strict: True if a build of the tree fails on errors and warnings of its check (`.strict()`).
        middleware: the middleware around everything in the node, the outermost first (`.middleware()`).
        resources: pairs of a parameter name and the resource that functions receive there (`.inject()`).
        adopted: set if the node was read from an agent made with ADK alone, so that the source of its
            functions counts.
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
