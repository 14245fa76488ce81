"""Draft until a reviewer is satisfied, in pydantic-ai."""

import asyncio

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def scripted(*answers: str) -> FunctionModel:
    """A model that gives its answers in order."""
    rest = iter(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(next(rest))])

    return FunctionModel(answer)


writer = Agent(scripted("Tea.", "Tea is old."), instructions="Write.")
reviewer = Agent(
    scripted("too short", "good"),
    instructions="Answer good, or what to mend.",
)


async def pipeline(topic: str) -> str:
    """Write and review, at most three times."""
    draft = (await writer.run(topic)).output
    for _ in range(2):
        verdict = (await reviewer.run(draft)).output
        if verdict == "good":
            break
        prompt = f"{topic}. Your draft: {draft} Mend it: {verdict}"
        draft = (await writer.run(prompt)).output
    return draft


print("run:", asyncio.run(pipeline("Tea")))
