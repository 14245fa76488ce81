"""What is said about an expression, as the methods that say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from adk_fluent.adopt.writer import Writer, given_in_order
from adk_fluent.adopt.writing import SourceCall, named, text
from adk_fluent.ir.adk_objects import object_path
from adk_fluent.ir.base import Node


def notes(writer: Writer, node: Node) -> Iterator[SourceCall]:
    """What is said about any expression."""
    for name, value in given_in_order(node.annotations):
        if (write := _NOTES.get(name)) is not None:
            yield from write(writer, node, value)
        elif name not in ("adopted", "context"):
            writer.refuse(node, f"its {name}")


def _said(writer: Writer, node: Node, value: str) -> Iterator[SourceCall]:
    """A note that is a method of its own."""
    method = _SAID.get(value)
    if value == "zero_cost":
        yield SourceCall(".hide", ("aside=True",))
    elif method is None:
        writer.refuse(node, f"visibility {value!r}")
    else:
        yield SourceCall(f".{method}")


def _edge(writer: Writer, node: Node, edge: Any) -> Iterator[SourceCall]:
    """How its answer travels on."""
    if "merge" in edge.given:
        writer.refuse(node, "the merge of its edge")
    options = [
        (name, writer.value(edge.given[name]))
        for name in ("chunk_size", "backpressure")
        if name in edge.given
    ]
    yield SourceCall(".stream_to", (text(edge.buffering), *named(options)))


def _content(writer: Writer, node: Node, content: Any) -> Iterator[SourceCall]:
    """The kinds of content, and the limits, of an agent."""
    for method, kinds, limit in (
        ("accepts", "input_modalities", "max_input_tokens"),
        ("produces_modality", "output_modalities", "max_output_tokens"),
    ):
        shown = tuple(sorted(writer.value(one) for one in content.given.get(kinds, ())))
        longest = content.given.get(limit)
        if shown or longest is not None:
            yield SourceCall(f".{method}", (*shown, *(() if longest is None else (f"{limit}={longest}",))))


def _boundary(writer: Writer, node: Node, boundary: Any) -> Iterator[SourceCall]:
    """Where execution may be cut."""
    options = [(name, writer.of(node, name, value)) for name, value in given_in_order(boundary)]
    yield SourceCall(".execution_boundary", named(options))


def _schema(writer: Writer, node: Node, schema: type) -> Iterator[SourceCall]:
    """What the state may hold."""
    yield SourceCall(".schema", (writer.of(node, "schema", schema),))


def _strict(writer: Writer, node: Node, value: bool) -> Iterator[SourceCall]:
    """Whether warnings count."""
    if value:
        yield SourceCall(".strict")


def _middleware(writer: Writer, node: Node, around: tuple[object, ...]) -> Iterator[SourceCall]:
    """What acts around it: the plugins of an app by the app."""
    yield SourceCall(".middleware", tuple(_around(writer, node, one) for one in around))


def _around(writer: Writer, node: Node, one: object) -> str:
    path = object_path(one)
    if path is None and writer.plugins is not None:
        app, plugins = writer.plugins
        place = next((index for index, plugin in enumerate(plugins) if plugin is one), None)
        if place is not None:
            return f"{writer.names.ref(app)}.plugins[{place}]"
    return writer.names.ref(path) if path is not None else writer.of(node, "middleware", one)


def _resources(writer: Writer, node: Node, resources: tuple[tuple[str, Any], ...]) -> Iterator[SourceCall]:
    """What functions in it are given."""
    yield SourceCall(
        ".inject", named((name, writer.of(node, f"resource {name}", one)) for name, one in resources)
    )


_SAID: Final = {
    "user": "show",
    "internal": "hide",
    "transparent": "transparent",
    "filtered": "filtered",
    "annotated": "annotated",
}
_NOTES: Final[Mapping[str, Callable[[Writer, Node, Any], Iterator[SourceCall]]]] = {
    "visibility": _said,
    "policy": _said,
    "edge": _edge,
    "content": _content,
    "boundary": _boundary,
    "schema": _schema,
    "strict": _strict,
    "middleware": _middleware,
    "resources": _resources,
}
"""What may be said about an expression, each with what writes it; what it sees, an agent says itself."""
