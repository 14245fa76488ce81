"""What any expression can say about itself: who sees it, how its text travels, where it may be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import check_key, instance, positive
from adk_fluent.ir.annotations import (
    ContentSpec,
    EdgeSemantics,
    ExecutionBoundary,
    Modality,
    ModelCandidate,
    ScalingConfig,
    TransportConfig,
)
from adk_fluent.ir.nodes import ModelSelectorNode
from adk_fluent.ir.resources import checked

if TYPE_CHECKING:
    from adk_fluent.config import ExecutionConfig
    from adk_fluent.contracts.report import ContractReport
    from adk_fluent.ir.base import Node

_BUFFERING = ("full", "chunked", "token")
_SERIALIZATION = ("json", "protobuf", "arrow")
_ISOLATION = ("none", "process", "container")


class Declarations:
    """Declarations that change nothing about what an expression does, only how it is seen and run."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def node(self) -> Node:
            """The IR node that this expression is."""
            ...

        def _set(self, **fields: object) -> Self: ...

    def _say(self, **annotations: object) -> Self:
        return self._set(annotations=self.node.annotations.replace(**annotations))

    # --- what functions inside are given ------------------------------------------------------------

    def inject(self, /, **resources: object) -> Self:
        """Give functions inside what they need: parameters of these names are filled in, hidden from models.

        Tools, callbacks of agents, functions that are steps, taps, and predicates that choose among steps
        (routes, `until`, gates, transfers) are given them; `check` names who lacks one. What an inner
        expression injects under the same name counts there.

        Args:
            resources: name → a `Resource`, which says how it is opened and how long it lives; or a value that
                is there already.

        Raises:
            ArgumentError: a resource cannot be one, or its name is taken.

        >>> from adk_fluent import Agent
        >>> def price(article: str, prices: dict[str, int]) -> int:
        ...     return prices[article]
        >>> shop = Agent("clerk").tool(price).inject(prices={"tea": 3})
        """
        return self._say(
            resources=tuple({**dict(self.node.annotations.resources), **dict(checked(resources))}.items())
        )

    # --- who sees it ------------------------------------------------------------------------------

    def show(self) -> Self:
        """Let the user see what the agents of this expression say, wherever it stands in a pipeline.

        Without it, the user sees an agent only if its answer is the pipeline's last word.

        >>> from adk_fluent import Agent
        >>> from adk_fluent.visibility import infer_visibility
        >>> infer_visibility(Agent("analyst").show() >> Agent("writer"))["analyst"]
        'user'
        """
        return self._say(visibility="user")

    def hide(self, *, aside: bool = False) -> Self:
        """Keep what the agents of this expression say from the user, wherever it stands in a pipeline.

        Use it for a last step that only works on state. Other agents see the text as before.

        Args:
            aside: whether it also leaves the last word to what is before it, as a reviewer does whose verdict
                is no answer.

        >>> from adk_fluent import Agent
        >>> from adk_fluent.visibility import infer_visibility
        >>> infer_visibility(Agent("writer") >> Agent("reviewer").hide(aside=True))["writer"]
        'user'
        """
        return self._say(visibility="zero_cost" if aside else "internal")

    def transparent(self) -> Self:
        """Let the user see what every agent of this expression says, except one with `.hide()`."""
        return self._say(policy="transparent")

    def filtered(self) -> Self:
        """Take the words out of events that are not for the user, in whatever runs this.

        That is `run`, `stream`, `session` and the Runner of `to_runner()`; what the events did to state and
        artifacts stays in them. The stored session and what other agents see stay whole.
        """
        return self._say(policy="filtered")

    def annotated(self) -> Self:
        """Let `run`, `stream` and `session` give every event whole, marked with whether the user may see it.

        This is the default. Use it to undo `.filtered()`.
        """
        return self._say(policy="annotated")

    # --- how it is run ----------------------------------------------------------------------------

    def stream_to(
        self,
        buffering: Literal["full", "chunked", "token"] = "full",
        *,
        chunk_size: int | None = None,
        backpressure: bool = False,
    ) -> Self:
        """Say how the answer travels to whatever comes next.

        Args:
            buffering: `full` waits for the whole answer; `chunked` passes on pieces of `chunk_size` tokens;
                `token` passes on each piece as it is generated.
            chunk_size: tokens per piece, for `chunked`.
            backpressure: let the producer wait for the consumer.

        Raises:
            ArgumentError: no such buffering, or `chunk_size` is not a positive whole number for `chunked`.
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
        """Say that execution may be cut before this: from here on it may run somewhere else.

        Args:
            serialization: how state crosses the cut; `temp:` keys do not.
            transport: how work gets to the other side.
            isolation: what the other side shares with this one.
            scaling: how many workers may serve it.

        Raises:
            ArgumentError: no such serialization or isolation, or the transport or scaling is none.
        """
        _one_of(serialization, _SERIALIZATION, "execution_boundary(serialization=)")
        _one_of(isolation, _ISOLATION, "execution_boundary(isolation=)")
        instance(transport, TransportConfig, "execution_boundary(transport=)")
        instance(scaling, ScalingConfig, "execution_boundary(scaling=)")
        boundary = ExecutionBoundary(
            serialization=serialization, transport=transport, isolation=isolation, scaling=scaling
        )
        return self._say(boundary=boundary)

    # --- checks -----------------------------------------------------------------------------------

    def strict(self) -> Self:
        """Make building refuse what the contract check calls an error or a warning.

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
        """Check it without running it; see `adk_fluent.contracts.check_all`.

        >>> from adk_fluent import Agent
        >>> (Agent("a").writes("x") >> Agent("b").instruct("Use {x}.")).check().ok
        True
        """
        from adk_fluent.contracts.check import check_all

        return check_all(self, schema=schema, state=state, config=config, strict=strict)


