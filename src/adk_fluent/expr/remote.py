"""`RemoteAgent`: an agent that another process serves over A2A."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast, overload

from adk_fluent._redaction import safe_url
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import check_faithful, check_key, describe, instance, positive_number, words
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AuthConfig, RemoteAgentNode, RetryConfig, endpoints, graph
from adk_fluent.middleware.arguments import flag, of_type, positive

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typing_extensions import TypeForm

T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M")


class Options(TypedDict, total=False):
    """The keyword arguments of `RemoteAgent`; see there."""

    description: str
    capabilities: Sequence[str]
    input_schema: type[BaseModel] | None
    output_schema: type | None
    auth: AuthConfig | None
    timeout: float
    max_bytes: int
    retry: RetryConfig | None
    fallback: Expr[Any] | None
    allow_http: bool
    raises: bool


def _is_model(value: object) -> bool:
    return isinstance(value, type) and hasattr(value, "model_validate")


class RemoteAgent(Expr[T_co]):
    """An agent that another process serves over A2A.

    The remote agent receives the conversation as a local agent at its place would see it; with
    `.reads(...)`, only the user's message and the values of these keys. A dead endpoint, an answer of another
    type and every other fault is a failure: `fallback` runs, or `RemoteError` is raised. A run needs the
    extra `a2a`.

    Args:
        name: a Python identifier.
        endpoint: URL of its agent card, or of the service; `http` or `https`.
        description: its purpose, for a model that calls it or transfers to it.
        capabilities: ids, names or tags of skills that its card must list; they are checked before the first
            call.
        input_schema: the fields that it needs; checks compare them with `.reads`.
        output_schema: the type of its answer.
        auth: the authentication of calls.
        timeout: time limit of one call in seconds; beyond it the call is cancelled, also on the other side.
        max_bytes: most bytes of one answer, streamed or not; a longer answer fails and is not requested
            again.
        retry: the attempts of a call. Do not retry an action that must happen only once, such as a payment.
        fallback: the expression that runs if the remote agent fails; without one, see `raises`.
        allow_http: True if other machines may be called without encryption; this machine always may.
        raises: True (the default) if a failure without a fallback raises `RemoteError`. If False, an event of
            the agent has the failure as its `error`, and the run continues, as with ADK's `RemoteA2aAgent`.

    Raises:
        ArgumentError: the endpoint is not a URL, a limit is not positive, or an option has the wrong type.
        InvalidNameError: ADK would reject the name.

    Example:
        >>> from adk_fluent import Agent, RemoteAgent
        >>> payments = RemoteAgent("payments", endpoint="https://payments.example/a2a").reads("intent")
        >>> Agent("classifier").writes("intent") >> payments.writes("receipt")
        Pipeline(classifier, payments)
    """

    __slots__ = ()
    _what = "agent"

    def __init__(
        self: RemoteAgent[str],
        name: str,
        *,
        endpoint: str,
        description: str = "",
        capabilities: Sequence[str] = (),
        input_schema: type[BaseModel] | None = None,
        output_schema: type | None = None,
        auth: AuthConfig | None = None,
        timeout: float = 30.0,
        max_bytes: int = 64 * 1024 * 1024,
        retry: RetryConfig | None = None,
        fallback: Expr[Any] | None = None,
        allow_http: bool = False,
        raises: bool = True,
    ) -> None:
        where = f"RemoteAgent {name!r}:"
        if not endpoints.is_url(endpoint):
            raise ArgumentError(f"{where} endpoint= takes an http or https URL, not {safe_url(endpoint)!r}.")
        of_type(auth, AuthConfig | None, f"{where} auth=", "an AuthConfig(...)", secret=True)
        instance(retry, RetryConfig, f"{where} retry=")
        if auth is not None and not auth.token:
            raise ArgumentError(f"{where} the token of auth= is empty.")
        if input_schema is not None:
            if not _is_model(input_schema):
                given = describe(input_schema)
                raise ArgumentError(f"{where} input_schema= takes a pydantic model's class, not {given}.")
            check_faithful(input_schema, f"{where} input_schema=")
        if fallback is not None and not isinstance(fallback, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            given = describe(cast(object, fallback))
            raise ArgumentError(f"{where} fallback= takes an expression, not {given}.")
        schema = None if output_schema is None else check_faithful(output_schema, f"{where} output_schema=")
        made = RemoteAgentNode(
            name=graph.check_name(name),
            endpoint=endpoint,
            description=of_type(description, str, f"{where} description=", "text"),
            capabilities=words(capabilities, f"{where} capabilities="),
            input_schema=input_schema,
            output_schema=cast("type | None", schema),
            auth=auth,
            timeout_seconds=positive_number(timeout, f"{where} timeout="),
            max_bytes=int(positive(max_bytes, f"{where} max_bytes=")),
            retry=retry,
            fallback=None if fallback is None else fallback.node,
            allow_http=flag(allow_http, f"{where} allow_http="),
            raises=flag(raises, f"{where} raises="),
        )
        object.__setattr__(self, "_node", made)

    @classmethod
    def from_card(
        cls, card: object, *, name: str | None = None, allow_private: bool = False, **options: Unpack[Options]
    ) -> RemoteAgent[str]:
        """Make the agent that a card describes, such as one that `AgentDirectory.discover` found.

        A card is not trusted, because its owner can write anything. Calls go to the URL on the card, which
        must be https and at a public address, and the card at that URL is checked again.

        Args:
            card: a result of `discover`, the `AgentCard` of a2a-sdk, or its JSON.
            name: the agent's name here; by default made from the name on the card.
            allow_private: True if the agent may be at a private address, or on this machine. A card from a
                directory on this machine may name this machine without it.
            options: as for `RemoteAgent`.

        Raises:
            ArgumentError: the value is not a card, or it names no URL that may be called.
            MissingExtraError: a2a-sdk is not installed.

        >>> RemoteAgent.from_card({"name": "Pay now", "url": "https://pay.example/a2a"}).node.endpoint
        'https://pay.example/a2a'
        >>> RemoteAgent.from_card({"name": "x", "url": "https://169.254.169.254/"})
        Traceback (most recent call last):
        adk_fluent.errors.ArgumentError: from_card(): https://169.254.169.254/ is not a public address. ...
        """
        from adk_fluent.a2a.protocol.card_validation import Believed

        believed = Believed.of(card, allow_private=allow_private, allow_http=options.get("allow_http", False))
        made = RemoteAgent(name or believed.name, endpoint=believed.url, **options)
        return made._set(public_only=believed.public_only)

    @property
    def node(self) -> RemoteAgentNode:
        """The agent's IR node."""
        return cast(RemoteAgentNode, self._node)

    def reads(self, *keys: str) -> RemoteAgent[T_co]:
        """Send these state keys along with each call."""
        return self._append("declared_reads", *(check_key(key, "reads()") for key in keys))

    def writes(self, key: str) -> RemoteAgent[T_co]:
        """Store the answer in state under `key`, scope prefix included."""
        return self._set(output_key=check_key(key, "writes()"))

    def outputs(self, key: str) -> RemoteAgent[T_co]:
        """Do the same as `writes`, by the name of ADK's `output_key`. Prefer `writes`."""
        return self.writes(key)

    def returns(self, schema: TypeForm[M]) -> RemoteAgent[M]:
        """Make the answer a `schema`; `ask` then returns it parsed."""
        return cast(
            "RemoteAgent[M]",
            self._set(output_schema=check_faithful(schema, "returns()", f"RemoteAgent {self.name!r}: ")),
        )

    @overload
    def __matmul__(self, schema: TypeForm[M]) -> RemoteAgent[M]: ...
    @overload
    def __matmul__(self, schema: UnionType) -> RemoteAgent[Any]: ...
    def __matmul__(self, schema: Any) -> RemoteAgent[Any]:
        """`agent @ Model` is `agent.returns(Model)`."""
        return self.returns(schema)
