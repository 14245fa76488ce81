"""Prices of models, costs of calls, and budgets.

Prices come from the data set `genai-prices`, or the user registers them. The remaining sum of a budget is in
state as text, so that every store keeps it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, Self

from adk_fluent.errors import ADKFluentError, ArgumentError, MissingExtraError, ModelError, install
from adk_fluent.ir.frozen import Frozen, frozen

Amount = Decimal | int | float | str
"""A sum of money in USD; a float has the value that Python prints for it."""

_MILLION: Final = Decimal(1_000_000)
NO_PRICES: Final = (
    f"Prices of models come from the package genai-prices; run: {install('cost')}, or give them: "
    "register_price(model, Price.per_million(input=…, output=…)) of adk_fluent.cost."
)


class Tokens(NamedTuple):
    """The tokens of one model call.

    Attributes:
        input_tokens: tokens of the request, including cached ones.
        output_tokens: tokens of the answer, including thoughts.
        cached_tokens: tokens of the request that the provider had cached.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class HasTokens(Protocol):
    """An object with the number of tokens of a call: `Tokens`, or a `Usage` of a run."""

    @property
    def input_tokens(self) -> int:
        """Tokens of the request."""
        ...

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer."""
        ...

    @property
    def cached_tokens(self) -> int:
        """Tokens of the request that the provider had cached."""
        ...


def tokens_of(usage_metadata: object) -> Tokens:
    """The tokens that a response of google-genai reports (`response.usage_metadata`); 0 for `None`.

    Text that tools add to the request counts as input, and thoughts count as output, as providers bill them.

    >>> from types import SimpleNamespace
    >>> tokens_of(SimpleNamespace(prompt_token_count=10, candidates_token_count=3, thoughts_token_count=2))
    Tokens(input_tokens=10, output_tokens=5, cached_tokens=0)
    """
    said = partial(getattr, usage_metadata)
    return Tokens(
        (said("prompt_token_count", None) or 0) + (said("tool_use_prompt_token_count", None) or 0),
        (said("candidates_token_count", None) or 0) + (said("thoughts_token_count", None) or 0),
        said("cached_content_token_count", None) or 0,
    )


@frozen
class Price(Frozen):
    """The price of a model, in USD per million tokens.

    Attributes:
        input: price of request tokens.
        output: price of answer tokens, including thoughts.
        cached_input: price of request tokens that the provider had cached; `None` means the price `input`.
        tiers: prices of long requests, in ascending order: if a request has more tokens than the number, this
            price holds for all tokens of the call.
        source: the source of the price for reports: `genai-prices 0.2.3`, or the date on which it was given.

    Example:
        >>> price = Price.per_million(input=0.30, output=2.50)
        >>> price.cost(Tokens(1_000, 200))
        Decimal('0.0008')
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    tiers: tuple[tuple[int, Price], ...] = ()
    source: str = "given"

    def _fill(self, values: Mapping[str, object]) -> None:
        amounts = {
            name: amount(values[name], f"{name}= of a price")
            for name in ("input", "output", "cached_input")
            if name in values and (name, values[name]) != ("cached_input", None)
        }
        super()._fill({**values, **amounts})

    @classmethod
    def per_million(
        cls,
        *,
        input: Amount,  # the usual name, although it hides a builtin
        output: Amount,
        cached_input: Amount | None = None,
        as_of: date | None = None,
    ) -> Self:
        """Make a price from USD per million tokens, as providers' price lists state it.

        Args:
            input: price of request tokens.
            output: price of answer tokens.
            cached_input: price of request tokens that the provider had cached; by default that of `input`.
            as_of: the date of the price; reports show it.

        Raises:
            ArgumentError: an amount is negative, or not a number.
        """
        source = "given" if as_of is None else f"given on {as_of.isoformat()}"
        values = {"input": input, "output": output, "cached_input": cached_input, "source": source}
        return cls(**values)  # pyright: ignore[reportArgumentType]  # what is no Decimal becomes one

    @classmethod
    def per_thousand(cls, *, input: Amount, output: Amount) -> Self:  # as above
        """Make a price from USD per 1,000 tokens, as a `ModelCandidate` states it.

        >>> Price.per_thousand(input=0.15, output=0.6).input
        Decimal('150.00')
        """
        return cls.per_million(input=amount(input, "input=") * 1000, output=amount(output, "output=") * 1000)

    def cost(self, tokens: HasTokens) -> Decimal:
        """The cost in USD of one call with these tokens."""
        price: Price = self
        for more_than, tier in self.tiers:
            if tokens.input_tokens > more_than:
                price = tier
        cached = min(tokens.cached_tokens, tokens.input_tokens)
        whole = price.input * (tokens.input_tokens - cached) + price.output * tokens.output_tokens
        whole += (price.input if price.cached_input is None else price.cached_input) * cached
        return whole / _MILLION


