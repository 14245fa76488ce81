"""A nightly batch sorts 1,000 messages, twenty to a call, and stops when the night's budget is spent.

What is left is told and comes first the next night; what an answer leaves out is asked again, then given up.

python examples/nightly_batch.py
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from google.adk.models.llm_request import LlmRequest
from pydantic import BaseModel

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.cost import Price, register_price
from adk_fluent.errors import ADKFluentError
from adk_fluent.testing import mock_backend

MODEL = "gemini-2.5-flash-lite"
TOGETHER, AT_ONCE = 20, 5
register_price(MODEL, Price.per_million(input=0.10, output=0.40))  # USD, the list price at the end of 2025


class Sorted(BaseModel):
    number: int
    kind: Literal["praise", "complaint", "question"]


sorter = Agent("sorter", MODEL).instruct("Sort each message, by its number.").returns(list[Sorted])

WORDS = ("The tea is lovely.", "My parcel is broken!", "Do you ship to Ulm?")
MESSAGES = {number: WORDS[number * 7 % 3] for number in range(1_000)}


def scripted(request: LlmRequest) -> str:
    """In the place of a model: it looks at the last character, and now and then forgets a message."""
    (asked,) = (part.text or "" for part in request.contents[-1].parts or () if part.text)
    kinds = {".": "praise", "!": "complaint", "?": "question"}
    kept = [(int(n), text) for n, text in json.loads(asked).items() if int(n) % 97 or len(asked) < 400]
    return json.dumps([{"number": n, "kind": kinds[text[-1]]} for n, text in kept])


BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend({"sorter": scripted})


class Night:
    """One night's work: what was sorted, what it cost, what is left."""

    def __init__(self, budget: Decimal) -> None:
        self.budget, self.spent = budget, Decimal()
        self.sorted: dict[int, str] = {}
        self.faults: list[str] = []

    async def sort(self, numbers: Sequence[int]) -> None:
        """Ask for some messages, unless the budget is spent."""
        if self.spent >= self.budget:
            return
        asked = json.dumps({number: MESSAGES[number] for number in numbers})
        try:
            result = await sorter.run(asked, backend=BACKEND)
            self.spent += sum((used.cost or Decimal() for used in result.usage.values()), Decimal())
            self.sorted |= {entry.number: entry.kind for entry in result.output if entry.number in numbers}
        except ADKFluentError as error:
            self.faults.append(str(error))  # these messages are left, and the batch goes on

    async def work(self, numbers: Sequence[int]) -> list[int]:
        """Sort these, some calls at once; gives what is left."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(start: int) -> None:
            async with turn:
                await self.sort(numbers[start : start + TOGETHER])

        await asyncio.gather(*map(one, range(0, len(numbers), TOGETHER)))
        return [number for number in numbers if number not in self.sorted]


async def main() -> None:
    left = list(MESSAGES)
    for name, budget in (("Monday", Decimal("0.004")), ("Tuesday", Decimal("0.010"))):
        night = Night(budget)
        left = await night.work(left)
        if left and night.sorted and night.spent < budget:
            left = await night.work(left)  # once more, what answers left out
        share = "less than" if night.spent < budget else "all of"
        print(f"{name}: {len(night.sorted)} sorted for {share} ${budget}, {len(left)} left")
        print(f"  {dict(sorted(Counter(night.sorted.values()).items()))}")
        for fault in sorted(set(night.faults)):
            print(f"  {night.faults.count(fault)} calls failed: {fault}")


if __name__ == "__main__":
    asyncio.run(main())
