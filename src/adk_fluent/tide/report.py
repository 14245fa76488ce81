"""What changed between two releases of google-adk, and what that means to whoever uses adk-fluent."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from adk_fluent.tide.diff import KINDS, Change, Diff
from adk_fluent.tide.methods import EXPRESSIONS, OWN, methods_of
from adk_fluent.tide.scan import OPTIONS, PLUGIN, AdkField

WIDTH: Final = 80
BREAKS: Final = "Code that sets these fields breaks"
LOOK: Final = "Look at each: our methods may need another type or meaning."

_AGENTS: Final = (
    "No method sets these yet; an adk-fluent that is made from this google-adk has one for each. Until then "
    "assign them on the agent that .build() gives."
)
_ADDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(EXPRESSIONS, _AGENTS),
        **dict.fromkeys(
            ("App", "ResumabilityConfig", "EventsCompactionConfig"),
            "adk-fluent does not set these; assign them on the App that .to_app() gives.",
        ),
        "RunConfig": "adk-fluent does not set these; a runner of .to_runner() takes a RunConfig that does, "
        "in run_async(run_config=...).",
        OPTIONS[0]: "google-genai's. .generate() does not know these yet; .generate_content_config() takes a "
        "GenerateContentConfig that has them.",
        PLUGIN[0]: "Plugins of your own can have these; adk-fluent's have none of them.",
    }
)
_REMOVED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            EXPRESSIONS,
            f"{BREAKS}: where a method named here was called, building and running raise CompileError.",
        ),
        OPTIONS[0]: "google-genai's. Where .generate() was given one of these, building and running raise "
        "CompileError.",
        PLUGIN[0]: "ADK no longer calls these hooks of plugins.",
    }
)


def advice(change: Change) -> str:
    """What a user can do about a change, or has to know of it."""
    if change.kind == "added":
        return _ADDED.get(change.cls, "adk-fluent does not set these.")
    return _REMOVED.get(change.cls, f"{BREAKS}.") if change.kind == "removed" else LOOK


def text(report: Diff) -> str:
    """The report for people, at most `WIDTH` columns wide; one line where nothing changed."""
    head = f"google-adk {report.before} to {report.after}: {report.verdict}."
    if report.is_empty:
        return head
    made = f"adk-fluent's fields were made from {report.before}; {report.after} is installed."
    groups: dict[tuple[str, ...], list[str]] = {}
    for cls in dict.fromkeys(change.cls for change in report.changes):
        of_class = [change for change in report.changes if change.cls == cls]
        groups.setdefault(tuple(_class_lines(of_class)), []).append(cls)
    parts = ["\n".join([head, *_wrapped(made)])]
    parts += ["\n".join([*_wrapped(", ".join(classes)), *lines]) for lines, classes in groups.items()]
    if report.not_compared:
        why = (_wrapped(f"{cls}: {reason}", 2) for cls, reason in report.not_compared.items())
        parts.append("\n".join(["Not compared, since it could not be read", *(li for w in why for li in w)]))
    return "\n\n".join(parts)


def document(report: Diff) -> str:
    """The same for machines: sorted, and laid out alike for every release."""
    whole = report.to_dict() | {"verdict": report.verdict}
    for kind in KINDS:
        changes = sorted((c for c in report.changes if c.kind == kind), key=lambda c: (c.cls, c.field))
        whole[kind] = [
            {
                **change.to_dict(),
                "advice": advice(change),
                "methods": list(methods_of(change.cls, change.field)),
                "set_by_adk_fluent": _is_own(change),
            }
            for change in changes
        ]
    return json.dumps(whole, indent=2, sort_keys=True)


def _is_own(change: Change) -> bool:
    return change.field in OWN.get(change.cls, ())


def _class_lines(changes: list[Change]) -> Iterator[str]:
    for kind in KINDS:
        of_kind = [change for change in changes if change.kind == kind]
        if of_kind:
            yield from _wrapped(f"{kind.capitalize()}. {advice(of_kind[0])}", 2)
        for change in of_kind:
            yield from _change_lines(change)


def _change_lines(change: Change) -> Iterator[str]:
    required = " (now required)" if _is_now_required(change) else ""
    if change.kind == "changed":
        yield from _wrapped(f"{change.field}{required}", 4)
        yield from _wrapped(f"was {_type(change.before)}", 6)
        yield from _wrapped(f"is  {_type(change.after)}", 6)
    else:
        told = _type(change.before or change.after)
        yield from _wrapped(f"{change.field}{f': {told}' * (told != 'object')}{required}", 4)
    if change.kind == "added":
        return
    if methods := methods_of(change.cls, change.field):
        yield from _wrapped(f"set by {', '.join(methods)}", 6)
    if _is_own(change):
        yield from _wrapped("adk-fluent itself uses it", 6)


def _is_now_required(change: Change) -> bool:
    before, after = change.before, change.after
    return after is not None and after.required and (before is None or not before.required)


def _type(field: AdkField | None) -> str:
    assert field is not None
    return field.type + ("" if field.default is None else f" = {field.default}")


def _wrapped(text: str, indent: int = 0) -> list[str]:
    first, further = " " * indent, " " * (indent + 2 if indent else 0)
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=further, break_on_hyphens=False)