def amount(value: object, where: str) -> Decimal:
    """Convert a sum in USD that a user gave.

    Raises:
        ArgumentError: the sum is negative, or not a number; the message starts with `where`.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        found = value if isinstance(value, Decimal) else Decimal(str(value))
    except (InvalidOperation, TypeError) as error:
        raise ArgumentError(f"{where} takes an amount in USD, not {value!r:.40}.") from error
    if not found.is_finite() or found < 0:
        raise ArgumentError(f"{where} takes an amount in USD from 0 up, not {value!r:.40}.")
    return found


# --- prices of models -----------------------------------------------------------------------------

_registered: dict[str, Price] = {}


def register_price(model: str, price: Price) -> None:
    """Set the price of a model for estimates, results and budgets of this process, instead of the data set's.

    Raises:
        ArgumentError: the name is empty, or the price is not a `Price`.

    >>> register_price("my-finetune", Price.per_million(input=1, output=4))
    >>> cost_of("my-finetune", Tokens(1000, 1000))
    Decimal('0.005')
    >>> unregister_price("my-finetune")
    """
    if not isinstance(model, str) or not model.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(f"register_price() takes the name of a model, not {model!r:.40}.")
    if not isinstance(price, Price):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(
            f"register_price({model!r}, …) takes a Price, as Price.per_million(input=…, output=…), "
            f"not {price!r:.40}."
        )
    _registered[model.strip().lower()] = price


def unregister_price(model: str) -> None:
    """Remove a registered price; do nothing if none is registered."""
    _registered.pop(model.strip().lower(), None)


def price_of(model: object, prices: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model today, or `None` if it is unknown.

    Args:
        model: a name that ADK accepts (`gemini-2.5-flash`, `openai/gpt-4o`, `projects/…/models/…`), a name in
            a response (`gpt-4o-2024-08-06`), or a `BaseLlm`.
        prices: prices by model name that take precedence over all others.

    Raises:
        MissingExtraError: the price is neither given nor registered, and `genai-prices` is not installed.

    >>> price = price_of("gemini-2.5-flash")
    >>> price.input < price.output
    True
    """
    name = name_of(model)
    if not name:
        return None
    for given in (prices, _registered):
        if given and (price := _among(name, given)) is not None:
            return price
    snapshot = _data().get_snapshot()
    source = _source(snapshot) if snapshot.from_auto_update else _version()
    return _listed(name, datetime.now(UTC).date(), source)


def cost_of(model: object, usage: HasTokens, prices: Mapping[str, Price] | None = None) -> Decimal | None:
    """The cost in USD of one call of a model; `None`, and never 0, if its price is unknown.

    Args:
        model: as for `price_of`.
        usage: the tokens of one call; for the sum of several calls, price tiers would give a wrong result.
        prices: prices by model name that take precedence over all others.

    Raises:
        MissingExtraError: see `price_of`.
    """
    price = price_of(model, prices)
    return None if price is None else price.cost(usage)


def name_of(model: object) -> str:
    """The name of a model: a string itself, or the `.model` of a `BaseLlm`; empty if it has none."""
    name = model if isinstance(model, str) else getattr(model, "model", "")
    return name if isinstance(name, str) else ""


def _among(name: str, prices: Mapping[str, Price]) -> Price | None:
    lower = name.strip().lower()
    return prices.get(name) or prices.get(lower) or prices.get(lower.rpartition("models/")[2])


# --- the data set ---------------------------------------------------------------------------------

_PROVIDERS: Final[Mapping[str, str]] = {"azure_ai": "azure", "fireworks_ai": "fireworks"}
"""The data set's names of providers for LiteLLM's names, if the data set does not match them itself."""


@cache
def _data() -> Any:
    try:
        return import_module("genai_prices.data_snapshot")
    except ImportError as error:
        raise MissingExtraError(NO_PRICES) from error


@lru_cache(maxsize=1024)
def _listed(name: str, today: date, source: str) -> Price | None:
    """The price in the data set; cached for a day, since a price may change at a date."""
    provider, model = _split(name)
    snapshot = _data().get_snapshot()
    for spelled in _spellings(model):
        try:
            _, found = snapshot.find_provider_model(spelled, None, provider, None)
        except LookupError:
            continue
        at = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
        return _price(found.get_prices(at), source)
    return None


