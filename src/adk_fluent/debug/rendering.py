"""Differences for a person: as text for a terminal, and as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.debug.requests import lines_between

if TYPE_CHECKING:
    from adk_fluent.debug.diffing import CallChange, EventChange, EventDiff, RecordingDiff

_SIGNS: Final = {"changed": "~", "moved": ">", "missing": "-", "added": "+"}


def events_text(diff: EventDiff) -> str:
    """One paragraph per event that differs."""
    return "\n".join([line for change in diff.changes for line in _event_lines(change)] or [diff.summary])


def recordings_text(diff: RecordingDiff) -> str:
    """Events, then calls of models, then calls of tools, then errors of runs; each with what changed."""
    parts = [events_text(diff.events)] if diff.events else []
    for title, changes in (("Model calls", diff.requests), ("Tool calls", diff.tools)):
        if changes:
            lines = [line for change in changes for line in _call_lines(change)]
            parts.append("\n".join([f"{title}:", *(f"  {line}" for line in lines)]))
    for run, (old, new) in diff.errors.items():
        parts.append("\n".join([f"Error of run {run}:", *(f"  {line}" for line in lines_between(old, new))]))
    other = [] if diff.same_pipeline else ["The pipelines differ."]
    return "\n".join([*(parts or [diff.summary.removesuffix(" The pipelines differ.")]), *other])


def _event_lines(change: EventChange) -> Iterator[str]:
    yield f"{_SIGNS[change.kind]} {change}"
    for name, (old, new) in change.fields.items():
        lines = list(lines_between(_text(old), _text(new)))
        if name != "content":
            yield f"    {name}:"
        yield from (f"    {line}" for line in lines)


def _call_lines(change: CallChange) -> Iterator[str]:
    yield f"{_SIGNS[change.kind]} {change}"
    for channel, lines in change.channels.items():
        yield f"    {channel}:"
        yield from (f"      {line}" for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


# --- HTML -----------------------------------------------------------------------------------------


_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{border:1px solid #ccc;padding:.4rem;text-align:left;"
    "vertical-align:top}pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".old{background:#fdecea}.new{background:#e8f5e9}"
)


def recordings_html(diff: RecordingDiff) -> str:
    """A page: nothing in it is loaded from elsewhere, and nothing runs."""
    rows = [_call_row(change) for change in (*diff.requests, *diff.tools)]
    rows += [_row(f"run {run}", "changed error", *pair) for run, pair in diff.errors.items()]
    calls = f"<h2>Calls</h2>{_table(rows)}" if rows else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Difference</title>'
        f"<style>{_STYLE}</style></head><body><h1>Difference</h1>{_paragraph(diff.summary)}"
        f"{events_html(diff.events)}{calls}</body></html>"
    )


def events_html(diff: EventDiff) -> str:
    """A table: who, what changed, how much is alike, before and after."""
    if not diff:
        return _paragraph(diff.summary)
    return f"<h2>Events</h2>{_table([_event_row(change) for change in diff.changes])}"


def _table(rows: list[str]) -> str:
    return f"<table><tr><th>who</th><th>what</th><th>before</th><th>after</th></tr>{''.join(rows)}</table>"


def _event_row(change: EventChange) -> str:
    alike = "" if change.similarity is None else f", {change.similarity:.0%} alike"
    if change.fields:
        old, new = ("\n".join(_text(pair[side]) for pair in change.fields.values()) for side in (0, 1))
    else:
        old, new = ((event.content or "") if event else "" for event in (change.before, change.after))
    what = f"{change.kind} {', '.join(change.fields)}{alike}"
    return _row(change.agent, what, old, new)


def _call_row(change: CallChange) -> str:
    lines = [line for each in change.channels.values() for line in each]
    old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
    return _row(f"{change.key}, call {change.call}", f"{change.kind} {', '.join(change.channels)}", old, new)


def _row(who: str, what: str, old: str, new: str) -> str:
    cells = f"<td>{escape(who)}</td><td>{escape(what.strip())}</td>"
    return (
        f'<tr>{cells}<td class="old"><pre>{escape(old)}</pre></td>'
        f'<td class="new"><pre>{escape(new)}</pre></td></tr>'
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"
