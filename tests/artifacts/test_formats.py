"""State values as text and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adk_fluent.artifacts.formats import (
    DECODINGS,
    Unfit,
    content_of,
    from_csv,
    from_json,
    from_markdown,
    to_csv,
    to_json,
    to_text,
    value_of,
)
from adk_fluent.artifacts.requests import NAMES, File, fault_of, is_mime, is_text, mime_of, stem
from tests.hostile import UNITS

plain = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
names = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=5)
json_values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
)
cells = plain.map(str.strip)
tables = st.lists(names, min_size=1, max_size=3, unique=True).flatmap(
    lambda columns: st.lists(st.fixed_dictionaries(dict.fromkeys(columns, cells)), max_size=4)
)


@given(json_values)
def test_json_goes_both_ways(value: Any) -> None:
    """A value that is written as JSON is read back equal, with or without a fence."""
    assert from_json(to_json(value)) == value
    assert from_json(f"```json\n{to_json(value)}\n```") == value


@given(tables)
@example([{"a": "one\rtwo"}, {"a": "one\ntwo"}, {"a": "one\r\ntwo"}, {"a": 'a "\r" b'}])
def test_tables_go_both_ways(table: list[dict[str, str]]) -> None:
    """A list of dicts of texts is the same after CSV and back, but for rows of which nothing is left."""
    kept = [row for row in table if any(row.values())]
    assert from_csv(to_csv(table)) == kept
    assert from_csv(f"```csv\n{to_csv(table)}\n```") == kept


@pytest.mark.parametrize("text", [*UNITS, *(unit * 50 for unit in UNITS), "".join(UNITS)])
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    """Whatever a model writes, reading it gives a value or one line that says what is wrong."""
    assert to_text(text) == text
    assert "".join(from_markdown(text)) is not None
    for read in (from_json, from_csv):
        told = refusal(read, text)
        assert "\n" not in told
        assert told[:3] in ("", "is ")


def refusal(read: Callable[[str], object], text: str) -> str:
    """The message for a text that cannot be read; empty if it can."""
    try:
        read(text)
    except Unfit as error:
        return str(error)
    return ""


PLAIN: list[tuple[object, str]] = [
    ("as it is", "as it is"),
    (3, "3"),
    (True, "true"),
    ([1, "a", {"b": None}], '1\na\n{"b": null}'),
    ({"name": "Ann", "tags": ["é"], "none": None}, 'name: Ann\ntags: ["é"]\nnone: '),
    ([], ""),
]


@pytest.mark.parametrize(("value", "text"), PLAIN)
def test_values_as_plain_text(value: object, text: str) -> None:
    """A list has a line for each item, a dict one for each entry; what is inside them is JSON."""
    assert to_text(value) == text


TABLES: list[tuple[list[dict[str, Any]], str]] = [
    ([], ""),
    ([{}], ""),
    ([{"a": 1, "b": "x,y"}, {"c": [1], "a": None}], 'a,b,c\n1,"x,y",\n,,[1]\n'),
    ([{"a": True, "b": 'say "hi"\nnow'}], 'a,b\ntrue,"say ""hi""\nnow"\n'),
]


@pytest.mark.parametrize(("rows", "text"), TABLES)
def test_tables_as_csv(rows: list[dict[str, Any]], text: str) -> None:
    """The columns are all keys in order of appearance; text stands as it is, everything else as JSON."""
    assert to_csv(rows) == text


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("a,b", []),
        ("\ufeffa, b\n1,2\n\n3\n", [{"a": "1", "b": "2"}, {"a": "3", "b": ""}]),
        ('a\r\n"x\r\ny"\r\n', [{"a": "x\r\ny"}]),
        ("```\nname\nAnn\n```", [{"name": "Ann"}]),
    ],
)
def test_csv_as_tables(text: str, rows: list[dict[str, str]]) -> None:
    """The first line names the columns; empty lines and a fence do not count, missing cells are empty."""
    assert from_csv(text) == rows


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("", {}),
        ("no heading", {"": "no heading"}),
        ("# A #\n## B\n\nb\n\n### C", {"A": "", "B": "b", "C": ""}),
        ("intro\n# A\none\n# A\ntwo", {"": "intro", "A": "one\n\ntwo"}),
        ("# A\n```py\n# a comment\n```\nend", {"A": "```py\n# a comment\n```\nend"}),
        ("# A\n~~~\n```\n# no\n~~~\n# B", {"A": "~~~\n```\n# no\n~~~", "B": ""}),
        ("#no heading\n    # nor this", {"": "#no heading\n    # nor this"}),
        ("```markdown\n# A\na\n```", {"A": "a"}),
        ("```py\nx\n```\n# A\n```py\ny\n```", {"": "```py\nx\n```", "A": "```py\ny\n```"}),
    ],
)
def test_markdown_as_sections(text: str, sections: dict[str, str]) -> None:
    """Heading → the text below it, in order; lines in fenced code are no headings."""
    assert from_markdown(text) == sections
    assert list(from_markdown(text)) == list(sections)


def loop() -> list[Any]:
    """A list that holds itself."""
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: to_json(object), "cannot be written as JSON: Object of type type is not JSON serializable"),
        (lambda: to_json(float("nan")), "cannot be written as JSON: Out of range float values"),
        (lambda: to_json(loop()), "cannot be written as JSON: Circular reference detected"),
        (lambda: to_text([{1}]), "holds a value that cannot be written as text: Object of type set"),
        (lambda: from_json("{'a': 1}"), "is no JSON: Expecting property name"),
        (lambda: from_json("[NaN]"), "is no JSON: NaN is no JSON"),
        (lambda: from_json(" null "), "is null, and a state key cannot hold that"),
        (lambda: to_csv("a,b"), "is no table but str 'a,b': CSV is made of a list of dicts"),
        (lambda: to_csv([{"a": 1}, 2]), "is no table: row 2 is int 2, and CSV is made of a list of dicts"),
        (lambda: to_csv([{1: 1}]), "is no table: row 1 is dict {1: 1}, and"),
        (lambda: from_csv("a,a\n1,2"), "is no table: its first line names column 'a' twice"),
        (lambda: from_csv("a,,b"), "is no table: its first line leaves a column without a name"),
        (lambda: from_csv("a\n1,2"), "is no table: line 2 has 2 cells for 1 columns"),
        (lambda: from_csv('a\n"x'), "is no CSV: unexpected end of data in line 2"),
        (lambda: content_of({"a"}, "x.json"), "cannot be written as JSON"),
        (lambda: content_of("\ud800", "x.md"), "has a character at position 0 that UTF-8 cannot write"),
        (lambda: content_of("no base64!", "x.png"), "is text, and image/png needs bytes, or text in base64"),
        (lambda: content_of(3, "x.png"), "is int 3, and image/png needs bytes, or text in base64"),
        (lambda: value_of(File(b"\xff", "image/png"), "text"), "is no UTF-8 text but 1 bytes of image/png;"),
        (lambda: value_of(File(None, "video/mp4"), "base64"), "is a link to video/mp4 in another place"),
    ],
)
def test_values_of_another_shape_are_refused(call: Any, message: str) -> None:
    """Each value that has not the shape it needs is refused with the end of one sentence."""
    with pytest.raises(Unfit) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "filename", "mime", "data", "kind"),
    [
        ("é", "a.md", None, "é".encode(), "text/markdown"),
        ("é", "a", None, "é".encode(), "text/plain"),
        (b"\x00", "a", None, b"\x00", "application/octet-stream"),
        ({"a": 1}, "a", None, b'{\n  "a": 1\n}', "application/json"),
        ([{"a": 1}], "a.csv", None, b"a\n1\n", "text/csv"),
        ([{"a": 1}], "a.md", "text/csv; charset=utf-8", b"a\n1\n", "text/csv; charset=utf-8"),
        ({"a": 1}, "a.csv", None, b'{\n  "a": 1\n}', "text/csv"),
        ("AAE=", "a.png", None, b"\x00\x01", "image/png"),
        ("not json", "a.json", None, b"not json", "application/json"),
    ],
)
def test_values_as_content(value: object, filename: str, mime: str | None, data: bytes, kind: str) -> None:
    """The type decides how a value is written; by default the filename decides the type."""
    assert content_of(value, filename, mime) == File(data, kind)


@given(json_values)
def test_content_goes_both_ways(value: Any) -> None:
    """`decode="json"` returns the value that was saved as JSON; bytes come back in base64."""
    file = content_of(value, "x.json")
    if not isinstance(value, str):
        assert value_of(file, "json") == value
    assert content_of(value_of(file, "base64"), "x.bin").data == file.data


def test_every_decoding_has_its_way() -> None:
    """Each decoding reads what it is for."""
    texts = {"text": "t", "json": "[1]", "csv": "a\n1", "markdown": "# A", "base64": "t"}
    read = {name: value_of(content_of(text, "x"), name) for name, text in texts.items()}
    assert read == {"text": "t", "json": [1], "csv": [{"a": "1"}], "markdown": {"A": ""}, "base64": "dA=="}
    assert read.keys() == DECODINGS.keys()


def test_every_named_type_is_one() -> None:
    """Each name in `A.mime` stands for a MIME type, which a file with such an ending has."""
    for name, mime in NAMES.items():
        assert is_mime(mime), name
        assert name == "BYTES" or name == "TEXT" or mime_of(f"x.{name.lower()}") == mime
    assert [mime_of(name) for name in ("a.txt", "a.md", "a.jpg", "a.bin", "a.unknown", "md")] == [
        "text/plain", "text/markdown", "image/jpeg", "application/octet-stream", None, None,
    ]  # fmt: skip
    assert not any(map(is_mime, ("", "text", "text/", "/x", "nonsense/x", "text/plain ", "a b/c")))
    assert all(is_text(NAMES[name]) for name in ("YAML", "SVG", "XML"))
    assert not any(is_text(NAMES[name]) for name in ("PDF", "DOCX", "PNG"))


@pytest.mark.parametrize(
    ("filename", "fault"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("user:", "is empty"),
        ("a\nb", "has a character that cannot be printed"),
        ("../a", "leads out of its folder"),
        ("user:a/../../b", "leads out of its folder"),
        ("/etc/x", "leads out of its folder"),
        ("a\\..\\b", "leads out of its folder"),
        ("a..b.md", ""),
        ("é ü.md", ""),
        ("user:a/b.md", ""),
    ],
)
def test_names_that_no_artifact_can_have(filename: str, fault: str) -> None:
    """An empty name, and one that leads elsewhere, is refused before ADK sees it."""
    assert fault_of(filename) == fault


def test_the_key_of_a_file() -> None:
    """The default key of a file is its name without scope, folders and ending."""
    assert [stem(name) for name in ("a.md", "user:b/c.tar.gz", "d", ".env")] == ["a", "c.tar", "d", ".env"]
