"""Declarations on expressions: visibility, streaming, boundaries, injection, and the choice of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import instance
from adk_fluent.ir import EdgeSemantics, ExecutionBoundary, ScalingConfig, TransportConfig
from adk_fluent.ir.resources import checked

if TYPE_CHECKING:
    from adk_fluent.config import ExecutionConfig
    from adk_fluent.contracts.report import ContractReport
    from adk_fluent.ir.base import Node

_BUFFERING = ("full", "chunked", "token")
_SERIALIZATION = ("json", "protobuf", "arrow")
_ISOLATION = ("none", "process", "container")


class Declarations:
    """Methods that change how an expression is seen, checked and run, but not what it does."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def node(self) -> Node:
            """The expression's IR node."""
            ...

        def _set(self, **fields: object) -> Self: ...

    def _say(self, **annotations: object) -> Self:
        return self._set(annotations=self.node.annotations.replace(**annotations))

    # --- injection --------------------------------------------------------------------------------

    def inject(self, /, **resources: object) -> Self:
        """Fill parameters of these names in functions inside this expression; models do not see them.

        The functions are tools, callbacks of agents, steps, taps, and predicates of routes, `until`, gates
        and transfers. `check` names each function that lacks a resource. If an inner expression injects the
        same name, its value counts there.

        Args:
            resources: for each name, a `Resource`, which defines how it is opened and its lifetime, or any
                other value.

        Raises:
            ArgumentError: a value cannot be a resource, or its name is reserved.

        >>> from adk_fluent import Agent
        >>> def price(article: str, prices: dict[str, int]) -> int:
        ...     return prices[article]
        >>> shop = Agent("clerk").tool(price).inject(prices={"tea": 3})
        """
        return self._say(
            resources=tuple({**dict(self.node.annotations.resources), **dict(checked(resources))}.items())
        )

    # --- visibility -------------------------------------------------------------------------------

    def show(self) -> Self:
        """Let the user see the text of this expression's agents at any place in a pipeline.

        By default, the user sees an agent's text only if it is the answer of the pipeline.

        >>> from adk_fluent import Agent
        >>> from adk_fluent.visibility import infer_visibility
        >>> infer_visibility(Agent("analyst").show() >> Agent("writer"))["analyst"]
        'user'
        """
        return self._say(visibility="user")

    def hide(self, *, aside: bool = False) -> Self:
        """Hide the text of this expression's agents from the user at any place in a pipeline.

        Use it for a last step that only works on state. Other agents still see the text.

        Args:
            aside: True if the text is not the answer either: the answer is that of the step before, as with
                a reviewer whose verdict is not for the user.

        >>> from adk_fluent import Agent
        >>> from adk_fluent.visibility import infer_visibility
        >>> infer_visibility(Agent("writer") >> Agent("reviewer").hide(aside=True))["writer"]
        'user'
        """
        return self._say(visibility="zero_cost" if aside else "internal")

    def transparent(self) -> Self:
        """Let the user see the text of every agent of this expression, except agents with `.hide()`."""
        return self._say(policy="transparent")

    def filtered(self) -> Self:
        """Remove the text from events that the user should not see.

        This holds for `run`, `stream`, `session` and the Runner of `to_runner()`. The events keep their
        changes of state and artifacts. The stored session keeps the text, and other agents see it.
        """
        return self._say(policy="filtered")

    def annotated(self) -> Self:
        """Let `run`, `stream` and `session` return every event with its text, marked with its visibility.

        This is the default. Use it to undo `.filtered()`.
        """
        return self._say(policy="annotated")

    # --- streaming and boundaries -----------------------------------------------------------------

    def stream_to(
        self,
        buffering: Literal["full", "chunked", "token"] = "full",
        *,
        chunk_size: int | None = None,
        backpressure: bool = False,
    ) -> Self:
        """Set how the answer travels to the next step.

        Args:
            buffering: `full` (the default) waits for the whole answer; `chunked` passes on chunks of
                `chunk_size` tokens; `token` passes on each chunk as the model generates it.
            chunk_size: tokens per chunk, for `chunked`.
            backpressure: True if the producer waits until the consumer is ready.

        Raises:
            ArgumentError: the buffering does not exist, or `chunk_size` is not a positive whole number, or
                it is given without `chunked`.
        """
        check_known(buffering, _BUFFERING, "stream_to(buffering=)")
        if chunk_size is not None and buffering != "chunked":
            raise ArgumentError(
                f"stream_to(chunk_size=) goes with buffering='chunked', not {buffering!r}; leave it out."
            )
        if chunk_size is not None and (isinstance(chunk_size, bool) or chunk_size < 1):
            raise ArgumentError(
                f"stream_to(chunk_size=) takes a positive number of tokens, not {chunk_size!r}."
            )
        edge = EdgeSemantics(buffering=buffering, backpressure=backpressure, chunk_size=chunk_size)
        return self._say(edge=edge)

    def execution_boundary(
        self,
        *,
        serialization: Literal["json", "protobuf", "arrow"] = "json",
        transport: TransportConfig | None = None,
        isolation: Literal["none", "process", "container"] = "none",
        scaling: ScalingConfig | None = None,
    ) -> Self:
        """Mark a boundary before this expression: from here on, the run may continue in another process.

        Args:
            serialization: the format in which state crosses the boundary; `temp:` keys do not cross it.
            transport: the queue that carries work to the other process.
            isolation: the separation of the two sides: `none`, `process` or `container`.
            scaling: the number of workers that may serve it.

        Raises:
            ArgumentError: the serialization or isolation does not exist, or the transport or scaling has
                the wrong type.
        """
        check_known(serialization, _SERIALIZATION, "execution_boundary(serialization=)")
        check_known(isolation, _ISOLATION, "execution_boundary(isolation=)")
        instance(transport, TransportConfig, "execution_boundary(transport=)")
        instance(scaling, ScalingConfig, "execution_boundary(scaling=)")
        boundary = ExecutionBoundary(
            serialization=serialization, transport=transport, isolation=isolation, scaling=scaling
        )
        return self._say(boundary=boundary)

    # --- checks -----------------------------------------------------------------------------------

    def strict(self) -> Self:
        """Refuse to build this expression if the contract check reports an error or a warning.

        >>> from adk_fluent import Agent
        >>> Agent("a").instruct("Sum up {text}.").strict().build()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        adk_fluent.errors.ContractError: ✗ a reads {text} in instruction: ERROR
        ...
        """
        return self._say(strict=True)

    def check(
        self,
        *,
        schema: type | None = None,
        state: Mapping[str, Any] | None = None,
        config: ExecutionConfig | None = None,
        strict: bool = False,
    ) -> ContractReport:
        """Check this expression without running it; see `adk_fluent.contracts.check_all`.

        >>> from adk_fluent import Agent
        >>> (Agent("a").writes("x") >> Agent("b").instruct("Use {x}.")).check().ok
        True
        """
        from adk_fluent.contracts.check import check_all

        return check_all(self, schema=schema, state=state, config=config, strict=strict)


def check_known(value: object, known: tuple[str, ...], where: str) -> None:
    """Refuse a value that is not in `known`; the message shows the value in full."""
    if value not in known:
        raise ArgumentError(f"{where} is one of {', '.join(map(repr, known))}, not {value!r}.")
