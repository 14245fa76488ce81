"""Declarations of agents only: the data they take and produce, and the choice of the model.

No declaration calls a model. Checks, estimates and the run's choice of a model read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self, cast, overload

from adk_fluent.errors import ArgumentError
from adk_fluent.expr import arguments
from adk_fluent.expr.declarations import Declarations, check_known
from adk_fluent.ir import ContentSpec, Modality, ModelCandidate, ModelSelectorNode

if TYPE_CHECKING:
    from pydantic import BaseModel


class AgentDeclarations(Declarations):
    """Declarations of agents only: types and kinds of content, and the choice of the model."""

    __slots__ = ()

    @overload
    def accepts(self, schema: type[BaseModel], /, *, max_input_tokens: int | None = None) -> Self: ...
    @overload
    def accepts(self, *modalities: Modality, max_input_tokens: int | None = None) -> Self: ...
    def accepts(self, *accepted: type[BaseModel] | Modality, max_input_tokens: int | None = None) -> Self:
        """Declare the agent's input: its type when the agent is a tool, or the kinds of content.

        Args:
            accepted: one pydantic model, which becomes ADK's `input_schema`; or `Modality` values, which
                only checks use. With a model, a run of the agent alone refuses a text prompt that is not JSON
                of the model: it raises `ArgumentError`.
            max_input_tokens: longest request to the model, in tokens. Checks and estimates use it; a run cuts
                nothing.

        Raises:
            ArgumentError: neither one model, nor modalities, nor a limit is given; JSON would lose a part of
                the model's values, as with a `SecretStr`; or the limit is not positive.

        >>> from adk_fluent import Agent
        >>> from adk_fluent.content import Modality
        >>> spec = Agent("eye").accepts(Modality.IMAGE, Modality.TEXT).node.annotations.content
        >>> sorted(modality.value for modality in spec.input_modalities)
        ['image', 'text']
        """
        said = self
        if max_input_tokens is not None:
            said = self._content(max_input_tokens=token_limit(max_input_tokens, "accepts(max_input_tokens=)"))
        if all(isinstance(one, Modality) for one in accepted):
            if accepted:
                return said._content(input_modalities=frozenset(accepted))
            if max_input_tokens is not None:
                return said
        if len(accepted) != 1:
            raise ArgumentError(
                "accepts() takes one pydantic model, or one or more Modality values, not "
                f"{len(accepted)} values of other kinds."
            )
        return said._set(
            input_schema=arguments.check_faithful(accepted[0], "accepts()", f"Agent {self.node.name!r}: ")
        )

    def produces(self, schema: type) -> Self:
        """Declare which fields the agent produces; nothing changes at run time, and nothing is stored.

        Use it together with `consumes` if several people write the agents of a pipeline. The check reports a
        field that a later agent consumes with another type, or that no agent produces. To store the answer,
        use `writes`; to make the model answer in a type, use `returns`.

        Args:
            schema: a pydantic model or another type.
        """
        return self._set(produces_type=arguments.check_schema(schema, "produces()"))

    def consumes(self, schema: type) -> Self:
        """Declare which fields the agent needs from earlier agents; nothing changes at run time.

        Use it together with `produces` on those agents: the check compares fields and types. To show the
        agent keys of state, use `reads`.

        Args:
            schema: a pydantic model or another type.
        """
        return self._set(consumes_type=arguments.check_schema(schema, "consumes()"))

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
        check_known(strategy, _STRATEGIES, "model_select(strategy=)")
        chosen = _candidates(candidates)
        _check_choice(strategy, budget_key, fallback_model, quality_key, quality_threshold)
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
    """Return a number of tokens if it is valid.

    Raises:
        ArgumentError: `value` is not a positive whole number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{where} takes a positive number of tokens, not {value!r:.40}.")
    return value


def _check_choice(
    strategy: str,
    budget_key: str | None,
    fallback_model: str | None,
    quality_key: str | None,
    quality_threshold: float | None,
) -> None:
    """Check the arguments of `model_select` beside its strategy and candidates.

    Raises:
        ArgumentError: a key, name or number has the wrong type; or the quality score lacks its key or its
            threshold, or `adaptive` has no score.
    """
    missing = [quality_key, quality_threshold].count(None)
    if missing == 1 or (missing and strategy == "adaptive"):
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
            arguments.check_key(key, f"model_select({name}=)")
    if fallback_model is not None:
        _check_model(fallback_model, "model_select(fallback_model=)")


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
        if longest is not None and not arguments.positive(longest):
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
