"""The check of prose finds each kind of fault in source and pages, and only in packages that are finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from docgen import prose

GLOSSARY = """
| term | meaning | do not write |
| --- | --- | --- |
| chunk | a part | bit, bits |

A riddle: *nobody*.
"""


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("queue.py", '"""Queues of work."""\n\nx = 1 if None is None else 2', None),
        ("queuing.py", '"""Queues of work."""', 'queuing.py:1: the name ends in "ing"'),
        ("queue.py", '"""What waits."""', 'queue.py:1: the docstring starts with "What"'),
        ("queue.py", 'class Queue:\n    """Who waits."""', 'queue.py:1: the docstring starts with "Who"'),
        ("queue.py", '"""Queues."""\n\n# Nobody waits.', 'queue.py:3: "Nobody": see'),
        ("queue.py", '"""Queues."""\n\nERROR = "two bits"', 'queue.py:3: "bits": see'),
    ],
)
def test_each_fault_is_found(
    name: str, text: str, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Openers, words of the glossary and names of modules; plain prose passes."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = list(prose.faults(tmp_path / name, prose.words(GLOSSARY)))
    if fault is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith(fault)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# How to wait\n\nOne *chunk* waits.\n\n- When a model fails, `bits` stay.", None),
        ("```text\nbits\n```\n[more](bits.md#nobody)", None),
        ("# Waiting\n\nTwo bits wait.", 'page.md:3: "bits": see'),
        ("```text\nbits\n```\n\nNobody waits.", 'page.md:5: "Nobody": see'),
        ("## What waits", 'page.md:1: it starts with "What"'),
        ("- Who waits.", 'page.md:1: it starts with "Who"'),
        ("1. Which waits.", 'page.md:1: it starts with "Which"'),
    ],
)
def test_each_fault_of_a_page_is_found(
    text: str, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report refused words and riddles at the start of headings and items, outside code and link targets."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    found = list(prose.page_faults(tmp_path / "page.md", prose.words(GLOSSARY)))
    assert [each.startswith(fault or "") for each in found] == [True] * (fault is not None)


def test_all_pages_are_checked() -> None:
    """Find the pages of all folders and the top level; the glossary, which names the words, is left out."""
    found = {path.relative_to(prose.ROOT).as_posix() for path in prose.pages()}
    assert {
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/index.md",
        "docs/concepts/state.md",
    } <= found
    assert "docs/contribute/glossary.md" not in found


@pytest.mark.parametrize(
    ("docstring", "fault"),
    [
        ("Two chunks wait.", None),
        ("What waits.", 'test_queue.py:1: the docstring starts with "What"'),
        ("It waits.", 'test_queue.py:1: the docstring starts with "It"'),
        ("Two bits wait.", 'test_queue.py:1: "bits": see'),
    ],
)
def test_each_fault_of_a_tests_docstring_is_found(
    docstring: str, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report question words, pronouns and refused words in docstrings of tests, but not in their texts."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    path = tmp_path / "test_queue.py"
    path.write_text(f'def test_a_queue():\n    """{docstring}"""\n    assert "bits"', encoding="utf-8")
    found = list(prose.faults_in_tests(path, prose.words(GLOSSARY)))
    assert [each.startswith(fault or "") for each in found] == [True] * (fault is not None)


def test_a_class_name_means_one_thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two public classes with one name are a fault that names both places; private ones may share a name."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("class Call: ...\nclass _Own: ...", encoding="utf-8")
    found = list(prose.same_classes([tmp_path / "a.py", tmp_path / "b.py"]))
    assert found == ["a.py:1: another class is called Call, too: b.py:1"]


def test_what_is_excepted_exists() -> None:
    """Every exception is still needed: the package to rewrite later exists, and so does the text to keep."""
    assert [each for each in prose.LATER if not (prose.SOURCE / each).exists()] == []
    assert [each for each in prose.TESTS_LATER if not (prose.TESTS / each).exists()] == []
    texts = [path.read_text(encoding="utf-8") for path in prose.modules([])]
    assert [kept for kept in prose.KEPT if not any(kept in text for text in texts)] == []
    refused = prose.words(prose.GLOSSARY.read_text(encoding="utf-8"))
    assert [kept for kept in prose.KEPT if refused.search(kept) is None] == []


def test_a_text_that_must_stay_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of `KEPT`, such as a request that recorded runs hold, may have a refused word."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    text = f'"""Queues."""\n\nREQUEST = "{next(iter(prose.KEPT))}"'
    (tmp_path / "queue.py").write_text(text, encoding="utf-8")
    refused = prose.words(prose.GLOSSARY.read_text(encoding="utf-8"))
    assert list(prose.faults(tmp_path / "queue.py", refused)) == []