def _split(name: str) -> tuple[str | None, str]:
    """Split a name into the provider, if it names one, and the model's own name."""
    lower = name.strip().lower()
    head, slashes, model = lower.rpartition("models/")
    if slashes:  # as Google's resources are named
        return ("google" if head in ("", "publishers/google/") or "/google/" in head else None), model
    provider, slash, rest = lower.partition("/")
    if not slash:
        return None, lower
    return _PROVIDERS.get(provider, provider), rest


def _spellings(model: str) -> Iterable[str]:
    yield model
    plain, dash, number = model.rpartition("-")
    if dash and len(number) == 3 and number.isdigit():  # a release of Gemini, as `gemini-2.0-flash-001`
        yield plain


@cache
def _version() -> str:
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


def _source(snapshot: Any) -> str:
    """The source of the prices that `genai_prices.UpdatePrices` fetched, with the date."""
    return f"{_version()}, updated {snapshot.timestamp:%Y-%m-%d %H:%M}"


def _price(found: Any, source: str) -> Price | None:
    """Convert a price of the data set; `None` for a model that is not billed by tokens of text."""
    kinds = (found.input_mtok, found.output_mtok, found.cache_read_mtok)
    if kinds[0] is None:
        return None
    starts = sorted({tier.start for kind in kinds if kind is not None for tier in getattr(kind, "tiers", ())})

    def above(tokens: int, tiers: tuple[tuple[int, Price], ...] = ()) -> Price:
        given, said, cached = (_at(kind, tokens) for kind in kinds)
        assert given is not None
        return Price(given, said or Decimal(0), cached, tiers=tiers, source=source)

    return above(0, tuple((start, above(start + 1)) for start in starts))


def _at(kind: Any, tokens: int) -> Decimal | None:
    """The price of one kind of token in a request with this number of tokens."""
    passed = [tier.price for tier in getattr(kind, "tiers", ()) if tokens > tier.start]
    return passed[-1] if passed else getattr(kind, "base", kind)


# --- budgets --------------------------------------------------------------------------------------

COST: Final = "adk_fluent.cost_usd"
"""Metadata key of a response or its event: the cost in USD, as text, if the agent states the price."""
COUNTED: Final = "adk_fluent.budget"
"""Metadata key of a response or its event: the state key of the budget that paid for it."""

CACHED: Final = "adk_fluent.cached"
"""Metadata key of a response or its event: the response came from a cache and cost nothing."""


def countdown(left: Amount, cost: Decimal) -> str:
    """Subtract the cost of a call from a budget; the result is text for the state, 0 or more.

    >>> countdown("1.00", Decimal("0.0003")), countdown(0.1, Decimal("0.25"))
    ('0.9997', '0')
    """
    rest = amount(left, "countdown()") - cost
    return format(max(rest, Decimal(0)), "f")


def left_of(value: object, key: str, agent: str) -> Decimal | None:
    """Read the remaining budget from its state value; `None` if there is no value, and so no limit.

    Raises:
        ModelError: the value is negative, or not a number; the message names the agent and the key.

    >>> left_of("0.9997", "budget", "a")
    Decimal('0.9997')
    """
    if value is None:
        return None
    try:
        return amount(value, key)
    except ADKFluentError:
        raise ModelError(
            f'Agent {agent!r}: its budget "{key}" holds {value!r:.40}, which is no amount in USD from 0 up. '
            f'Set it to one, as in S.set({key.rpartition(":")[2]}="5.00").'
        ) from None


def cost_of_response(
    response: object, model: object = "", prices: Mapping[str, Price] | None = None
) -> Decimal | None:
    """The cost of a model's response in USD, or `None` if its price is unknown.

    Args:
        response: an `LlmResponse` of ADK, or an event made from one; a response without usage cost nothing.
        model: the model that was asked, for a response that does not name its model.
        prices: prices by model name that take precedence over all others.

    Raises:
        MissingExtraError: the price is not given, and `genai-prices` is not installed.
    """
    metadata: Mapping[str, object] = getattr(response, "custom_metadata", None) or {}
    if isinstance(said := metadata.get(COST), str):
        return Decimal(said)
    usage = getattr(response, "usage_metadata", None)
    if usage is None:
        return Decimal(0)
    named = getattr(response, "model_version", None)
    tokens = tokens_of(usage)
    cost = cost_of(named, tokens, prices) if named else None
    return cost if cost is not None else cost_of(model, tokens, prices)
