"""What the checker says about state and conversation is what happens, over thousands of random pipelines."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService

from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts.dataflow import Flow, analyse
from adk_fluent.contracts.reads import reads_of
from adk_fluent.contracts.sight import shown
from adk_fluent.errors import ADKFluentError, CycleError
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import system
from tests.contracts.pipelines import KEYS, Failure, Sample, said, sample

CONFIG = ExecutionConfig(contracts="off")
PER_TEST = 125
SEEDS = [range(start, start + PER_TEST) for start in range(0, 2000, PER_TEST)]


@dataclass
class Ran:
    """One run: what its models were asked, and which state key stopped it, if one did."""

    backend: MockBackend
    error: BaseException | None = None


async def run(made: Sample) -> Ran:
    """Run a pipeline once, in a session of its own."""
    ran = Ran(mock_backend(made.responses))
    try:
        await made.expression.run(
            "hi",
            backend=ran.backend,
            state=made.state,
            config=CONFIG,
            session_service=InMemorySessionService(),
        )
    except (ADKFluentError, Failure) as error:
        ran.error = error
    return ran


@dataclass
class Tally:
    """How often each claim was put to the test, so that an empty test cannot pass."""

    claims: Counter[str] = field(default_factory=Counter[str])
    lies: list[str] = field(default_factory=list[str])

    def hold(self, claim: str, fine: bool, where: str) -> None:
        self.claims[claim] += 1
        if not fine:
            self.lies.append(where)


def statuses(flow: Flow, origin: str) -> dict[str, set[str]]:
    """What is claimed about each key where this step, or a copy of it, reads."""
    found: dict[str, set[str]] = {}
    for step in flow.plan.steps:
        if step.origin == origin:
            for read in reads_of(step):
                found.setdefault(read.key, set()).add(read.status if read.reached else "unreached")
    return found


def compare_state(seed: int, made: Sample, flow: Flow, tally: Tally) -> None:
    """Every key called `must` is there, every key called `never` is not."""
    for probe, notes in made.seen.probes.items():
        claims = statuses(flow, probe)
        for key in KEYS:
            claim = claims.get(key, set())
            for present in notes:
                where = f"seed {seed}: {probe} reads {key}, called {claim}"
                tally.hold("reached", claim != {"unreached"}, where)
                if claim == {"must"}:
                    tally.hold("must", key in present, where)
                elif claim == {"never"}:
                    tally.hold("never", key not in present, where)
                else:
                    tally.claims["may and " + ("there" if key in present else "missing")] += 1


def compare_talk(seed: int, made: Sample, flow: Flow, ran: Ran, tally: Tally) -> None:
    """Every speaker that an agent is said to hear is in its real requests, and no other."""
    origins = {step.origin for step in flow.plan.steps if step.is_model}
    for listener in origins:
        heard = [shown(flow, step) for step in flow.plan.steps if step.origin == listener]
        certain = {name for name in origins if all(_certainly(way, name) for way in heard)}
        possible = {step.origin for way in heard for step in way}
        for request in ran.backend.calls.get(listener, ()):
            text = everything_in(request)
            for speaker in origins:
                where = f"seed {seed}: {listener} hears {speaker}"
                if speaker in certain:
                    tally.hold("heard", said(speaker) in text, where + " (must)")
                elif speaker not in possible:
                    tally.hold("not heard", said(speaker) not in text, where + " (never)")


def everything_in(request: LlmRequest) -> str:
    """All text of a request: its contents, and the context at the end of its instruction."""
    parts = [part.text or "" for content in request.contents for part in content.parts or ()]
    _, _, context = system(request).partition("<conversation_context>")
    return "\n".join([*parts, context])


def _certainly(heard: Any, origin: str) -> bool:
    return any(step.origin == origin and certain for step, certain in heard.items())


def compare_missing(seed: int, flow: Flow, ran: Ran, tally: Tally) -> None:
    """No run is stopped by a key that is called `must`."""
    message = str(ran.error) if ran.error else ""
    for step in flow.plan.steps:
        if message.startswith(f"Agent {step.name!r} needs state key"):
            for read in reads_of(step):
                if f"state key {read.key!r} " in message:
                    where = f"seed {seed}: {message} called {read.status}"
                    tally.hold("missing", not (read.reached and read.status == "must"), where)


async def hold_against(seeds: range) -> Tally:
    """Run the pipelines of some seeds and compare."""
    tally = Tally()
    for seed in seeds:
        made = sample(seed)
        flow = analyse(made.expression.node, made.state)
        ran = await run(made)
        if isinstance(ran.error, CycleError):
            continue
        tally.claims["pipelines"] += 1
        tally.claims["ended well"] += ran.error is None
        compare_state(seed, made, flow, tally)
        compare_talk(seed, made, flow, ran, tally)
        compare_missing(seed, flow, ran, tally)
    return tally


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: str(seeds.start))
def test_what_is_said_is_what_happens(seeds: range) -> None:
    """Keys called `must` are there, keys called `never` are not, and agents hear exactly whom they should."""
    tally = asyncio.run(hold_against(seeds))
    assert tally.lies == []
    assert tally.claims["pipelines"] > PER_TEST * 0.9
    for claim in ("must", "never", "heard", "not heard", "may and there", "may and missing"):
        assert tally.claims[claim] > PER_TEST // 5, (claim, tally.claims)
