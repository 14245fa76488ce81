"""Edge routing: the data lines of a picture (`data_edges`), and the paths of data lines and transfers.

Each line leaves its source at the bottom, runs down a vertical track without boxes, and enters its target
from above. A line that leads up, as in a loop, leaves and enters at the side. The router tries tracks from
the nearest one on, and takes the first free one. Lines of one source may share a track, so a value with many
readers is drawn as one trunk. A general graph layout would not keep the steps in the order of the nesting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.graph import transfers
from adk_fluent.viz.shapes import Canvas, Line, Point, Rectangle

PORT: Final = 24.0
"""Distance in pixels between a box's axis and the points where these lines enter and leave."""
TURN: Final = 26.0
"""Height in pixels in which a line curves from its port to its track."""
CLEAR: Final = 11.0
"""Preferred distance in pixels between a track and a box."""
NEAREST: Final = 8.0
"""Least distance in pixels between a track and a box, or a line of control."""
APART: Final = 7.0
"""Distance in pixels between tracks of different sources."""
MOST_TRIES: Final = 200
"""Most tracks that are tried; beyond that, a line passes behind boxes."""


@dataclass(frozen=True, slots=True)
class DataEdge:
    """State keys or artifacts that one node writes and another one reads.

    Attributes:
        keys: the state keys, sorted.
        files: the filenames of the artifacts, sorted.
    """

    source: str
    target: str
    keys: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def carries(self) -> tuple[str, ...]:
        """The keys and filenames for the label of the line."""
        return (*self.keys, *(name for name in self.files if name not in self.keys))


def writers(facts: Facts) -> dict[tuple[Step, str], list[Step]]:
    """For each step and key that it reads: the last writers in order; in a loop, the step may be one itself.

    The result leaves out writers whose value is overwritten or removed before the read, and functions that do
    not declare their writes. A step that removes a key without reading it is not a reader.
    """
    found: dict[tuple[Step, str], list[Step]] = {}
    for read in sorted(facts.reads, key=lambda read: (read.step.index, read.key)):
        if read.via != "removal":
            known = found.setdefault((read.step, read.key), [])
            known += [writer for writer in facts.flow.writers(read) if writer not in known]
    return found


def data_edges(facts: Facts) -> tuple[DataEdge, ...]:
    """All pairs of a writer and a step that may read its value, in the running order of the readers."""
    keys: dict[tuple[str, str], list[str]] = {}
    files: dict[tuple[str, str], set[str]] = {}
    for (reader, key), sources in writers(facts).items():
        for writer in sources:
            if writer is not reader:
                keys.setdefault((writer.name, reader.name), []).append(key)
    for read in facts.artifacts.reads:
        for saver in facts.artifacts.sources(read):
            files.setdefault((saver.name, read.step.name), set()).add(read.use.filename)
    pairs = dict.fromkeys((*keys, *files))
    return tuple(
        DataEdge(*pair, tuple(keys.get(pair, ())), tuple(sorted(files.get(pair, ())))) for pair in pairs
    )


# --- routing ---------------------------------------------------------------------------------------


class _Track(NamedTuple):
    source: str
    x: float
    top: float
    bottom: float


def add_links(canvas: Canvas, root: Node, facts: Facts) -> None:
    """Draw the data lines and transfers of a tree with unique names whose boxes are on the canvas."""
    router = _Router(canvas)
    for edge in data_edges(facts):
        path = router.path(edge.source, edge.target)
        canvas.lines.append(Line("data", path, True, edge.source, edge.target, edge.carries))
    for node, name in transfers(walk(root)):
        if target := _first_box(canvas, root, name):
            path = router.path(node.name, target)
            canvas.lines.append(Line("transfer", path, True, node.name, target))


def _first_box(canvas: Canvas, root: Node, name: str) -> str | None:
    """The name of the box where control enters the step of that name."""
    node = next((node for node in walk(root) if node.name == name), None)
    while node is not None and node.name not in canvas.boxes:
        node = node.children[0] if node.children else None
    return None if node is None else node.name


