"""`RemoteAgent`: an agent that another process serves over A2A."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import check_key, check_schema, describe
from adk_fluent.expr.base import Expr
from adk_fluent.ir.annotations import AuthConfig, RetryConfig
from adk_fluent.ir.naming import check_name
from adk_fluent.ir.nodes import RemoteAgentNode

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typing_extensions import TypeForm

T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M")


class RemoteAgent(Expr[T_co]):
    """An agent that another process serves over A2A.

    Args:
        name: a Python identifier.
        endpoint: URL of its agent card, or of the service; `http` or `https`.
        capabilities: what it is asked to be able to do.
        input_schema: the fields it needs; checks compare them with `.reads`.
        output_schema: the shape of its answer.
        auth: how to authenticate.
        timeout: seconds one call may take.
        retry: how often a call is attempted.
        fallback: what runs instead when the remote fails; without one, its failure is raised.

    Raises:
        ArgumentError: the endpoint is no URL, the timeout not positive, or the fallback no expression.
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
        capabilities: Sequence[str] = (),
        input_schema: type[BaseModel] | None = None,
        output_schema: type | None = None,
        auth: AuthConfig | None = None,
        timeout: float = 30.0,
        retry: RetryConfig | None = None,
        fallback: Expr[Any] | None = None,
    ) -> None:
        if not isinstance(endpoint, str) or not endpoint.startswith(("http://", "https://")):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(
                f"RemoteAgent {name!r}: endpoint= takes an http or https URL, not {endpoint!r}."
            )
        if not timeout > 0:
            raise ArgumentError(f"RemoteAgent {name!r}: timeout= must be positive, not {timeout!r}.")
        if fallback is not None and not isinstance(fallback, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            given = describe(cast(object, fallback))
            raise ArgumentError(f"RemoteAgent {name!r}: fallback= takes an expression, not {given}.")
        made = RemoteAgentNode(
            name=check_name(name),
            endpoint=endpoint,
            capabilities=tuple(capabilities),
            input_schema=input_schema,
            output_schema=output_schema,
            auth=auth,
            timeout_seconds=timeout,
            retry=retry,
            fallback=None if fallback is None else fallback.node,
        )
        object.__setattr__(self, "_node", made)

    @property
    def node(self) -> RemoteAgentNode:
        """The IR node that this agent is."""
        return cast(RemoteAgentNode, self._node)

    def reads(self, *keys: str) -> RemoteAgent[T_co]:
        """Send these state keys along with each call."""
        return self._append("declared_reads", *(check_key(key, "reads()") for key in keys))

    def writes(self, key: str) -> RemoteAgent[T_co]:
        """Store the answer in state under `key`, scope prefix included."""
        return self._set(output_key=check_key(key, "writes()"))

    def outputs(self, key: str) -> RemoteAgent[T_co]:
        """The same as `writes`."""
        return self.writes(key)

    def returns(self, schema: TypeForm[M]) -> RemoteAgent[M]:
        """Make the answer a `schema`; `ask` then returns it parsed."""
        return cast("RemoteAgent[M]", self._set(output_schema=check_schema(schema, "returns()")))

    @overload
    def __matmul__(self, schema: TypeForm[M]) -> RemoteAgent[M]: ...
    @overload
    def __matmul__(self, schema: UnionType) -> RemoteAgent[Any]: ...
    def __matmul__(self, schema: Any) -> RemoteAgent[Any]:
        """`agent @ Model` is `agent.returns(Model)`."""
        return self.returns(schema)
