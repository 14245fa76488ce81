"""The benchmarks run and say what they measured; how fast anything is, no test decides."""

from __future__ import annotations

import gc
import json
from contextlib import nullcontext
from functools import cache
from importlib import import_module

import pytest

from benchmarks import remote
from benchmarks.__main__ import NAMES, line, main
from benchmarks.harness import Figure, in_turn
from tests import processes
from tests.sampling import every, examples

pytestmark = pytest.mark.newest

CLIENTS = remote.CLIENTS
ONCE = {f"{name}.ROUNDS": 1 for name in NAMES}
SMALLEST = {
    "adopting.COUNT": 3,
    "budgets.CALLS": 2,
    "budgets.EVENTS": 3,
    "building.COUNT": 2,
    "checking.SIZES": (10, 20),
    "crowd.SESSIONS": 2,
    "durable.STEPS": 2,
    "estimating.COUNT": 10,
    "evaluating.CASES": 2,
    "fields.TIMES": 10,
    "fleet.SECONDS": 0.01,
    "fleet.WORKERS": (1,),
    "growth.SIZES": (2, 4),
    "harness.PINNED": 1_000_000,
    "looking.COUNT": 10,
    "looking.MANY": 20,
    "middleware.STEPS": 2,
    "proving.EVENTS": 4,
    "remote.CLIENTS": 2,
    "running.STEPS": 2,
    "streaming.EVENTS": 2,
    "streaming.SECONDS": 0.001,
    "transform.STEPS": 2,
}


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of everything, on the smallest trees."""
    for name, value in (ONCE | SMALLEST).items():
        monkeypatch.setattr(f"benchmarks.{name}", value)


@cache
def figures_of(name: str) -> list[Figure]:
    """The figures of a benchmark, which runs once for all tests."""
    return list(import_module(f"benchmarks.{name}").figures())


@pytest.mark.parametrize("name", every(len(NAMES), [*NAMES[1:], NAMES[0]], before_changes=2))
def test_every_benchmark_measures_something(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each benchmark runs what it compares and gives figures of positive time."""
    if name in ("durable", "fleet"):
        server = nullcontext(request.getfixturevalue("temporal"))
        monkeypatch.setattr(f"benchmarks.{name}.DevServer", lambda: server)
    if name in ("middleware", "fleet"):
        processes.prepare()
    figures = figures_of(name)
    assert figures
    assert all(figure.seconds > 0 and (figure.ratio is None or figure.ratio > 0) for figure in figures)


def test_start_up_does_not_import_adk() -> None:
    """The start-up benchmark says that google.adk stayed out of the process."""
    figure, _ = figures_of("startup")
    assert figure.note.endswith("google.adk was not imported")


@pytest.mark.timeout(600)
async def test_a_crowd_of_clients_gets_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many clients as the benchmark has, or a sample, are each answered by one server at the same time."""
    assert CLIENTS == 500
    monkeypatch.setattr(remote, "CLIENTS", examples(CLIENTS))
    gc.disable()  # else a third of the time goes into looking at what all of them hold
    try:
        _, unanswered = await remote.crowd()
    finally:
        gc.enable()
    assert unanswered == 0


def test_json_output_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints every figure of the chosen benchmarks with its target and whether it is met."""
    assert main(["--only", "transform", "--only", "checking", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["benchmark"] for row in data["figures"]] == [
        "transform",
        *["checking"] * 3,
    ]
    assert data["figures"][0]["target"] == 1.2
    assert isinstance(data["figures"][0]["met"], bool)
    assert data["figures"][2]["met"] is None


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt name gets the list of those that exist."""
    with pytest.raises(SystemExit):
        main(["--only", "growht"])
    assert "growth" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("figure", "met", "shown"),
    [
        (Figure(what="x", seconds=0.001, reference=0.001, ratio=1.0, target=1.5), True, "1.000  1.5x, met"),
        (Figure(what="x", seconds=0.003, reference=0.001, ratio=3.0, target=1.5), False, "1.5x, MISSED"),
        (Figure(what="x", seconds=0.07, target=0.06, of="seconds"), False, "60 ms, MISSED"),
        (Figure(what="x", seconds=0.07), None, "70 ms"),
    ],
)
def test_a_figure_stands_beside_its_target(figure: Figure, met: bool | None, shown: str) -> None:
    """A ratio or a time is compared with its target; a figure without a target has no verdict."""
    assert figure.met is met
    assert line("name", figure).rstrip().endswith(shown)


def test_runs_take_turns() -> None:
    """Every round runs all, every other one in reverse, after a round that does not count."""
    order: list[str] = []
    seconds = in_turn([lambda: order.append("a"), lambda: order.append("b")], rounds=2)
    assert "".join(order) == "ababba"
    assert [len(times) for times in seconds] == [2, 2]
