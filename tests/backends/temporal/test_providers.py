"""Models of a provider, reached over its wire protocol by the activities of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adk_fluent import Agent, C
from tests.backends.temporal.engine import Served, Workers
from tests.cli.gemini import Gemini, serve_models

pytestmark = pytest.mark.newest

SAYS = {"writer": "W-TEXT", "critic": "C-TEXT", "me": "M-TEXT"}
VECTORS = {"GO": [1.0, 0.0], "W-TEXT": [0.1, 1.0], "C-TEXT": [2.0, 0.1]}


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gemini]:
    """A server in Gemini's place."""
    with serve_models(Gemini(SAYS, vectors=VECTORS), monkeypatch) as served:
        yield served


async def test_an_embedding_model_by_name(workers: Workers, gemini: Gemini) -> None:
    """A context's embedding model is asked for vectors, as on ADK, and not for an answer."""
    near = C.relevant(scorer="gemini-embedding-001", top_k=1)
    writer, critic, me = (Agent(name, "gemini-2.5-flash") for name in SAYS)
    result = await (writer >> critic >> me.context(near)).run("GO", backend=Served(workers))
    asked = [path for path, _ in gemini.requests if "embedding" in path]
    assert [path.rpartition(":")[2] for path in asked] == ["batchEmbedContents"]
    instruction = str(gemini.requests[-1][1]["systemInstruction"])
    assert "[critic]: C-TEXT" in instruction
    assert "W-TEXT" not in instruction
    assert result.text == "M-TEXT"
