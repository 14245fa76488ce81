"""Import, a pipeline of 100 nodes and what can be known of it, in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.harness import Figure

ROUNDS = 25
SOURCE = Path(__file__).resolve().parent.parent / "src"

BARE = """
from time import process_time
print(process_time())
"""

PIPELINE = """
import sys
from time import process_time
from adk_fluent import Agent, Pipeline, Route, S
from adk_fluent.ir import walk

steps = [Agent(f"a{i}", "m").instruct(f"Go on from {{k{i}}}.").writes(f"k{i + 1}") for i in range(95)]
pipeline = Pipeline(*steps) >> S.set(n=1) >> S.counter("n") >> Route("n").eq(1, Agent("one"))
"""

OURS = f"""{PIPELINE}
facts = [(node.name, node.access) for node in walk(pipeline.to_ir())]
assert len(facts) == 100, len(facts)
print(process_time(), "google.adk" in sys.modules)
"""

CHECKED = f"""{PIPELINE}
report, flow = pipeline.check(), str(pipeline.data_flow())
assert "google.adk" not in sys.modules
print(process_time())
"""

ADK = """
from time import process_time
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
print(process_time())
"""


def figures() -> Iterator[Figure]:
    """CPU time beyond a bare interpreter, with compiled bytecode, as after the first start."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    start(BARE, env)
    _, _, imported = start(OURS, env)
    rounds = [(start(BARE, env), start(OURS, env)) for _ in range(ROUNDS)]
    for script in (CHECKED, ADK):
        start(script, env)
    looked = [
        (start(BARE, env)[0], start(CHECKED, env)[0], start(ADK, env)[0]) for _ in range(ROUNDS // 4 + 1)
    ]
    wall = median(ours[1] - bare[1] for bare, ours in rounds)
    yield Figure(
        what="import, 100 nodes and their facts, beyond a bare interpreter",
        seconds=median(ours[0] - bare[0] for bare, ours in rounds),
        against="bare interpreter",
        reference=median(bare[0] for bare, _ in rounds),
        target=0.060,
        of="seconds",
        note=f"{wall * 1e3:.0f} ms by the clock; google.adk was {'' if imported else 'not '}imported",
    )
    yield Figure(
        what="import, 100 nodes, check() and data_flow()",
        seconds=median(ours - bare for bare, ours, _ in looked),
        against="importing ADK's agents and runner",
        reference=median(adk - bare for bare, _, adk in looked),
        ratio=median((ours - bare) / (adk - bare) for bare, ours, adk in looked),
        target=0.05,
    )


def start(script: str, env: Mapping[str, str]) -> tuple[float, float, bool]:
    """CPU seconds of a fresh process, seconds by the clock, and whether it imported google.adk."""
    begin = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    seconds = perf_counter() - begin
    cpu, *imported = done.stdout.split()
    return float(cpu), seconds, imported == ["True"]
