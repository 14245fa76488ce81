"""An assistant for customers with what production needs around it, while its provider has a bad day.

With a key Gemini answers, and the days are good.
"""

import asyncio
import os

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.cost import Price
from adk_fluent.errors import BudgetError
from adk_fluent.middleware import (
    cache,
    circuit_breaker,
    cost_attribution,
    fallback_model,
    pii_filter,
    rate_limiter,
    retry,
    timeout,
    token_budget,
    tool_approval,
)
from adk_fluent.testing import call_tool, mock_backend

SENT: list[str] = []


def send_refund(to: str, amount: float) -> str:
    """Pay money back to a customer."""
    SENT.append(f"{amount:.2f} to {to}")
    return "sent"


prices = {
    "gemini-2.5-pro": Price.per_million(input=1.25, output=10),
    "gemini-2.5-flash": Price.per_million(input=0.30, output=2.50),
}
costs = cost_attribution("budget", prices)

assistant = (
    Agent("assistant", "gemini-2.5-pro")
    .instruct("Help customers. Refund what is broken.")
    .tool(send_refund)
    .middleware(
        token_budget(20_000, per="session"),
        pii_filter(reversible=True),
        cache(),
        fallback_model("gemini-2.5-flash"),
        retry(max_attempts=2, backoff_base=0),
        circuit_breaker(failure_threshold=3, reset_timeout=60),
        rate_limiter(50, per=1),
        timeout(30),
        costs,
        tool_approval(["send_refund"]),
    )
)

scripted = mock_backend(
    {
        "assistant": [
            ConnectionError("reset by peer"),
            call_tool("send_refund", to="[EMAIL_1]", amount=20),
            "I have refunded 20 dollars to [EMAIL_1].",
            ConnectionError("down"),
        ],
        "gemini-2.5-flash": "We are open from nine to five.",
    }
)

provider = ADKBackend() if "GOOGLE_API_KEY" in os.environ else scripted


async def main() -> None:
    print("-- the first call fails and is tried again; a person approves the refund")
    prompt = "My lamp is broken. I am ann@example.org."
    waiting = await assistant.run(prompt, state={"budget": "1.00"}, backend=provider)
    for asked in waiting.pending:
        print("to approve:", asked.message)
    answers = {asked.id: True for asked in waiting.pending}
    if answers:
        done = await assistant.resume(session_id=waiting.session_id, approvals=answers, backend=provider)
        print("answer:    ", done.text)
    print("sent:      ", *SENT)
    if provider is scripted:
        seen = str(scripted.calls["assistant"][0].contents)
        print("the model was told the address:", "ann@example.org" in seen)

    print("-- the provider is down: another model answers, then nobody is asked")
    for _ in range(2):
        result = await assistant.run("When are you open?", state={"budget": "1.00"}, backend=provider)
        print("answer:    ", result.text)
    if provider is scripted:
        print("asked for the two:", len(scripted.calls["gemini-2.5-flash"]), "time")

    print("-- what it cost, and what it may not cost")
    for (agent, model), spent in costs.spent.items():
        print(f"{agent} on {model}: {spent.calls} calls, {spent.input_tokens} tokens in")
    try:
        await assistant.run("Read this: " + "page " * 20_000, state={"budget": "1.00"}, backend=provider)
    except BudgetError as error:
        print(error)


if __name__ == "__main__":
    asyncio.run(main())
