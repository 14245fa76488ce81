"""Findings about state and conversation agree with real runs of thousands of random pipelines."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from google.adk.models.llm_request import LlmRequest

from adk_fluent.analysis.data_flow import Flow
from adk_fluent.analysis.dead_writes import overwritten
from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, UNKNOWN
from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts.certainty import must_fail
from adk_fluent.contracts.checks.tools import unseen_tool_calls
from adk_fluent.errors import ADKFluentError, CycleError
from adk_fluent.inspection import LlmAnatomy, llm_anatomy
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import system
from tests.contracts.pipelines import (
    FILES,
    KEYS,
    VALUES,
    About,
    Failure,
    Sample,
    everything_asked,
    said,
    sample,
    used,
)
from tests.sampling import every

CONFIG = ExecutionConfig(contracts="off")
PER_TEST = 125
CLAIMS = (
    "must", "never", "may and there", "may and missing", "sees", "hides", "may see and does",
    "may see and does not", "forgotten", "tools",
)  # fmt: skip
"""What must have been put to the test often: what is certain, what is excluded, and what is left open."""
SEEDS = every(8, (range(start, start + PER_TEST) for start in range(0, 2000, PER_TEST)), before_changes=8)
"""2,000 pipelines on the newest ADK, 500 before each change, 250 on older ones."""
TALKS = every(2, (range(PER_TEST // 2), range(PER_TEST // 2, 2 * PER_TEST)), before_changes=2)
"""250 pipelines that run twice; a quarter of them before each change."""


@dataclass
class Ran:
    """One run: what its models were asked, and which state key stopped it, if one did."""

    backend: MockBackend
    error: BaseException | None = None


async def run(made: Sample, number: int) -> Ran:
    """Run a pipeline for the first or the second time in its session."""
    ran = Ran(mock_backend(made.responses))
    made.runs[0] = number
    try:
        await made.expression.run(
            said("user", number),
            backend=ran.backend,
            state=made.state if number == 1 else {},
            config=CONFIG,
            session_id="talk",
            session_service=made.sessions,
            artifact_service=made.seen.service,
        )
    except (ADKFluentError, Failure) as error:
        ran.error = error
    return ran


@dataclass
class Tally:
    """The number of times that each claim was compared, so that an empty test cannot pass."""

    claims: Counter[str] = field(default_factory=Counter[str])
    lies: list[str] = field(default_factory=list[str])

    def hold(self, claim: str, fine: bool, where: str) -> None:
        self.claims[claim] += 1
        if not fine:
            self.lies.append(where)


def statuses(flow: Flow, origin: str) -> dict[str, set[str]]:
    """The claimed status of each key that this step, or a copy of it, reads."""
    found: dict[str, set[str]] = {}
    for step in flow.plan.steps:
        if step.origin == origin:
            for read in flow.reads_of(step):
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


def compare_files(seed: int, made: Sample, facts: Facts, tally: Tally) -> None:
    """Every artifact said to be there is, every one said to be deleted is not."""
    before = facts.artifacts.before
    for probe, notes in made.seen.files.items():
        known = [before[step] for step in facts.steps if step.origin == probe and step in before]
        for file in FILES if known else ():
            masks = {here.get(file, UNKNOWN) for here in known}
            for present in notes:
                where = f"seed {seed}: {probe} finds {file}, called {masks}"
                if masks == {PRESENT}:
                    tally.hold("file must", file in present, where)
                elif masks == {ABSENT}:
                    tally.hold("file never", file not in present, where)
                elif masks == {UNKNOWN}:
                    tally.hold("file unsaved", file not in present, where)
                else:
                    tally.claims["file may"] += 1


def compare_missing_files(seed: int, facts: Facts, ran: Ran, tally: Tally) -> None:
    """Fail if an artifact that must exist by the analysis stops a run."""
    message = str(ran.error) if ran.error else ""
    for read in facts.artifacts.reads:
        if f"{read.step.name!r} needs artifact {read.use.filename!r}" in message:
            where = f"seed {seed}: {message} called {read.mask}"
            tally.hold("missing file", read.mask != PRESENT, where)


def compare_writes(seed: int, made: Sample, facts: Facts, tally: Tally) -> None:
    """Fail if a step finds an answer that the analysis calls a dead write."""
    for step, key, by in overwritten(facts):
        if not step.is_model or step.node.written_fields or step.node.output_key != key:
            continue
        answers = [f"{value} {said(step.name)}" for value in VALUES]
        for probe, notes in made.seen.probes.items():
            for present in notes:
                where = f"seed {seed}: {probe} finds {key} of {step.name}, overwritten by {by.name}"
                tally.hold("overwritten", present.get(key) not in answers, where)


def compare_tools(seed: int, facts: Facts, ran: Ran, tally: Tally) -> None:
    """Fail if an agent's request has tool calls that its context hides, or lacks those that it shows."""
    missed = {
        (listener.name, caller.name)
        for listener, callers in unseen_tool_calls(
            facts, [step for step in facts.steps if step.node.given.get("tools")]
        )
        for caller in callers
    }
    asked = ran.backend.calls.items()
    helpers = (requests for name, requests in asked if name not in facts.plan.by_name)
    helped = [everything_asked(request) for requests in helpers for request in requests]
    for listener, requests in asked:
        if listener not in facts.plan.by_name:
            continue
        step = facts.plan.by_name[listener]
        for request in requests:
            results = used_in(request)
            for told in helped:  # text about a tool in a state key is not the call
                results = results.replace(told, "")
            for caller in (other for other in facts.steps if other.origin != step.origin):
                where = f"seed {seed}: {listener} and the tool of {caller.name}"
                there = used(caller.origin) in results
                if (listener, caller.name) in missed:
                    tally.hold("tools left out", not there, where)
                elif there and caller.name != listener:
                    tally.claims["tools seen"] += 1


