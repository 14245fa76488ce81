"""The spans of recorded runs, where the program has set up OpenTelemetry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final
from weakref import WeakSet


class Spans:
    """Spans that end while somebody watches, of the traces that were noted."""

    def __init__(self) -> None:
        self._traces: set[int] = set()
        self._ended: list[Any] = []

    def clear(self) -> None:
        """Forget them."""
        self._traces.clear()
        self._ended.clear()

    def watch(self) -> None:
        """Take note of the trace that is on, and of its spans as they end."""
        _processor(self)
        self.note()

    def note(self) -> None:
        """Take note of the trace that is on."""
        from opentelemetry import trace

        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            self._traces.add(context.trace_id)

    def ended(self, span: Any) -> None:
        """Keep a span that has ended, if it is of a trace that was noted."""
        if span.context.trace_id in self._traces:
            self._ended.append(span)

    def found(self, *, content: bool) -> list[Any]:
        """The spans so far, as JSON, in the order in which they began.

        Args:
            content: whether attributes may stay that could say what was said.
        """
        ended = sorted(self._ended, key=lambda span: span.start_time)
        return [_data(span, content) for span in ended]


_WORDLESS: Final = re.compile(
    r"adk_fluent\..*|gen_ai\.(system|(operation|provider|agent|tool)\.name|(request|response)\.model"
    r"|response\.finish_reasons|conversation\.id|tool\.(type|call\.id))|gcp\.vertex\.agent\.\w+_id"
)
"""Attributes whose texts are names and ids. ADK before 2.x puts whole requests and answers into others."""


def _data(span: Any, content: bool) -> Mapping[str, Any]:
    parent = span.parent
    return {
        "name": span.name,
        "trace_id": f"{span.context.trace_id:032x}",
        "span_id": f"{span.context.span_id:016x}",
        "parent_id": None if parent is None else f"{parent.span_id:016x}",
        "start": span.start_time,
        "end": span.end_time,
        "attributes": {
            key: list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType]  # of many types
            for key, value in dict(span.attributes or {}).items()
            if content or isinstance(value, bool | int | float) or _WORDLESS.fullmatch(key)
        },
        "status": span.status.status_code.name,
    }


class _Processor:
    """What the provider of this process tells of spans; one for all who watch."""

    def __init__(self) -> None:
        self.watching: WeakSet[Spans] = WeakSet()

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """A span began."""

    def on_end(self, span: Any) -> None:
        """A span ended."""
        for each in list(self.watching):
            each.ended(span)

    def _on_ending(self, span: Any) -> None:
        """A span is about to end; newer SDKs ask."""

    def shutdown(self) -> None:
        """Nothing is held."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is held back."""
        return True


_processors: Final[dict[int, tuple[Any, _Processor]]] = {}
_guard: Final = Lock()


def _processor(spans: Spans) -> None:
    """Let the provider of this process tell `spans`, if it is one that can."""
    from opentelemetry import trace

    provider: Any = trace.get_tracer_provider()
    add = getattr(provider, "add_span_processor", None)
    if add is None:
        return
    with _guard:
        if id(provider) not in _processors:
            _processors[id(provider)] = (provider, _Processor())
            add(_processors[id(provider)][1])
        _processors[id(provider)][1].watching.add(spans)
