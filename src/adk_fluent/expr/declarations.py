"""Declarations on expressions: visibility, streaming, boundaries, injection, and the choice of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from adk_fluent import ir
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import check_key, instance, positive
from adk_fluent.ir import Modality, ModelCandidate, ScalingConfig, TransportConfig
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
        _one_of(buffering, _BUFFERING, "stream_to(buffering=)")
        if chunk_size is not None and buffering != "chunked":
            raise ArgumentError(
                f"stream_to(chunk_size=) goes with buffering='chunked', not {buffering!r}; leave it out."
            )
        if chunk_size is not None and (isinstance(chunk_size, bool) or chunk_size < 1):
            raise ArgumentError(
                f"stream_to(chunk_size=) takes a positive number of tokens, not {chunk_size!r}."
            )
        edge = ir.EdgeSemantics(buffering=buffering, backpressure=backpressure, chunk_size=chunk_size)
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
        _one_of(serialization, _SERIALIZATION, "execution_boundary(serialization=)")
        _one_of(isolation, _ISOLATION, "execution_boundary(isolation=)")
        instance(transport, TransportConfig, "execution_boundary(transport=)")
        instance(scaling, ScalingConfig, "execution_boundary(scaling=)")
        boundary = ir.ExecutionBoundary(
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


class AgentDeclarations(Declarations):
    """Declarations of agents only: the kinds of content, and the choice of the model."""

    __slots__ = ()

    def produces_modality(self, *modalities: Modality, max_output_tokens: int | None = None) -> Self:
        """Declare the kinds of content that the agent produces; only checks and estimates use them.

        Args:
            modalities: the kinds of content.
            max_output_tokens: most tokens of an answer, for checks and estimates. To make the model obey the
                limit, use `.generate(max_output_tokens=)`.

        Raises:
            ArgumentError: neither is given, a value is not a `Modality`, or the limit is not positive.
        """
        if max_output_tokens is not None:
            limit = token_limit(max_output_tokens, "produces_modality(max_output_tokens=)")
            said = self._content(max_output_tokens=limit)
            return said.produces_modality(*modalities) if modalities else said
        if not modalities or not all(isinstance(one, Modality) for one in modalities):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(
                f"produces_modality() takes one or more Modality values, not {modalities!r:.60}."
            )
        return self._content(output_modalities=frozenset(modalities))

    def _content(self, **modalities: object) -> Self:
        present = self.node.annotations.content or ir.ContentSpec()
        return self._say(content=present.replace(**modalities))

    def model_select(
        self,
        strategy: Literal["cost_optimized", "quality_optimized", "budget_bounded", "adaptive"],
        *,
        candidates: Sequence[ModelCandidate],
        budget_key: str | None = None,
        fallback_model: str | None = None,
        quality_key: str | None = None,
        quality_threshold: float | None = None,
    ) -> Self:
        """Choose the model at each call instead of naming one.

        Args:
            strategy: `cost_optimized` takes the cheapest candidate whose condition holds; `quality_optimized`
                the best one; `budget_bounded` the cheapest, and `fallback_model` once the budget is used up;
                `adaptive` starts with the cheapest and takes a better one if the quality is too low.
            candidates: the models to choose from, also of several providers.
            budget_key: the state key of the remaining budget in USD. With every strategy, each call of this
                agent is subtracted from it. `user:budget` is one budget for all sessions of a user.
            fallback_model: the model to use if the budget is used up, or no candidate can be chosen; without
                one the call is refused.
            quality_key: the state key of a quality score; for `adaptive`.
            quality_threshold: if a score below it was written since the agent's answer, the next call takes
                a candidate of the next tier; for `adaptive`.

        Raises:
            ArgumentError: the strategy does not exist; there are no candidates, one is not a
                `ModelCandidate`, or two have one model; a price or limit is negative; `adaptive` has no
                score; or a key, name or number has the wrong type.

        >>> from adk_fluent import Agent
        >>> from adk_fluent.cost import ModelCandidate
        >>> small = ModelCandidate("gemini-2.5-flash", 0.15, 0.60, quality_tier=1)
        >>> large = ModelCandidate("gemini-2.5-pro", 1.25, 5.00, quality_tier=2)
        >>> chosen = Agent("a").model_select("cost_optimized", candidates=[small, large])
        >>> chosen.node.selector.strategy
        'cost_optimized'
        """
        _one_of(strategy, _STRATEGIES, "model_select(strategy=)")
        chosen = _candidates(candidates)
        scored = [quality_key, quality_threshold].count(None)
        if scored == 1 or (scored and strategy == "adaptive"):
            raise ArgumentError(
                "model_select('adaptive', …) needs quality_key=, the state key of a score, and "
                "quality_threshold=, below which a score makes it take a better model; give both."
            )
        if quality_threshold is not None and not _number(quality_threshold):
            raise ArgumentError(
                f"model_select(quality_threshold=) takes a number, not {quality_threshold!r:.40}."
            )
        for name, key in (("budget_key", budget_key), ("quality_key", quality_key)):
            if key is not None:
                check_key(key, f"model_select({name}=)")
        if fallback_model is not None:
            _check_model(fallback_model, "model_select(fallback_model=)")
        selector = ir.ModelSelectorNode(
            strategy=strategy,
            candidates=chosen,
            budget_key=budget_key,
            fallback_model=fallback_model,
            quality_key=quality_key,
            quality_threshold=quality_threshold,
        )
        return self._set(selector=selector)


_STRATEGIES = ("cost_optimized", "quality_optimized", "budget_bounded", "adaptive")


def token_limit(value: object, where: str) -> int:
    """Return a number of tokens if it is valid.

    Raises:
        ArgumentError: `value` is not a positive whole number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{where} takes a positive number of tokens, not {value!r:.40}.")
    return value


