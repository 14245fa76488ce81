from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import LIMIT

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[2]


def test_types_are_what_users_rely_on() -> None:
    """Pyright agrees with every `assert_type` in this folder and finds every mistake that is marked there."""
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        "tests/typing",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * LIMIT)
    report = json.loads(done.stdout)
    found = [
        f"{Path(entry['file']).name}:{entry['range']['start']['line'] + 1}: {entry['message']}"
        for entry in report["generalDiagnostics"]
    ]
    assert found == []
    assert report["summary"]["filesAnalyzed"] == len(list((ROOT / "tests/typing").glob("*.py")))
