"""Runs the benchmarks and prints what came out beside the target; nothing fails when a target is missed."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version

from benchmarks.harness import Benchmark, Figure

NAMES = (
    "startup", "building", "growth", "checking", "adopting", "looking", "estimating", "running", "middleware",
    "transform", "fields", "streaming", "budgets", "crowd", "evaluating", "proving", "hundred", "durable",
    "boundaries", "fleet", "remote",
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("--only", choices=NAMES, action="append", help="run this one; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON, times in seconds")
    options = parser.parse_args(argv)
    machine = f"Python {platform.python_version()}, google-adk {version('google-adk')}"
    results = measure(options.only or NAMES)
    if options.json:
        rows = [{"benchmark": name, **asdict(figure), "met": figure.met} for name, figure in results]
        print(json.dumps({"machine": machine, "figures": rows}, indent=2))
        return 0
    print(f"{machine}; medians, ours and the other in turn\n")
    print(f"{'':<11} {'':<60} {'ours':>10} {'against':>10} {'ratio':>7}  target")
    for name, figure in results:
        print(line(name, figure), flush=True)
    return 0


def measure(names: Iterator[str] | tuple[str, ...] | list[str]) -> Iterator[tuple[str, Figure]]:
    """The figures of these benchmarks, as they come."""
    for name in names:
        figures: Benchmark = import_module(f"benchmarks.{name}").figures
        for figure in figures():
            yield name, figure


def line(name: str, figure: Figure) -> str:
    """One line of the table, and another for its note."""
    ratio = "" if figure.ratio is None else f"{figure.ratio:.3f}"
    ours, other = duration(figure.seconds), duration(figure.reference)
    text = f"{name:<11} {figure.what:<60} {ours:>10} {other:>10} {ratio:>7}"
    if figure.target is not None:
        target = f"{figure.target:g}x" if figure.of == "ratio" else duration(figure.target)
        text += f"  {target}, {'met' if figure.met else 'MISSED'}"
    details = [figure.against and f"against {figure.against}", figure.note]
    if said := "; ".join(filter(None, details)):
        text += f"\n{'':<12}{said}"
    return text


def duration(seconds: float | None) -> str:
    """Seconds as people read them."""
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


if __name__ == "__main__":
    sys.exit(main())
