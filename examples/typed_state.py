"""Keys of state with types and scopes: a misspelt key is found before a run, a wrong value while it happens.

python examples/typed_state.py
"""

import asyncio
import os
from typing import Annotated, Literal

from pydantic import Field

from adk_fluent import Agent, Route, S, StateSchema
from adk_fluent.backends import ADKBackend
from adk_fluent.errors import ADKFluentError
from adk_fluent.state import UserScoped
from adk_fluent.testing import mock_backend


class Desk(StateSchema):
    topic: Literal["refund", "other"]
    sure: Annotated[float, Field(ge=0, le=1)]
    tier: Annotated[str, UserScoped] = "free"
    letter: str | None = None


triage = Agent("triage", "gemini-2.5-flash").instruct("Say the topic, and how sure you are.")
triage = triage.writes(Desk.topic, Desk.sure)
refunds = (
    Agent("refunds", "gemini-2.5-flash").instruct("Help a customer of tier {user:tier}.").writes(Desk.letter)
)
others = Agent("others", "gemini-2.5-flash").instruct("Help.").writes(Desk.letter)

desk = (
    S.default(**{"user:tier": "free"}) >> triage >> Route("topic").eq("refund", refunds).otherwise(others)
).schema(Desk)
misspelt = (triage >> refunds.instruct("How sure: {shure}")).schema(Desk)

SCRIPT = {
    "triage": [{"topic": "refund", "sure": 0.9}, {"topic": "refund", "sure": 90}],
    "refunds": "Dear Ann, ...",
}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)


async def main() -> None:
    print("before a run:", misspelt.check().errors[0].message)
    for _ in range(2):
        try:
            result = await desk.run("My tea never came.", state={"user:tier": "gold"}, backend=BACKEND)
            print("state:", dict(sorted(result.state.items())))
        except ADKFluentError as error:
            print("refused:", error)


if __name__ == "__main__":
    asyncio.run(main())
