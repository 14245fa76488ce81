"""A pipeline that is cut in three: what crosses each cut, and the same answer from its parts."""

import asyncio

from adk_fluent import Agent
from adk_fluent.distributed import DistributedBackend, inward, split, to_bytes
from adk_fluent.testing import mock_backend

reader = Agent("reader", "gemini-2.5-flash").instruct("List the amounts in the letter.").writes("amounts")
checker = (
    Agent("checker", "gemini-2.5-pro").instruct("Check {amounts}.").writes("verdict").execution_boundary()
)
writer = (
    Agent("writer", "gemini-2.5-flash")
    .instruct("Answer the customer.")
    .reads("verdict")
    .execution_boundary(serialization="protobuf")
)
pipeline = reader >> checker >> writer


async def main() -> None:
    script = {"reader": "3 and 4", "checker": "7 is right", "writer": "Dear Ann, 7 is right."}
    for segment in split(pipeline):
        print(
            f"{segment.name}: in {segment.reads}, out {segment.writes}, hears {sorted(segment.hears.authors)}"
        )

    whole = await pipeline.run("3 + 4 = 7?", backend=mock_backend(script))
    parts = await pipeline.run("3 + 4 = 7?", backend=DistributedBackend(mock_backend(script)))
    print(parts.text, "|", parts.text == whole.text, parts.state == whole.state)

    last = split(pipeline)[-1]
    crossing = inward(last, state=dict(whole.state))
    print("what reaches the writer:", dict(crossing.state), len(to_bytes(crossing, "protobuf")), "bytes")


if __name__ == "__main__":
    asyncio.run(main())
