"""`pii_filter` in the bytes that a provider gets: an address in any place of a request never reaches it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, cast

import pytest
from google.adk.models.google_llm import Gemini as GeminiModel
from google.adk.models.llm_request import LlmRequest
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from adk_fluent import Agent, S
from adk_fluent.errors import RunError
from adk_fluent.middleware import Middleware, pii_filter
from adk_fluent.middleware.filtering import KEPT
from tests.cli.gemini import Gemini, serve_models
from tests.middleware.planting import WORDLESS, requests
from tests.sampling import examples

ADDRESS = "ann.lee@example.org"
MODEL = "gemini-2.5-flash"


def shows(data: bytes) -> bool:
    """Whether bytes hold the address, as it is or in base64."""
    text = data.decode()
    if ADDRESS in text:
        return True
    return any(ADDRESS.encode() in found for found in decoded(json.loads(text)))


def decoded(value: Any) -> Iterator[bytes]:
    """What the texts in some JSON may say in base64."""
    if isinstance(value, dict):
        yield from decoded([*value, *value.values()])
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from decoded(each)
    elif isinstance(value, str):
        for decode in (base64.b64decode, base64.urlsafe_b64decode):
            try:
                yield decode(value)
            except ValueError:
                continue


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gemini]:
    """A server that speaks Gemini's protocol and keeps the bytes that it gets."""
    with serve_models(Gemini({"": "ok"}), monkeypatch) as served:
        monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", served.url)
        yield served


# --- every field ----------------------------------------------------------------------------------


async def reached(gemini: Gemini, *middleware: Middleware) -> dict[str, bool]:
    """The places of a request that a model of Gemini's sends on, and whether with the address."""
    llm, found = GeminiModel(model=MODEL), dict[str, bool]()
    config = types.GenerateContentConfig(system_instruction="Be kind.")
    for place, planted in requests(ADDRESS):
        request = LlmRequest(model=MODEL, contents=[types.UserContent("go")], config=config.model_copy())
        for name in planted.model_fields_set:
            value = getattr(planted, name)
            if name == "config":
                fields = {key: getattr(value, key) for key in value.model_fields_set}
                value = request.config.model_copy(update=fields)
            setattr(request, name, value)
        call: Any = llm.generate_content_async
        for each in middleware:
            call = partial(each.around_model, cast(Any, None), call=call)
        gemini.bodies.clear()
        with suppress(Exception):  # this API takes no such field, or the client no such value
            async for _ in call(request):
                pass
        if gemini.bodies:
            found[place] = any(map(shows, gemini.bodies))
    return found


@pytest.mark.newest
@pytest.mark.parametrize("enterprise", ["false", pytest.param("true", marks=pytest.mark.exhaustive)])
async def test_no_field_of_a_request_lets_an_address_through(
    gemini: Gemini, enterprise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever field of a request, content, tool or schema holds an address, the provider does not get it."""
    monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", enterprise)
    plain, filtered = await reached(gemini), await reached(gemini, pii_filter())
    assert sum(plain.values()) > 300
    assert [place for place, leaks in filtered.items() if leaks] == []
    assert [place for place in plain if place not in filtered] == []


def test_a_field_that_is_kept_has_its_reason() -> None:
    """Fields that the filter leaves as they are, and types that hold no words, are listed with the reason."""
    assert all(len(reason.split()) >= 3 for reason in (*KEPT.values(), *WORDLESS.values()))


# --- tools, state and files -----------------------------------------------------------------------


class Person(BaseModel):
    """A result of a tool."""

    mail: str


@dataclass
class Note:
    """Another."""

    text: object


class Contact(StrEnum):
    """And another."""

    ANN = ADDRESS


LEAVES = st.sampled_from(
    [
        ADDRESS,
        f"Write to {ADDRESS}.",
        ADDRESS.encode(),
        f'{{"mail": "two\\n{ADDRESS}"}}',
        Contact.ANN,
        Person(mail=ADDRESS),
        {ADDRESS},
        frozenset({f"<{ADDRESS}>"}),
        1,
        None,
        "plain",
        datetime(2026, 1, 2, tzinfo=UTC),
    ]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(st.sampled_from(["a", ADDRESS, f"to {ADDRESS}"]), inner, max_size=3),
        inner.map(Note),
    ),
    max_leaves=6,
)
FILES = st.sampled_from(
    [
        ("text/plain", ADDRESS.encode()),
        ("text/csv; charset=utf-16", f"mail\n{ADDRESS}".encode("utf-16")),
        ("text/html", f"caf\xe9 {ADDRESS}".encode("latin-1")),
        ("application/json", json.dumps({"mail": ADDRESS}).encode()),
        ("application/octet-stream", ADDRESS.encode()),
    ]
)


def looking_up(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Call the tool, then answer."""
    if any("functionResponse" in part for content in body["contents"] for part in content["parts"]):
        return [{"text": "Done."}]
    return [{"functionCall": {"name": "look_up", "args": {"who": "Ann"}}}]


@settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(result=VALUES, state=VALUES, file=FILES, reversible=st.booleans())
def test_no_value_lets_an_address_through(
    gemini: Gemini, result: Any, state: Any, file: tuple[str, bytes], reversible: bool
) -> None:
    """Whatever a tool returns, the state holds or a user attaches, the provider gets no address of it."""

    def look_up(who: str) -> Any:
        return result

    look_up.__doc__ = f"Looks somebody up. Ask {ADDRESS} if it does not work."
    gemini.answers = {"a": looking_up}
    gemini.bodies.clear()
    agent = S.set(known=str(state)) >> Agent("a", MODEL).instruct("Known: {known}").tools(look_up)
    mime, data = file
    prompt = [f"I am {ADDRESS}", types.Part(inline_data=types.Blob(data=data, mime_type=mime))]
    with suppress(RunError):  # JSON has no form for some sets, nor has the client
        asyncio.run(agent.middleware(pii_filter(reversible=reversible)).run(prompt))
    assert gemini.bodies
    for sent in gemini.bodies:
        assert not shows(sent), sent
        assert ADDRESS.encode("utf-16-le") not in b"".join(decoded(json.loads(sent)))
