"""Stored graphs outlive the code that wrote them: what each operation is stored as stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from adk_fluent.ir import from_dict, ir_hash, to_dict
from adk_fluent.state.operations import OPERATIONS
from tests.state.stored import STORED

WRITTEN: Final[dict[str, Any]] = json.loads(
    Path(__file__).with_name("stored.json").read_text(encoding="utf-8")
)
"""What the first version that had them all wrote: the hash, and the graph."""


@pytest.mark.parametrize("called", STORED)
def test_an_operation_is_stored_as_it_always_was(called: str) -> None:
    """The bytes and the hash are those of the first version, and what was read back is equal."""
    node = STORED[called].node
    digest, data = WRITTEN[called]
    assert json.dumps(to_dict(node)) == json.dumps(data)
    assert ir_hash(node) == digest
    assert from_dict(data) == node
    assert json.dumps(to_dict(from_dict(data))) == json.dumps(data)


def test_every_operation_has_a_stored_example() -> None:
    """No operation is left out of the test above."""
    assert set(OPERATIONS) - {""} <= {called.split()[0] for called in STORED}
    assert STORED.keys() == WRITTEN.keys()