class AgentDeclarations(Declarations):
    """Declarations that only a model has: the kinds of content, and how the model itself is chosen."""

    __slots__ = ()

    def produces_modality(self, *modalities: Modality, max_output_tokens: int | None = None) -> Self:
        """Declare the kinds of content it gives; only checks and estimates look at them.

        Args:
            modalities: the kinds of content.
            max_output_tokens: the most tokens that it answers with; checks and estimates take it for granted.
                `.generate(max_output_tokens=)` makes its model keep to it.

        Raises:
            ArgumentError: neither is given, something is no `Modality`, or the limit is no positive number.
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
        present = self.node.annotations.content or ContentSpec()
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
                the best; `budget_bounded` the cheapest, and `fallback_model` once the budget is used up;
                `adaptive` starts with the cheapest and goes up a tier when quality is too low.
            candidates: the models to choose from; of several providers, if you like.
            budget_key: state key of what is left of the budget, in USD; each call of this agent is counted
                against it, whatever the strategy. `user:budget` is one for all sessions of a user.
            fallback_model: what answers when the budget is used up, or no candidate can be chosen; without
                one the call is refused.
            quality_key: state key of a quality score; for `adaptive`.
            quality_threshold: when a score below this was written since its answer, the next call goes up a
                tier; for `adaptive`.

        Raises:
            ArgumentError: no such strategy, no candidates, something that is no `ModelCandidate`, two of one
                model, a negative price or limit, `adaptive` without a score, or no key, name or number
                where one belongs.

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
        selector = ModelSelectorNode(
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
    """A number of tokens that a user gave.

    Raises:
        ArgumentError: it is no positive whole number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{where} takes a positive number of tokens, not {value!r:.40}.")
    return value


def _candidates(given: object) -> tuple[ModelCandidate, ...]:
    """The candidates of a choice, if it can be made among them."""
    from adk_fluent.cost.prices import amount  # which loads what reckons in decimals

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
