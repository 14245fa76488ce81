from __future__ import annotations

import pytest

from adk_fluent.ir import AgentNode
from adk_fluent.ir.state_keys import is_key
from adk_fluent.ir.template import Placeholder, all_keys, placeholders, required_keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("Hello {name}", ["name"]),
        ("{ name }", ["name"]),
        ("{\tname\n}", ["name"]),
        ("{a}{b} {a}", ["a", "b", "a"]),
        ("{user:tier} {app:limit} {temp:draft}", ["user:tier", "app:limit", "temp:draft"]),
        ("{{name}}", ["name"]),
        ("{_private}", ["_private"]),
        ("{größe}", ["größe"]),
        ("{n1}", ["n1"]),
        ("", []),
        ("no braces", []),
        ("{}", []),
        ("{ }", []),
        ("{a.b}", []),
        ("{a-b}", []),
        ("{a b}", []),
        ("{0}", []),
        ("{1st}", []),
        ("{user:}", []),
        ("{:x}", []),
        ("{session:x}", []),
        ("{app:user:x}", []),
        ("{user: tier}", []),
        ("{a}}", ["a"]),
        ("{{a}", ["a"]),
        ("{a", []),
        ("a}", []),
        ('{"json": 1}', []),
        ('{"json": {key}}', ["key"]),
        ("\\{name}", []),
        ("${name}", []),
        ("$ {name}", ["name"]),
        ("{name!r}", []),
        ("{name:>10}", []),
    ],
)
def test_which_braces_are_placeholders(text: str, keys: list[str]) -> None:
    """Only an identifier, with a known scope or none, is a key; everything else in braces is text."""
    assert [found.key for found in placeholders(text)] == keys


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{x?}", Placeholder("x", optional=True)),
        ("{ user:x? }", Placeholder("user:x", optional=True)),
        ("{artifact.cv}", Placeholder("cv", artifact=True)),
        ("{artifact.cv.txt?}", Placeholder("cv.txt", optional=True, artifact=True)),
        ("{artifact.user:a b.png}", Placeholder("user:a b.png", artifact=True)),
    ],
)
def test_optional_keys_and_artifacts(text: str, expected: Placeholder) -> None:
    """A question mark makes a placeholder optional; `artifact.` names a file, whatever its characters."""
    assert placeholders(text) == (expected,)


def test_required_and_all_keys() -> None:
    """Optional keys are read but not required; artifacts are no keys at all."""
    text = "{a} {b?} {artifact.c} {user:d}"
    assert required_keys(text) == {"a", "user:d"}
    assert all_keys(text) == {"a", "b", "user:d"}


def test_a_key_that_is_optional_once_and_required_once_is_required() -> None:
    """One required use is enough to need the key."""
    assert required_keys("{a?} {a}") == {"a"}


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("x", True),
        ("user:x", True),
        ("x?", False),
        ("", False),
        ("users:x", False),
        ("a:b", False),
        (" x", False),
    ],
)
def test_is_key(key: str, valid: bool) -> None:
    """A state key of a template is an identifier behind `app:`, `user:`, `temp:` or nothing."""
    assert is_key(key) is valid


def test_an_agent_reads_the_keys_of_both_instructions() -> None:
    """Keys of both instructions count as reads, artifacts and plain braces do not."""
    node = AgentNode(name="x", instruction="{a} {b?} {c.d}", global_instruction="{user:e} {artifact.f}")
    assert node.reads_keys == {"a", "b", "user:e"}
    assert node.access.reads_known
