"""State values as the content of files, and back: plain text, JSON, CSV, the sections of Markdown, base64."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, cast

from adk_fluent.artifacts.requests import File, Mime, is_text, kind_of, mime_of
from adk_fluent.errors import on_one_line
from adk_fluent.state.answers import unfenced


def content_of(value: object, filename: str, mime: str | None = None) -> File:
    """Convert a state value to the content of a file.

    Text is written in UTF-8, and bytes as they are. If the type of the file is not text, as for an image, a
    text value must be base64. A list of dicts in a CSV file becomes a table; everything else becomes JSON.

    Args:
        mime: the MIME type; by default the ending of the filename decides, else the class of the value.

    Raises:
        Unfit: the value cannot be written as that type.

    >>> content_of([{"a": 1}], "rows.csv")
    File(data=b'a\\n1\\n', mime='text/csv')
    >>> content_of({"a": 1}, "notes").mime, content_of("hello", "notes").mime
    ('application/json', 'text/plain')
    """
    kind = mime or mime_of(filename) or _usual(value)
    if isinstance(value, bytes):
        return File(value, kind)
    if not is_text(kind):
        return File(_decoded(value, kind), kind)
    return File(_encoded(_text(value, kind)), kind)


def _usual(value: object) -> str:
    return Mime.BYTES if isinstance(value, bytes) else Mime.TEXT if isinstance(value, str) else Mime.JSON


def _text(value: object, mime: str) -> str:
    if isinstance(value, str):
        return value
    write = to_csv if kind_of(mime) == Mime.CSV and isinstance(value, list) else to_json
    return write(cast(object, value))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Unfit(f"has a character at position {error.start} that UTF-8 cannot write") from error


def _decoded(value: object, mime: str) -> bytes:
    """Decode a base64 text to bytes."""
    if not isinstance(value, str):
        raise Unfit(f"is {type(value).__name__} {value!r:.40}, and {mime} needs bytes, or text in base64")
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unfit(f"is text, and {mime} needs bytes, or text in base64") from error


# --- and back -------------------------------------------------------------------------------------


def value_of(file: File, decode: str) -> Any:
    """Convert the content of a file to a state value.

    Args:
        decode: the form of the content, one of `DECODINGS`.

    Raises:
        Unfit: the content does not have that form, or the file is only a link.

    >>> value_of(File(b'[1]', "application/json"), "json")
    [1]
    """
    if file.data is None:
        raise Unfit(f"is a link to {file.mime} in another place, which only a model can follow")
    if decode == "base64":
        return base64.b64encode(file.data).decode()
    try:
        text = file.data.decode()
    except UnicodeDecodeError as error:
        raise Unfit(
            f"is no UTF-8 text but {len(file.data):,} bytes of {file.mime}; decode='base64' takes those"
        ) from error
    return DECODINGS[decode](text)


class Unfit(ValueError):
    """A value has the wrong shape for a format; the message ends a sentence that starts with the value."""


Row = Mapping[str, Any]
Columns = Mapping[object, Any]

_CSV: Final = re.compile(r"```(?:csv)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)
_MARKDOWN: Final = re.compile(r"```(?:markdown|md)[ \t]*\n(.*)\n```", re.DOTALL | re.IGNORECASE)


def _inside(fence: re.Pattern[str], text: str) -> str:
    """Remove the Markdown fence that a model put around the whole text, if there is one."""
    found = fence.fullmatch(text.strip())
    return found[1] if found else text


# --- JSON -----------------------------------------------------------------------------------------


def to_json(value: object) -> str:
    """Write a value as JSON, indented by two spaces.

    Raises:
        Unfit: JSON cannot hold it.

    >>> print(to_json({"a": ["é"]}))
    {
      "a": [
        "é"
      ]
    }
    """
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unfit(f"cannot be written as JSON: {_reason(error)}") from error


def from_json(text: str) -> Any:
    """Read the value from a JSON text, also from one in a Markdown fence.

    Raises:
        Unfit: the text is not JSON; it holds `NaN` or `Infinity`, which JSON does not know; or it is `null`,
            which means a state key that is not set.

    >>> from_json('{"a": [1, null]}')
    {'a': [1, None]}
    """
    try:
        found = json.loads(unfenced(text), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Unfit(f"is no JSON: {_reason(error)}") from error
    if found is None:
        raise Unfit("is null, and a state key cannot hold that")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _reason(error: BaseException) -> str:
    return on_one_line(error)[:200].rstrip(".")


# --- text -----------------------------------------------------------------------------------------


def to_text(value: object) -> str:
    """Write a value as plain text.

    Text stays as it is. A list becomes one line for each item, and a dict one `key: value` line for each
    entry. Values inside them, and all other values, become JSON on one line.

    Raises:
        Unfit: JSON cannot hold it.

    >>> print(to_text({"name": "Ann", "tags": ["a", 1]}))
    name: Ann
    tags: ["a", 1]
    """
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_cell(item)}" for key, item in cast("Row", value).items())
    if isinstance(value, list | tuple):
        return "\n".join(_cell(item) for item in cast("list[object]", value))
    return _cell(value)


def _cell(value: object) -> str:
    """Write a value in a line or a cell: text as it is, `None` as empty text, everything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unfit(f"holds a value that cannot be written as text: {_reason(error)}") from error


