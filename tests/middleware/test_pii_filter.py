"""`pii_filter`: no personal data reaches the model, and with `reversible` everybody else has it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, C, FanOut, S
from adk_fluent.errors import ArgumentError, MiddlewareError
from adk_fluent.middleware import find_personal_data, pii_filter, retry
from adk_fluent.middleware.placeholders import Redactor
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import play, seen, system

A, B = Agent("a"), Agent("b")
ANN, BOB, CARD = "ann@example.org", "bob@example.org", "4111 1111 1111 1111"


def everything(request: LlmRequest) -> str:
    """All that a model was sent, as text."""
    return request.model_dump_json(exclude_none=True)


def echo(request: LlmRequest) -> str:
    """The user's message, said again."""
    return "You said: " + seen(request).splitlines()[-1]


# --- out of the model's sight ---------------------------------------------------------------------


@pytest.mark.parametrize("reversible", [False, True])
async def test_nothing_personal_is_sent(reversible: bool) -> None:
    """Messages, instructions, state, tool calls and results, other agents' texts: none reaches the model."""

    def look_up(who: str) -> dict[str, Any]:
        return {"mail": BOB, "cards": [{"number": CARD}], "account": 4111111111111111}

    writer = A.instruct("Answer {user_mail}.").tool(look_up).writes("draft")
    reader = B.instruct("Check {draft}. Or call +49 30 1234567.")
    backend = mock_backend({"a": [call_tool("look_up", who="Bob"), f"Write to {BOB}"], "b": "fine"})
    pipeline = (S.set(user_mail=ANN) >> writer >> reader).middleware(pii_filter(reversible=reversible))
    await pipeline.run(f"I am {ANN}, card {CARD}", backend=backend)
    requests = [*backend.calls["a"], *backend.calls["b"]]
    assert len(requests) == 3
    for request in requests:
        sent = everything(request)
        assert [text for text in (ANN, BOB, CARD, "4111111111111111", "+49 30") if text in sent] == []
    assert "[EMAIL" in system(requests[2])


async def test_what_is_taken_out_is_gone() -> None:
    """Without `reversible`, session, state, events and tools have the placeholder."""
    given: list[str] = []

    def send(to: str) -> str:
        given.append(to)
        return f"sent to {BOB}"

    service = InMemorySessionService()
    backend = mock_backend({"a": [call_tool("send", to=ANN), f"I wrote to {ANN}"]}, session_service=service)
    agent = A.tool(send).writes("said").middleware(pii_filter())
    result = await agent.run(f"I am {ANN}", session_id="s", backend=backend)
    assert (result.text, given, result.state["said"]) == (
        "I wrote to [EMAIL]",
        ["[EMAIL]"],
        "I wrote to [EMAIL]",
    )
    stored = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert stored is not None
    assert [text for text in (ANN, BOB) if text in stored.model_dump_json()] == []
    assert len(stored.events) == 4


# --- and back -------------------------------------------------------------------------------------


async def test_placeholders_are_turned_back() -> None:
    """With `reversible` the user, the tools and the session have the real values, each the right one."""
    given: list[dict[str, Any]] = []

    def send(to: str, also: list[str]) -> str:
        given.append({"to": to, "also": also})
        return f"sent to {to}"

    call = call_tool("send", to="[EMAIL_2]", also=["[EMAIL_1]", "x [CREDIT_CARD_1]"])
    backend = mock_backend({"a": [call, "Dear [EMAIL_1], [EMAIL_2] and [EMAIL_3] know."]})
    agent = A.tool(send).writes("said").middleware(pii_filter(reversible=True))
    result = await agent.run(f"{ANN} asks {BOB}, {CARD}", backend=backend)
    assert given == [{"to": BOB, "also": [ANN, f"x {CARD}"]}]
    assert result.text == result.state["said"] == f"Dear {ANN}, {BOB} and [EMAIL_3] know."
    assert f"sent to {BOB}" in json.dumps([event.to_dict() for event in result], default=str)
    assert "sent to [EMAIL_2]" in everything(backend.calls["a"][1])


async def test_a_conversation_goes_on_with_real_values() -> None:
    """Each run numbers anew what the history holds, which is real, also in another process."""
    service = InMemorySessionService()
    for turn, prompt in enumerate((f"I am {ANN}", f"and I know {BOB}", "bye")):
        said = ["Hello [EMAIL_1]", "[EMAIL_1] knows [EMAIL_2]", "Bye [EMAIL_1], bye [EMAIL_2]"][turn]
        backend = mock_backend({"a": said}, session_service=service)
        result = await A.middleware(pii_filter(reversible=True)).run(prompt, session_id="s", backend=backend)
        assert result.text == said.replace("[EMAIL_1]", ANN).replace("[EMAIL_2]", BOB)


async def test_runs_do_not_share_their_values() -> None:
    """What one run has hidden, another cannot turn back."""
    agent = A.middleware(pii_filter(reversible=True))
    await play(agent, {"a": "[EMAIL_1]"}, f"I am {ANN}")
    assert (await play(agent, {"a": "[EMAIL_1]"}, "who am I?")).text == "[EMAIL_1]"