class _Router:
    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        boxes = canvas.boxes.items()
        self._boxes = {n: Rectangle(b.x, b.y, b.x + b.width, b.y + b.height) for n, b in boxes}
        self._walls = [*self._boxes.values(), *canvas.uprights]
        self._tracks: list[_Track] = []
        self._arrivals: dict[str, int] = {}

    def path(self, source: str, target: str) -> str:
        """The SVG path of a line from one step to another."""
        start, end = self._boxes[source], self._boxes[target]
        frame = self._canvas.frames.get(source)
        if frame is not None:
            around = Rectangle(frame.x, frame.y, frame.x + frame.width, frame.y + frame.height)
            if not around.holds(end):  # a reader outside sees a composite's values at its end
                start = around
        if end.top >= start.bottom:
            arrivals = self._arrivals[target] = self._arrivals.get(target, -1) + 1
            to_x = _port(end, PORT + APART * arrivals)
            return self._down(source, _port(start, PORT), start.bottom, to_x, end.top)
        if end.bottom > start.top and not (start.left < end.right and end.left < start.right):
            return _sideways(start, end)
        return self._up(source, start, end)

    def _down(self, source: str, from_x: float, from_y: float, to_x: float, to_y: float) -> str:
        turn = min(TURN, (to_y - from_y) / 2)
        top, bottom = from_y + turn, to_y - turn
        if bottom - top < 1:
            return _path((from_x, from_y), [(from_x, top), (to_x, top), (to_x, to_y)])
        x = self._track(source, (from_x, to_x), top, bottom)
        half = turn / 2
        start = [(from_x, from_y + half), (x, top - half), (x, top)]
        return _path((from_x, from_y), start, [(x, bottom + half), (to_x, to_y - half), (to_x, to_y)], bottom)

    def _up(self, source: str, start: Rectangle, end: Rectangle) -> str:
        from_y, to_y = (start.top + start.bottom) / 2, (end.top + end.bottom) / 2
        x = self._track(source, (start.right + 22, end.right + 22), end.top, start.bottom)
        self._canvas.reach(x + 4, to_y)
        bend = min(14.0, abs(from_y - to_y) / 2)
        out = [(x, from_y), (x, from_y), (x, from_y - bend)]
        return _path((start.right, from_y), out, [(x, to_y), (x, to_y), (end.right, to_y)], to_y + bend)

    def _track(self, source: str, wished: tuple[float, float], top: float, bottom: float) -> float:
        """The x of the free track that is nearest to the line's start and end."""
        walls = [wall for wall in self._walls if wall.top < bottom and wall.bottom > top]
        taken = [
            track
            for track in self._tracks
            if track.source != source and track.top < bottom and track.bottom > top
        ]
        candidates = sorted(set(_candidates(wished, walls, taken)), key=lambda x: (_detour(x, wished), x))
        for x in candidates[:MOST_TRIES]:
            if not any(wall.left - NEAREST < x < wall.right + NEAREST for wall in walls) and not any(
                abs(track.x - x) < APART for track in taken
            ):
                break
        else:
            x = wished[0]
        self._tracks.append(_Track(source, x, top, bottom))
        self._canvas.reach(x, top)
        return x


def _candidates(wished: tuple[float, float], walls: list[Rectangle], taken: list[_Track]) -> Iterator[float]:
    yield from wished
    for wall in walls:
        yield from (wall.left - CLEAR, wall.right + CLEAR)
    for track in taken:
        yield from (track.x - APART, track.x + APART)


def _detour(x: float, wished: tuple[float, float]) -> float:
    return abs(x - wished[0]) + abs(x - wished[1])


def _port(box: Rectangle, offset: float) -> float:
    """The x at which lines leave or enter a box: right of the middle, and on its straight edge."""
    return (box.left + box.right) / 2 + min(offset, (box.right - box.left) / 2 - 10)


def _sideways(start: Rectangle, end: Rectangle) -> str:
    """The path of a line between two boxes side by side."""
    from_y, to_y = (start.top + start.bottom) / 2, (end.top + end.bottom) / 2
    from_x, to_x = (start.right, end.left) if end.left >= start.right else (start.left, end.right)
    middle = (from_x + to_x) / 2
    return _path((from_x, from_y), [(middle, from_y), (middle, to_y), (to_x, to_y)])


def _path(
    start: Point, out: Sequence[Point], back: Sequence[Point] = (), straight_to: float | None = None
) -> str:
    """A curve, or a curve, a vertical line down to `straight_to`, and a second curve."""
    text = f"M{_at([start])}C{_at(out)}"
    return text if straight_to is None else f"{text}L{_at([(out[-1][0], straight_to)])}C{_at(back)}"


def _at(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