# --- CSV ------------------------------------------------------------------------------------------


def to_csv(value: object) -> str:
    """Write a list of dicts as CSV: a line of column names, then one line for each dict.

    The columns are all keys, in the order in which they first appear. A missing value, or `None`, is an empty
    cell; text stays as it is, and everything else becomes JSON. An empty list gives empty text.

    Raises:
        Unfit: the value is not a list of dicts with text keys.

    >>> print(to_csv([{"name": "Ann", "age": 3}, {"name": "Bob", "tags": ["x"]}]), end="")
    name,age,tags
    Ann,3,
    Bob,,"[""x""]"
    """
    rows = _rows(value)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    out = _Lines(newline="")
    writer = csv.writer(out)
    if columns:
        writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return out.getvalue()


class _Lines(io.StringIO):
    """Text whose lines end with a line feed alone.

    Python's CSV writer quotes a carriage return only if its lines end with one. So the writer keeps its line
    end, and this class shortens it.
    """

    def write(self, line: str, /) -> int:
        return super().write(line.removesuffix("\r\n") + "\n")


def _rows(value: object) -> list[Row]:
    if not isinstance(value, list | tuple):
        raise Unfit(f"is no table but {_kind(value)}: CSV is made of a list of dicts")
    rows = cast("list[object]", value)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or not all(isinstance(key, str) for key in cast("Columns", row)):
            raise Unfit(
                f"is no table: row {number} is {_kind(cast(object, row))}, and CSV is made of a list of dicts"
            )
    return cast("list[Row]", rows)


def _kind(value: object) -> str:
    return f"{type(value).__name__} {value!r:.40}"


def from_csv(text: str) -> list[dict[str, str]]:
    """Read the table from a CSV text: a dict of texts for each line after the line of column names.

    Empty lines, and a Markdown fence around the text, do not count. If a line has too few cells, the
    last ones are empty.

    Raises:
        Unfit: a column has no name, two columns have the same name, or a line has too many cells.

    >>> from_csv('name,note\\nAnn,"a, b"\\nBob\\n')
    [{'name': 'Ann', 'note': 'a, b'}, {'name': 'Bob', 'note': ''}]
    """
    reader = csv.reader(io.StringIO(_inside(_CSV, text).removeprefix("\ufeff"), newline=""), strict=True)
    try:
        lines = [(reader.line_num, line) for line in reader if any(cell.strip() for cell in line)]
    except csv.Error as error:
        raise Unfit(f"is no CSV: {_reason(error)} in line {reader.line_num}") from error
    if not lines:
        return []
    columns = [name.strip() for name in lines[0][1]]
    if len(set(columns)) < len(columns) or "" in columns:
        twice = next((name for name in columns if name and columns.count(name) > 1), None)
        fault = "leaves a column without a name" if twice is None else f"names column {twice!r} twice"
        raise Unfit(f"is no table: its first line {fault}")
    table: list[dict[str, str]] = []
    for number, line in lines[1:]:
        if len(line) > len(columns):
            raise Unfit(f"is no table: line {number} has {len(line)} cells for {len(columns)} columns")
        table.append(dict(zip(columns, [*line, *[""] * len(columns)], strict=False)))
    return table


# --- Markdown -------------------------------------------------------------------------------------

_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


def from_markdown(text: str) -> dict[str, str]:
    """Read the sections of a Markdown text: heading → the text below it, up to the next heading of any level.

    They keep their order. Text before the first heading has the key `""`. Sections with the same heading are
    joined by an empty line. Lines inside fenced code are no headings. The text of a section stays Markdown. A
    fence called `markdown` around the whole text does not count.

    >>> from_markdown("Hello.\\n# Risks\\n- none\\n\\n## Costs\\n3 EUR")
    {'': 'Hello.', 'Risks': '- none', 'Costs': '3 EUR'}
    """
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    name, fence = "", ""
    for line in _inside(_MARKDOWN, text).splitlines():
        if (found := _FENCE.match(line)) is not None:
            closes = fence and line.strip().startswith(fence)
            fence = "" if closes else fence or found[1]
        if not fence and (heading := _HEADING.fullmatch(line)) is not None:
            _close(sections, name, lines)
            name, lines = (heading[1] or "").strip(), []
        else:
            lines.append(line)
    _close(sections, name, lines)
    return {name: "\n\n".join(texts) for name, texts in sections.items()}


def _close(sections: dict[str, list[str]], name: str, lines: Iterable[str]) -> None:
    text = "\n".join(lines).strip()
    if text:
        sections.setdefault(name, []).append(text)
    elif name:
        sections.setdefault(name, [])


# --- the decoders ---------------------------------------------------------------------------------

DECODINGS: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": lambda text: text,
    "json": from_json,
    "csv": from_csv,
    "markdown": from_markdown,
    "base64": lambda text: text,
}
"""The decoders of file content, by the name that a user writes in `decode=`."""

KINDS: Final[Mapping[str, object]] = {"json": None, "csv": list, "markdown": dict}
"""The type of a decoder's result; text if it is not in this table, `None` if only a run shows the type."""
