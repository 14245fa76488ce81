"""What changed between two releases, as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.tide.diff import Change, Diff
from adk_fluent.tide.report import BREAKS, LOOK
from adk_fluent.tide.scan import AdkField


def markdown(report: Diff) -> str:
    """The report for people."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Diff) -> Iterator[str]:
    yield f"# google-adk {report.before} to {report.after}"
    yield ""
    yield f"{report.verdict}."
    sections = (
        ("Added", report.added, "Taken over by `python -m codegen write`."),
        ("Removed", report.removed, f"{BREAKS}; decide what takes their place."),
        ("Changed", report.changed, LOOK),
    )
    for title, changes, advice in sections:
        if changes:
            yield from (
                "",
                f"## {title}",
                "",
                advice,
                "",
                "| class | field | before | after |",
                "| --- " * 4 + "|",
            )
            yield from map(_row, changes)
    if report.not_compared:
        yield from ("", "## Not compared", "")
        yield from (f"- {cls}: {why}" for cls, why in report.not_compared.items())


def _row(change: Change) -> str:
    note = " (required)" if change.kind == "added" and not change.auto_mergeable else ""
    return f"| {change.cls} | `{change.field}`{note} | {_cell(change.before)} | {_cell(change.after)} |"


def _cell(field: AdkField | None) -> str:
    if field is None:
        return ""
    shown = f"`{field.type}`" + ("" if field.default is None else f" = `{field.default}`")
    return shown.replace("|", "\\|")
