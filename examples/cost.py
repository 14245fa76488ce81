"""What a support desk will cost before it runs, and what a run really cost, with a model chosen by a budget.

python examples/cost.py
"""

import asyncio
import os

from adk_fluent import Agent, Route
from adk_fluent.backends import ADKBackend
from adk_fluent.cost import ModelCandidate, TrafficAssumptions, estimate_cost
from adk_fluent.testing import mock_backend

# Prices in USD per 1,000 tokens; without them, those of the model in the data set of `adk-fluent[cost]`.
FLASH = ModelCandidate("gemini-2.5-flash", 0.0003, 0.0025, quality_tier=1)
PRO = ModelCandidate("gemini-2.5-pro", 0.00125, 0.0100, quality_tier=2)

classifier = (
    Agent("classifier")
    .model_select("cost_optimized", candidates=[FLASH, PRO])
    .instruct("Classify the request as billing or other.")
    .writes("intent")
)
billing = (
    Agent("billing")
    .model_select(
        "budget_bounded", candidates=[PRO], budget_key="user:budget", fallback_model="gemini-2.5-flash"
    )
    .instruct("Help with the bill.")
)
other = Agent("other").model_select("cost_optimized", candidates=[FLASH, PRO]).reads("intent")

pipeline = classifier >> Route("intent").eq("billing", billing).otherwise(other)
ANSWERS = {"classifier": "billing", "billing": "Your bill is 12 euros too high; we pay it back."}


async def main() -> None:
    print(estimate_cost(pipeline, TrafficAssumptions(branch_probabilities={"billing": 0.7, "other": 0.3})))
    backend = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(ANSWERS)
    for budget in ("0.01", "0"):
        result = await pipeline.run("My bill is too high.", state={"user:budget": budget}, backend=backend)
        print(f"\nA budget of ${budget} leaves ${result.state['user:budget']}.")
        for (agent, model), used in result.usage.items():
            cost = "a price that nobody gave" if used.cost is None else f"${used.cost}"
            print(f"{agent} asked {model} for {cost}")


if __name__ == "__main__":
    asyncio.run(main())
