from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent
from adk_fluent.ir import from_dict, ir_hash, to_dict
from tests.context.every import SPECS

STORED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "stored.json").read_text())
"""What each of `SPECS` was printed and stored as, and its hash, when it was first released."""


@pytest.mark.parametrize("number", range(len(SPECS)), ids=[row["repr"] for row in STORED])
def test_a_spec_is_printed_stored_and_hashed_as_ever(number: int) -> None:
    """What was stored before is stored with the same bytes now, is read back, and keeps its hash."""
    spec, row = SPECS[number], STORED[number]
    node = Agent("a").context(spec).to_ir()
    assert repr(spec) == row["repr"]
    assert json.dumps(to_dict(node)) == json.dumps(row["json"])
    assert ir_hash(node) == row["hash"]
    again = from_dict(row["json"])
    assert again == node
    assert again.annotations.context == spec
    assert repr(again.annotations.context) == row["repr"]


def test_nothing_is_forgotten() -> None:
    """Each of the specs has what it was stored as."""
    assert len(SPECS) == len(STORED)
