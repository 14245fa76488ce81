"""A pipeline whose segments run in other processes; they import it from here."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent import A, Agent, S
from adk_fluent.distributed import ScalingConfig, TransportConfig
from adk_fluent.state import declares

print("what a module prints is no answer either")


class Echo(BaseLlm):
    """Answers with what it was told to do."""

    model: str = "echo"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The instruction's first line."""
        config: Any = llm_request.config
        text = str(config.system_instruction).partition("\n")[0]
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


@declares(reads=["task"], writes=["pid"])
def where(state: Mapping[str, Any]) -> dict[str, int]:
    """The process that this runs in; some tasks end it."""
    if state["task"] == "die":
        os._exit(3)
    if state["task"] == "fail":
        raise ValueError("no such task")
    print("what a step prints is no answer")
    return {"pid": os.getpid()}


heavy = Agent("heavy", Echo()).instruct("Did {task}.").writes("result")
placed = (
    S.capture("task")
    >> S.fn(where).execution_boundary(
        serialization="protobuf", isolation="process", scaling=ScalingConfig(max_instances=2)
    )
    >> heavy
)

copying = A.snapshot("draft.md", into_key="draft") >> A.publish("copy.md", from_key="draft")
filing = (
    A.save("draft.md", "Did it.")
    >> copying.execution_boundary(isolation="process")
    >> A.snapshot("copy.md", into_key="copy").execution_boundary()
)

queued = S.capture("task") >> heavy.execution_boundary(
    transport=TransportConfig(endpoint="redis://127.0.0.1:1/heavy")
)
