"""Every kind of part that a prompt can have, found by walking the classes, keeps what `Part` promises."""

from __future__ import annotations

from typing import Final

import pytest

from adk_fluent import Agent, P
from adk_fluent.ir import from_dict, to_dict
from adk_fluent.prompt.spec import FromState, Part, PromptSpec, Rewrite, Section, When

EXAMPLES: Final[dict[type[Part], list[PromptSpec]]] = {
    Section: [
        P.role("You sum up."),
        P.task("Read {text}."),
        P.section("House", "Be kind."),
        P.template("{x?}"),
    ],
    FromState: [P.from_state("text", "user:name")],
    When: [P.when("vip", P.task("Greet {name}.")), P.when("vip", P.from_state("name"))],
    Rewrite: [P.task("Read {text}.") | P.compress(max_tokens=5), P.role("A.") | P.adapt(audience="children")],
}
CASES: Final = [(kind, prompt) for kind, prompts in EXAMPLES.items() for prompt in prompts]


def test_every_kind_of_part_has_an_example() -> None:
    """A new kind of part is not held by these tests until it has an example here."""
    assert set(EXAMPLES) == set(Part.__subclasses__())
    assert all(type(prompt.parts[0]) is kind and len(prompt.parts) == 1 for kind, prompt in CASES)


@pytest.mark.parametrize(("kind", "prompt"), CASES, ids=repr)
def test_what_a_part_reads_is_what_its_prompt_reads(kind: type[Part], prompt: PromptSpec) -> None:
    """The keys of a part, in its templates or named by itself, are those that the check knows."""
    (part,) = prompt.parts
    node = Agent("a").instruct(prompt).node
    assert part.access == prompt.access
    assert {read.key for read in node.key_reads()} == part.access.reads
    assert part.templates == prompt.templates
    assert part.needs_model is prompt.needs_model is (kind is Rewrite)
    assert part.depends is not prompt.static


@pytest.mark.parametrize(("kind", "prompt"), CASES, ids=repr)
def test_a_part_is_kept_or_left_out_by_its_names(kind: type[Part], prompt: PromptSpec) -> None:
    """`only` its sections leaves it as it is, `without` them nothing, and `only` others nothing."""
    (part,) = prompt.parts
    assert part.names == prompt.sections
    assert part.chosen(part.names, keep=True) == part
    assert part.chosen(part.names, keep=False) is None
    assert part.chosen(("another",), keep=True) is None
    assert part.chosen(("another",), keep=False) == part


@pytest.mark.parametrize(("kind", "prompt"), CASES, ids=repr)
def test_a_part_is_a_stored_value(kind: type[Part], prompt: PromptSpec) -> None:
    """A part comes back from JSON equal, with the same hash, and `repr` names a factory of `P`."""
    (part,) = prompt.parts
    node = Agent("a").instruct(prompt).node
    assert from_dict(to_dict(node)) == node
    assert hash(part) == hash(part.replace())
    assert "P." in repr(part)


def test_versions_inside_do_not_count() -> None:
    """The fingerprint of a prompt is the same whatever versions its parts were given."""
    inner = P.task("Greet.")
    tagged = P.when("vip", P.versioned(inner, tag="v2"))
    assert tagged.fingerprint == P.when("vip", inner).fingerprint
    assert tagged.parts[0].untagged() == P.when("vip", inner).parts[0]