def used_in(request: LlmRequest) -> str:
    """Everything in a request that tells of tools."""
    parts = [part for content in request.contents for part in content.parts or ()]
    results = [str(part.function_response.response) for part in parts if part.function_response]
    return "\n".join([*results, everything_in(request)])


def compare_talk(seed: int, anatomies: Mapping[str, LlmAnatomy], ran: Ran, number: int, tally: Tally) -> None:
    """Fail if an agent's requests differ from the texts that it sees by the analysis."""
    authors = ("user", *anatomies)
    for listener, anatomy in anatomies.items():
        for request in ran.backend.calls.get(listener, ()):
            text = everything_in(request)
            tools = set(request.tools_dict)
            tally.hold("tools", set(anatomy.tool_names) == tools, f"seed {seed}: {listener} has {tools}")
            for author in authors:
                where = f"seed {seed}, run {number}: {listener} sees {author}"
                there = said(author, number) in text
                if author in anatomy.certain:
                    tally.hold("sees", there, where + " (must)")
                elif author in anatomy.hides:
                    tally.hold("hides", not there, where + " (never)")
                elif author in anatomy.sees:
                    tally.claims["may see and " + ("does" if there else "does not")] += 1
                if number == 2 and author not in anatomy.earlier:
                    tally.hold("forgotten", said(author, 1) not in text, where + " of run 1")


def everything_in(request: LlmRequest) -> str:
    """All text of a request."""
    parts = [part.text or "" for content in request.contents for part in content.parts or ()]
    return "\n".join([*parts, system(request)])


def compare_missing(seed: int, flow: Flow, ran: Ran, tally: Tally) -> None:
    """No run is stopped by a key that is called `must`."""
    message = str(ran.error) if ran.error else ""
    for step in flow.plan.steps:
        if message.startswith(f"Agent {step.name!r} needs state key"):
            for read in flow.reads_of(step):
                if f"state key {read.key!r} " in message:
                    where = f"seed {seed}: {message} called {read.status}"
                    tally.hold("missing", not (read.reached and read.status == "must"), where)


def compare_refused(seed: int, facts: Facts, ran: Ran, tally: Tally) -> None:
    """Each run fails of which the check says that it must, so that it is refused."""
    if why := must_fail(facts):
        tally.hold("refused", ran.error is not None, f"seed {seed}: {why}")


async def hold_against(seeds: range, about: About = "all") -> Tally:
    """Run the pipelines of some seeds and compare."""
    tally = Tally()
    for seed in seeds:
        made = sample(seed, about)
        facts = Facts(made.expression.node, state=made.state)
        flow = facts.flow
        ran = await run(made, 1)
        if isinstance(ran.error, CycleError):
            continue
        tally.claims["pipelines"] += 1
        compare_state(seed, made, flow, tally)
        compare_writes(seed, made, facts, tally)
        compare_tools(seed, facts, ran, tally)
        compare_missing(seed, flow, ran, tally)
        compare_refused(seed, facts, ran, tally)
        compare_files(seed, made, facts, tally)
        compare_missing_files(seed, facts, ran, tally)
        anatomies = llm_anatomy(made.expression)
        compare_talk(seed, anatomies, ran, 1, tally)
        compare_talk(seed, anatomies, await run(made, 2), 2, tally)
    return tally


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: str(seeds.start))
def test_findings_agree_with_runs(seeds: range) -> None:
    """Keys called `must` are there, keys called `never` are not; requests hold the texts they are said to."""
    tally = asyncio.run(hold_against(seeds))
    assert tally.lies == []
    assert tally.claims["pipelines"] > PER_TEST * 0.9
    for claim in CLAIMS:
        assert tally.claims[claim] > PER_TEST // 5, (claim, tally.claims)


@pytest.mark.newest  # what runs twice here is the same on every release
@pytest.mark.parametrize("seeds", TALKS, ids=lambda seeds: str(seeds.start))
def test_findings_about_many_agents_agree_with_runs(seeds: range) -> None:
    """In large pipelines, no step reads a dead write, and no request has a hidden tool call."""
    tally = asyncio.run(hold_against(seeds, "talk"))
    assert tally.lies == []
    for claim in ("overwritten", "tools left out", "tools seen"):
        assert tally.claims[claim] > PER_TEST // 4, (claim, tally.claims)


@pytest.mark.parametrize("seeds", SEEDS[:4], ids=lambda seeds: str(seeds.start))
def test_findings_about_artifacts_agree_with_runs(seeds: range) -> None:
    """Before each step, artifacts exist, or are missing, as the analysis claims."""
    tally = asyncio.run(hold_against(seeds, "files"))
    assert tally.lies == []
    for claim in ("file must", "file never", "file unsaved", "file may"):
        assert tally.claims[claim] > PER_TEST // 5, (claim, tally.claims)
