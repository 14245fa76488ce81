"""Stored graphs outlive the code that wrote them: what each operation is stored as stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from adk_fluent.artifacts import operations as artifacts
from adk_fluent.expr.base import Expr
from adk_fluent.ir import from_dict, ir_hash, to_dict
from adk_fluent.state import operations as state
from tests.artifacts.stored import STORED as A_STORED
from tests.state.stored import STORED as S_STORED

TESTS: Final = Path(__file__).parent.parent
OPERATIONS: Final[dict[str, tuple[Mapping[str, object], Mapping[str, Expr[Any]]]]] = {
    "state": (state.OPERATIONS, S_STORED),
    "artifacts": (artifacts.OPERATIONS, A_STORED),
}
"""Folder, and what stands there in `stored.py`."""
WRITTEN: Final[dict[str, dict[str, Any]]] = {
    folder: json.loads((TESTS / folder / "stored.json").read_text(encoding="utf-8")) for folder in OPERATIONS
}
"""What the first version that had them all wrote: the hash, and the graph."""
CASES: Final = [(folder, called) for folder, (_, stored) in OPERATIONS.items() for called in stored]


@pytest.mark.parametrize(("folder", "called"), CASES)
def test_an_operation_is_stored_as_it_always_was(folder: str, called: str) -> None:
    """The bytes and the hash are those of the first version, and what was read back is equal."""
    node = OPERATIONS[folder][1][called].node
    digest, data = WRITTEN[folder][called]
    assert json.dumps(to_dict(node)) == json.dumps(data)
    assert ir_hash(node) == digest
    assert from_dict(data) == node
    assert json.dumps(to_dict(from_dict(data))) == json.dumps(data)


@pytest.mark.parametrize("folder", OPERATIONS)
def test_every_operation_has_a_stored_example(folder: str) -> None:
    """No operation is left out of the test above."""
    known, stored = OPERATIONS[folder]
    assert set(known) - {""} <= {called.split()[0] for called in stored}
    assert stored.keys() == WRITTEN[folder].keys()