def _candidates(given: object) -> tuple[ModelCandidate, ...]:
    """Check the candidates and return them as a tuple."""
    from adk_fluent.cost.prices import amount  # imported late: it loads `decimal`

    chosen = tuple(cast("Sequence[ModelCandidate]", given)) if isinstance(given, list | tuple) else ()
    if not chosen or not all(isinstance(one, ModelCandidate) for one in chosen):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(
            f"model_select(candidates=) takes one or more ModelCandidate values, not {given!r:.60}."
        )
    for position, one in enumerate(chosen):
        _check_model(one.model, "ModelCandidate()")
        if one.model in [other.model for other in chosen[:position]]:
            raise ArgumentError(f"model_select(candidates=) names {one.model!r} twice; leave one out.")
        prices = (one.cost_per_1k_input, one.cost_per_1k_output)
        if prices.count(None) == 1:
            both = "both cost_per_1k_input and cost_per_1k_output, or neither"
            raise ArgumentError(f"ModelCandidate({one.model!r}): give {both}.")
        for name, price in zip(("cost_per_1k_input", "cost_per_1k_output"), prices, strict=True):
            if price is not None:
                amount(price, f"ModelCandidate({one.model!r}, {name}=)")
        longest, tier, condition = one.max_tokens, cast(object, one.quality_tier), cast(object, one.condition)
        if longest is not None and not positive(longest):
            raise ArgumentError(
                f"ModelCandidate({one.model!r}, max_tokens=) takes a positive whole number, not {longest!r}."
            )
        if not _number(tier):
            raise ArgumentError(
                f"ModelCandidate({one.model!r}, quality_tier=) takes a number, not {tier!r:.40}."
            )
        if condition is not None and not callable(condition):
            raise ArgumentError(
                f"ModelCandidate({one.model!r}, condition=) takes a function, not {condition!r:.40}."
            )
    return chosen


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _check_model(name: object, where: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ArgumentError(f"{where} takes the name of a model, not {name!r:.40}.")


def _one_of(value: object, known: tuple[str, ...], where: str) -> None:
    if value not in known:
        raise ArgumentError(f"{where} is one of {', '.join(map(repr, known))}, not {value!r}.")
