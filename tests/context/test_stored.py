from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent
from adk_fluent.errors import CodecError
from adk_fluent.ir import from_dict, ir_hash, to_dict
from tests.context.every import SPECS

STORED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "stored.json").read_text())
"""What each of `SPECS` was printed and stored as, and its hash, when it was first released."""


@pytest.mark.parametrize("number", range(len(SPECS)), ids=[row["repr"] for row in STORED])
def test_a_spec_is_printed_stored_and_hashed_as_ever(number: int) -> None:
    """A stored spec of the first release has the same bytes today, is read back, and keeps its hash."""
    spec, row = SPECS[number], STORED[number]
    node = Agent("a").context(spec).to_ir()
    assert repr(spec) == row["repr"]
    assert json.dumps(to_dict(node)) == json.dumps(row["json"])
    assert ir_hash(node) == row["hash"]
    again = from_dict(row["json"])
    assert again == node
    assert again.annotations.context == spec
    assert repr(again.annotations.context) == row["repr"]


def context(**values: Any) -> dict[str, Any]:
    """A spec as a file may hold it."""
    return {"$value": {"$ref": "adk_fluent.context.spec:Context"}, **values}


def pairs(*params: tuple[str, Any]) -> dict[str, Any]:
    """Parameters as a file holds them."""
    return {"$tuple": [{"$tuple": list(pair)} for pair in params]}


NONE = context(op="none")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (context(op="non"), "there is no context operation 'non'"),
        (context(op=["none"]), "unhashable"),
        (context(), "needs op"),
        (context(op="window"), "Window needs n"),
        (context(op="window", params=pairs(("m", 1))), "Window has no field 'm'"),
        (context(op="none", other=1), "has no field 'other'"),
        (context(op="sum"), "'sum' has other parts"),
        (context(op="when", params=pairs(("test", "k"))), "'when' has other parts"),
        (context(op="sum", parts={"$tuple": [NONE, "none"]}), "'sum' has other parts"),
        (context(op="none", parts={"$tuple": [NONE]}), "'none' has other parts"),
    ],
)
def test_invalid_stored_specs_are_refused(wrong: dict[str, Any], message: str) -> None:
    """A file with an operation that does not exist, or lacks something, is one clear error."""
    row = json.loads(json.dumps(STORED[0]["json"]))
    row["root"]["annotations"]["context"] = wrong
    with pytest.raises(CodecError, match=message) as caught:
        from_dict(row)
    assert "\n" not in str(caught.value)


def test_nothing_is_forgotten() -> None:
    """Each of the specs has what it was stored as."""
    assert len(SPECS) == len(STORED)
