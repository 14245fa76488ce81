"""Where scans, reports and generated modules live in the repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from adk_fluent.tide.scan import REFERENCE, Scan

ROOT: Final = Path(__file__).resolve().parent.parent
SCANS: Final = Path("codegen/scans")
REPORTS: Final = ROOT / "codegen" / "reports"
IR_MODULE: Final = Path("src/adk_fluent/ir/_generated.py")
EXPR_MODULE: Final = Path("src/adk_fluent/expr/_generated.py")
EXPORTS_MODULE: Final = Path("src/adk_fluent/_exports.py")
REFERENCE_FILE: Final = Path("src/adk_fluent/tide") / REFERENCE


def version_key(version: str) -> tuple[int, ...]:
    """Releases in order: `1.9.0` before `1.39.1`.

    >>> sorted(["1.39.1", "1.9.0"], key=version_key)
    ['1.9.0', '1.39.1']
    """
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def stored_scans(root: Path = ROOT) -> list[Scan]:
    """The committed scans, the reference among them, oldest release first."""
    scans = map(Scan.load, [*(root / SCANS).glob("google-adk-*.json"), root / REFERENCE_FILE])
    return sorted(scans, key=lambda s: version_key(s.adk_version))


def replaced(root: Path, installed: Scan) -> Mapping[Path, str]:
    """The reference below `root`, as a stored scan, if `installed` is another release."""
    file = root / REFERENCE_FILE
    if not file.is_file() or (before := Scan.load(file)).adk_version == installed.adk_version:
        return {}
    return {SCANS / f"google-adk-{before.adk_version}.json": before.to_json()}
