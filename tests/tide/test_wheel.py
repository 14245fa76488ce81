"""What is installed with the package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from adk_fluent.tide.scan import Scan, reference
from codegen.store import ROOT
from tests.limits import LIMIT


@pytest.mark.newest
def test_a_wheel_brings_the_reference(tmp_path: Path) -> None:
    """Whoever installs the package has the scan that `adk-fluent tide` compares with."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * LIMIT)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        text = files.read("adk_fluent/tide/reference.json").decode()
    assert Scan.from_json(text) == reference()
