"""Import, a pipeline of 100 nodes and its data-flow facts, in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.harness import Figure, in_turn

ROUNDS = 25
SOURCE = Path(__file__).resolve().parent.parent / "src"

SCRIPT = """
import sys
from adk_fluent import Agent, Pipeline, Route, S
from adk_fluent.ir import walk

steps = [Agent(f"a{i}", "m").instruct(f"Go on from {{k{i}}}.").writes(f"k{i + 1}") for i in range(95)]
pipeline = Pipeline(*steps) >> S.set(n=1) >> S.counter("n") >> Route("n").eq(1, Agent("one"))
facts = [(node.name, node.access) for node in walk(pipeline.to_ir())]
assert len(facts) == 100, len(facts)
if "google.adk" in sys.modules:
    sys.exit("google.adk was imported")
"""


def figures() -> Iterator[Figure]:
    """Time beyond a bare interpreter, with compiled bytecode, as after the first start."""
    with tempfile.TemporaryDirectory() as bytecode:
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONPYCACHEPREFIX": bytecode}
        env.pop("PYTHONDONTWRITEBYTECODE", None)

        def start(script: str) -> str:
            done = subprocess.run([sys.executable, "-c", script], env=env, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0 and "google.adk was imported" not in done.stderr:
                raise RuntimeError(done.stderr)
            return done.stderr.strip()

        note = start(SCRIPT) or "google.adk was not imported"
        bare, ours = in_turn((lambda: start("pass"), lambda: start(SCRIPT)), ROUNDS)
    yield Figure(
        what="import, 100 nodes and their facts, beyond a bare interpreter",
        seconds=median(b - a for a, b in zip(bare, ours, strict=True)),
        against="bare interpreter",
        reference=median(bare),
        target=0.060,
        of="seconds",
        note=note,
    )
