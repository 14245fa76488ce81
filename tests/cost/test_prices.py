"""The cost of a call follows the provider's price list or the given price."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from adk_fluent.cost import Price, Tokens, cost_of, price_of, register_price, tokens_of, unregister_price
from adk_fluent.errors import ArgumentError, MissingExtraError
from tests.limits import LIMIT


@pytest.fixture
def own() -> Iterator[str]:
    """A model that only this test knows a price of."""
    register_price("Own-Model", Price.per_million(input=1, output="2.5", as_of=date(2026, 11, 1)))
    yield "own-model"
    unregister_price("own-model")


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("projects/p/locations/l/publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("vertex_ai/gemini-2.5-flash", "gemini-2.5-flash"),
        ("openai/gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("Azure/GPT-4o", "gpt-4o"),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"),
    ],
)
def test_names_as_adk_and_litellm_spell_them(name: str, like: str) -> None:
    """A model has its price under every name that ADK resolves it by."""
    price = price_of(name)
    assert price is not None
    assert price == price_of(like)
    assert price.source.startswith("genai-prices ")


def test_a_model_object_has_the_price_of_its_name() -> None:
    """A `BaseLlm` costs what its model name costs."""
    assert price_of(SimpleNamespace(model="gemini-2.5-flash")) == price_of("gemini-2.5-flash") is not None


@pytest.mark.parametrize("name", ["", "no-such-model", "ollama/llama3", "nobody/gpt-4o", object(), None])
def test_unknown_models_have_no_price(name: object) -> None:
    """An unknown model has no price, rather than one of 0 or of a namesake at another provider."""
    assert price_of(name) is None
    assert cost_of(name, Tokens(10, 10)) is None


def test_exact_sums() -> None:
    """Tokens times price, exactly; cached input at its own price, or at that of input where it has none."""
    price = Price.per_million(input=0.3, output=2.5, cached_input=0.03)
    assert price.cost(Tokens(1_000_003, 7, 3)) == Decimal("0.30001759")
    assert Price.per_million(input=0.3, output=2.5).cost(Tokens(10, 0, 4)) == Decimal("0.000003")
    assert price.cost(Tokens(2, 0, 5)) == Decimal("0.00000006")
    assert Price.per_thousand(input=0.15, output=0.6).cost(Tokens(1000, 1000)) == Decimal("0.75")


def test_long_requests_cost_what_their_tier_says() -> None:
    """Above the limit of a tier, all tokens of the call cost its price."""
    pro = price_of("gemini-2.5-pro")
    assert pro is not None
    ((limit, above),) = pro.tiers
    assert pro.cost(Tokens(limit, 10)) == (pro.input * limit + pro.output * 10) / 1_000_000
    assert pro.cost(Tokens(limit + 1, 10)) == (above.input * (limit + 1) + above.output * 10) / 1_000_000
    assert above.input > pro.input


def test_given_prices_win(own: str) -> None:
    """A registered price wins over the data set, one given with the call over that; it says its date."""
    registered = price_of(own)
    assert registered is not None
    assert (registered.input, registered.source) == (1, "given on 2026-11-01")
    dear = Price.per_million(input=9, output=9)
    assert price_of(own, {"own-model": dear}) is dear
    assert price_of("models/own-model", {"own-model": dear}) is dear
    assert cost_of(own, Tokens(1_000_000, 1_000_000)) == Decimal("3.5")
    unregister_price(own)
    assert price_of(own) is None


def test_the_tokens_of_a_response() -> None:
    """Thoughts are output, what tools put in is input, and a response without usage used nothing."""
    from google.genai.types import GenerateContentResponseUsageMetadata as Metadata

    used = Metadata(
        prompt_token_count=10,
        tool_use_prompt_token_count=4,
        cached_content_token_count=3,
        candidates_token_count=5,
        thoughts_token_count=2,
    )
    assert tokens_of(used) == Tokens(14, 7, 3)
    assert tokens_of(None) == Tokens()


@pytest.mark.parametrize("wrong", [-1, "-0.5", float("nan"), float("inf"), "free", True, None, [1]])
def test_invalid_prices_are_refused(wrong: Any) -> None:
    """An amount that is negative or no number is refused, saying which."""
    with pytest.raises(ArgumentError, match=r"takes an amount in USD"):
        Price.per_thousand(input=wrong, output=1)
    with pytest.raises(ArgumentError, match="takes an amount in USD"):
        Price.per_million(input=1, output=wrong)


def test_incomplete_registrations_are_refused() -> None:
    """A price without a model, and a model with something else than a price, are refused."""
    with pytest.raises(ArgumentError, match="name of a model"):
        register_price(" ", Price.per_million(input=1, output=1))
    with pytest.raises(ArgumentError, match=r"register_price\('m', …\) takes a Price"):
        register_price("m", cast(Any, 0.5))


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, own: str) -> None:
    """Without genai-prices, one line names the extra; given prices need none."""
    from adk_fluent.cost import prices

    prices._data.cache_clear()  # pyright: ignore[reportPrivateUsage]  # as in a new process
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'genai-prices>=0.2'"):
        price_of("gemini-2.5-flash")
    assert price_of(own) is not None
    monkeypatch.undo()
    assert price_of("gemini-2.5-flash") is not None


def test_prices_are_loaded_when_first_asked_for() -> None:
    """Importing the names loads neither the data set nor ADK; a price then loads only the data set."""
    code = (
        "import sys\n"
        "from adk_fluent.cost import price_of, Price, Tokens\n"
        "assert 'genai_prices' not in sys.modules\n"
        "assert price_of('gemini-2.5-flash') and 'genai_prices' in sys.modules\n"
        "assert 'google.adk' not in sys.modules and 'google.genai' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=LIMIT).returncode == 0
