"""Records random pipelines, replays them, and says how many replays did something else; run it by itself.

python -m benchmarks.replays [PIPELINES] [SEED]
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

from hypothesis import HealthCheck, given, seed, settings

from adk_fluent.errors import ADKFluentError
from adk_fluent.viz import to_mermaid
from tests.properties.test_replay import Expression, any_pipeline, paces, replayed

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)


def replays(count: int, start: int) -> int:
    """Replay so many random pipelines; the exit code, 1 where one did something else."""
    others: list[str] = []
    done = 0

    @seed(start)
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=SLOW)
    @given(any_pipeline, paces)
    def one(expression: Expression, pace: list[int]) -> None:
        nonlocal done
        done += 1
        try:
            said = asyncio.run(replayed(expression, pace))
        except ADKFluentError as error:
            said = str(error)
        if not said.startswith("No difference: "):
            others.append(f"{to_mermaid(expression.node)}\npaces {pace}\n{said}")

    began = time.perf_counter()
    one()
    print(f"{done} pipelines, two turns each, in {time.perf_counter() - began:.0f} s: {len(others)} differ")
    print("\n\n".join(others))
    return bool(others)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    numbers = [int(each) for each in sys.argv[1:]] + [1000, 0][len(sys.argv) - 1 :]
    sys.exit(replays(*numbers))
