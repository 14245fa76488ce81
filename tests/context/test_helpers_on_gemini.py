"""Helper models that a context names, reached over Gemini's wire protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent, C
from adk_fluent.context.spec import Context
from adk_fluent.expr.workflow import Pipeline
from tests.cli.gemini import Gemini, serve_models

MODEL = "gemini-2.5-flash"
SAYS = {"writer": "W-TEXT", "critic": "C-TEXT", "me": "M-TEXT", "": "BRIEF"}
VECTORS = {"GO": [1.0, 0.0], "W-TEXT": [0.1, 1.0], "C-TEXT": [2.0, 0.1]}


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gemini]:
    """A server in Gemini's place; the helpers, which have no agent's name, get `BRIEF`."""
    with serve_models(Gemini(SAYS, vectors=VECTORS), monkeypatch) as served:
        yield served


def pipeline(spec: Context) -> Pipeline[str]:
    """Two agents before the one whose context is looked at."""
    return Agent("writer", MODEL) >> Agent("critic", MODEL) >> Agent("me", MODEL).context(spec)


def instruction(gemini: Gemini) -> str:
    """The system instruction of the last request."""
    return json.dumps(gemini.requests[-1][1]["systemInstruction"])


async def test_an_embedding_model_by_name(gemini: Gemini) -> None:
    """Question and texts are embedded in one call of the named model; the nearest text is seen, no other."""
    spec = C.relevant(scorer="gemini-embedding-001", top_k=1)
    result = await pipeline(spec).run("GO", session_service=InMemorySessionService())
    (asked,) = [
        body for path, body in gemini.requests if path.endswith("gemini-embedding-001:batchEmbedContents")
    ]
    assert [one["content"]["parts"][0]["text"] for one in asked["requests"]] == ["GO", "W-TEXT", "C-TEXT"]
    assert "[critic]: C-TEXT" in instruction(gemini)
    assert "W-TEXT" not in instruction(gemini)
    assert result.text == "M-TEXT"


async def test_a_summary_by_a_named_model(gemini: Gemini) -> None:
    """The named model is asked for the summary, its tokens count, and the agent sees the summary alone."""
    spec = C.summarize(model="gemini-2.5-flash-lite")
    result = await pipeline(spec).run("GO", session_service=InMemorySessionService())
    assert [path for path, _ in gemini.requests].count(
        "/v1beta/models/gemini-2.5-flash-lite:generateContent"
    ) == 1
    assert "BRIEF" in instruction(gemini)
    assert "C-TEXT" not in instruction(gemini)
    assert result.usage["me", "gemini-2.5-flash-lite"].total_tokens == 25


async def test_a_named_model_that_is_not_there(gemini: Gemini, caplog: pytest.LogCaptureFixture) -> None:
    """An embedding that fails is a warning; the agent sees what was selected."""
    gemini.vectors = {}
    await pipeline(C.relevant(scorer="gemini-embedding-001", top_k=1)).run("GO")
    assert "C-TEXT" in instruction(gemini)
    assert "W-TEXT" in instruction(gemini)
    assert [record.name for record in caplog.records if "C.relevant" in record.message] == [
        "adk_fluent.context"
    ]
