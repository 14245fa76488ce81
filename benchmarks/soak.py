"""Runs a pipeline with all built-in middleware many times and prints what memory it held; run it by itself.

python -m benchmarks.soak [RUNS]
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from typing import Any

from adk_fluent import Agent
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.testing import mock_backend
from tests.middleware.everything import everything

AT_ONCE = 200


def resident() -> float:
    """Megabytes of memory that this process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def soak(count: int) -> None:
    """Run so many times, 200 at once, each with personal data and every third with a failure."""
    agent = Agent("a", "m").middleware(*everything())

    def answer(request: Any) -> Any:
        number = int(request.contents[0].parts[0].text.split()[1])
        return ConnectionError("down") if number % 3 == 0 else f"Dear [EMAIL_1], case {number}"

    async def one(number: int) -> None:
        prompt = f"case {number} of user{number}@example.org"
        said = await agent.ask_async(prompt, state={"budget": "9"}, backend=backend)
        assert said.startswith(f"Dear user{number}@example.org, "), said

    print(f"{'runs':>6} {'seconds':>8} {'resident MB':>12} {'objects':>10} {'runs kept':>10}")
    start = time.perf_counter()
    for first in range(0, count, AT_ONCE):
        # A mock keeps every request it gets, so it is as young as the round.
        backend = mock_backend({"a": answer, "other": "Dear [EMAIL_1], another model"})
        await asyncio.gather(*(one(number) for number in range(first, min(first + AT_ONCE, count))))
        done = min(first + AT_ONCE, count)
        if done % 1000 == 0 or done == count:
            gc.collect()
            objects = len(gc.get_objects())
            seconds = time.perf_counter() - start
            print(
                f"{done:>6} {seconds:>8.1f} {resident():>12.1f} {objects:>10} {runs.kept()[0]:>10}",
                flush=True,
            )


if __name__ == "__main__":
    asyncio.run(soak(int(sys.argv[1]) if len(sys.argv) > 1 else 5000))
