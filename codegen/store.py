"""Where scans, reports and generated modules live in the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .scan import Scan

ROOT: Final = Path(__file__).resolve().parent.parent
SCANS: Final = ROOT / "codegen" / "scans"
REPORTS: Final = ROOT / "codegen" / "reports"
IR_MODULE: Final = Path("src/adk_fluent/ir/_generated.py")
EXPR_MODULE: Final = Path("src/adk_fluent/expr/_generated.py")


def version_key(version: str) -> tuple[int, ...]:
    """Releases in order: `1.9.0` before `1.39.1`.

    >>> sorted(["1.39.1", "1.9.0"], key=version_key)
    ['1.9.0', '1.39.1']
    """
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def stored_scans(folder: Path = SCANS) -> list[Scan]:
    """The committed scans, oldest release first."""
    scans = map(Scan.load, folder.glob("google-adk-*.json"))
    return sorted(scans, key=lambda s: version_key(s.adk_version))