async def test_a_retry_around_it_still_knows() -> None:
    """A second attempt has the same placeholders, and its answer is turned back."""
    agent = A.middleware(retry(backoff_base=0), pii_filter(reversible=True))
    assert (
        await play(agent, {"a": [ConnectionError("x"), "Hi [EMAIL_1]"]}, f"I am {ANN}")
    ).text == f"Hi {ANN}"


async def test_branches_at_once_have_the_same_placeholders() -> None:
    """Agents that run at the same time speak of the same person by the same placeholder."""
    backend = mock_backend({"a": echo, "b": echo})
    both = FanOut(A, B).middleware(pii_filter(reversible=True))
    result = await both.run(f"I am {ANN}", backend=backend)
    assert [event.content for event in result if event.content] == [f"You said: I am {ANN}"] * 2
    assert ANN not in everything(backend.calls["a"][0]) + everything(backend.calls["b"][0])


# --- streams --------------------------------------------------------------------------------------


def in_pieces(text: str, size: int) -> Any:
    """A response that is streamed in pieces of so many characters."""

    async def pieces(request: LlmRequest) -> AsyncGenerator[str, None]:
        for at in range(0, len(text), size):
            yield text[at : at + size]

    return pieces


@pytest.mark.parametrize("size", [1, 3, 7, 100])
@pytest.mark.parametrize(
    ("reversible", "answer", "expected"),
    [
        (True, "Dear [EMAIL_1], see [1] and [EMAIL_1", f"Dear {ANN}, see [1] and [EMAIL_1"),
        (
            False,
            f"Dear {BOB}, pay {CARD} now. " + "word " * 40,
            "Dear [EMAIL], pay [CREDIT_CARD] now. " + "word " * 40,
        ),
    ],
)
async def test_streams(reversible: bool, answer: str, expected: str, size: int) -> None:
    """However a stream is cut, its pieces say what the whole says, and no piece has half a value."""
    agent = A.middleware(pii_filter(reversible=reversible))
    backend = mock_backend({"a": in_pieces(answer, size)})
    said: list[str] = []
    whole = ""
    async with aclosing(agent.stream(f"I am {ANN}", backend=backend)) as events:
        async for event in events:
            if event.is_partial:
                said.append(event.content or "")
            elif event.content:
                whole = event.content
    assert ("".join(said), whole) == (expected, expected)
    if not reversible:
        assert not any(word in piece for piece in said for word in ("bob", "4111"))


pieces_of_text = st.lists(
    st.sampled_from([ANN, CARD, " ", "x", "word ", "1", "\n", "é", "+49 30 1234567"]), max_size=40
)


@settings(max_examples=50)
@given(pieces_of_text, st.lists(st.integers(1, 40), min_size=1))
def test_a_redacted_stream_has_no_personal_data(pieces: list[str], sizes: list[int]) -> None:
    """However it is cut, what is taken out of the whole is taken out of the pieces."""
    text = "".join(pieces)
    stream, said, at = Redactor(find_personal_data).stream(), "", 0
    while at < len(text):
        size = sizes[at % len(sizes)]
        said += stream.feed(text[at : at + size])
        at += size
    said += stream.flush()
    assert not [span for span in find_personal_data(said) if span[2] == "EMAIL"]
    assert "4111 1111" not in said or "4111 1111" in Redactor(find_personal_data).hide(text)


# --- everywhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reversible", [False, True])
async def test_questions_of_contexts_are_filtered(reversible: bool) -> None:
    """What `C.summarize` asks a helper model has no personal data; a reversible answer has it back."""
    answer = "[EMAIL_1] wrote" if reversible else "somebody wrote"
    backend = mock_backend({"a": f"I am {BOB}", "b": "ok", "b:summarize": answer})
    pipeline = (A >> B.context(C.window(1) | C.summarize())).middleware(pii_filter(reversible=reversible))
    await pipeline.run("go", backend=backend)
    assert "[EMAIL" in everything(backend.calls["b:summarize"][0])
    for requests in backend.calls.values():
        assert not any(BOB in everything(request) for request in requests)


async def test_a_detector_of_ones_own() -> None:
    """A detector decides what is personal; its kinds name the placeholders."""

    def names(text: str) -> list[tuple[int, int, str]]:
        at = text.find("Ann")
        return [] if at < 0 else [(at, at + 3, "name")]

    backend = mock_backend({"a": "Hello [NAME_1]"})
    result = await A.middleware(pii_filter(names, reversible=True)).run("I am Ann", backend=backend)
    assert (result.text, seen(backend.calls["a"][0])) == ("Hello Ann", "I am [NAME_1]")
    with pytest.raises(MiddlewareError, match=r"The detector of pii_filter gave \(0, 99, 'x'\)"):
        await play(A.middleware(pii_filter(lambda text: [(0, 99, "x")])))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"detector": "EMAIL"},
            "pii_filter(detector=) is a function of a text that gives (start, end, kind), not",
        ),
        (
            {"detector": str},
            "pii_filter(detector=) is a function of a text that gives (start, end, kind), not",
        ),
        ({"reversible": "yes"}, "pii_filter(reversible=) is True or False, not 'yes'."),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], message: str) -> None:
    """Each wrong argument is one clear line."""
    with pytest.raises(ArgumentError) as caught:
        pii_filter(**wrong)
    assert str(caught.value).startswith(message)
