"""The demo word by word, with how each is shown."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel, ValidationError

from adk_fluent import local
from adk_fluent.cli import show
from adk_fluent.cli.paper import Paper
from adk_fluent.cli.show import ABOUT_LOCAL, SCRIPT, demo
from tests.cli.commands import Cli
from tests.cli.gemini import Gemini, serve

pytestmark = pytest.mark.newest  # the same on every release


@dataclass
class Looks:
    """Words by how they are shown."""

    text: str = ""
    styled: dict[str, str] = field(default_factory=dict[str, str])

    def put(self, text: str, style: Any) -> None:
        self.text += text
        self.styled[style] = self.styled.get(style, "") + text


class Small(BaseLlm):
    """In the place of the small model: it says what has the schema of the answer."""

    model: str = "small"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        schema = cast("type[BaseModel]", llm_request.config.response_schema)
        answer = next(answer for answer in SCRIPT.values() if has(schema, answer))
        content = types.Content(role="model", parts=[types.Part(text=answer)])
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=4, candidates_token_count=3, total_token_count=7
        )
        yield LlmResponse(content=content, usage_metadata=usage)


def has(schema: type[BaseModel], answer: str) -> bool:
    """Whether an answer has this schema."""
    try:
        schema.model_validate_json(answer)
    except ValidationError:
        return False
    return True


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """What the demo shows, on paper 100 characters wide."""
    found = Looks()

    def paper(stream: object) -> Paper:
        return Paper(io.StringIO(), 100, found.put)

    monkeypatch.setattr(show, "paper", paper)
    return found


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Another model in the small one's place, and how long its answers may get."""
    found: list[int] = []

    def small(*, max_tokens: int) -> BaseLlm:
        found.append(max_tokens)
        return Small()

    monkeypatch.setattr(local, "LocalLlm", small)
    monkeypatch.setattr(show, "installed", lambda: True)
    return found


def test_the_demo_on_a_model_word_by_word(looks: Looks, limits: list[int]) -> None:
    """It says which model it is, loads it, and ends with what it took; names and hints stand out."""
    assert demo(scripted=False, model=None, prompt="I want to rebook") == 0
    assert limits == [80]
    flat = " ".join(looks.text.split())
    assert flat.startswith(f"adk-fluent demo · an airline's support desk {ABOUT_LOCAL} The pipeline ")
    assert "you I want to rebook Loading google-adk and the model … ●" in flat
    (took,) = re.findall(r"(\d+) model calls   (\d+) tokens   (\d+\.\d) s", looks.text)
    assert took[:2] == ("5", "35")
    assert float(took[2]) < 100
    faint = "".join(looks.styled["faint"].split())
    assert faint.startswith(f"{ABOUT_LOCAL} Loading google-adk and the model …".replace(" ", ""))
    assert re.search(r"5modelcalls35tokens\S+sMakeoneofyourown:adk-fluentnewmy_agent$", faint)
    assert looks.styled["strong"] == "adk-fluent demoThe pipelineThe letterThe state"
    assert looks.styled["user"] == "you"


@pytest.mark.parametrize("options", [["--scripted"], ["--model", "gemini-2.5-flash"]])
def test_only_the_small_model_must_be_installed(
    options: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written answers and Gemini need no extra."""
    monkeypatch.setattr(show, "installed", lambda: False)
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    with serve(Gemini(SCRIPT)) as gemini:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        done = cli("demo", *options)
    assert (done.code, done.err) == (0, "")
