"""The badges of the README: what pyproject.toml says, as small pictures that no other server has to draw."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

FOLDER = Path("docs/pictures/badges")
CHARACTER = 6.6  # px, about what a letter of 11 px takes in the fonts below

_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {value}">
<rect width="{width}" height="20" rx="3" fill="#2f5aa8"/>
<path d="M3 0H{left}V20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#3b4252"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{label_at}" y="14">{label}</text><text x="{value_at}" y="14">{value}</text>
</g>
</svg>
"""


def badges(root: Path) -> Mapping[Path, str]:
    """Path below the repository root → picture."""
    declared = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return {FOLDER / f"{name}.svg": badge(*words) for name, words in facts(declared).items()}


def facts(declared: Mapping[str, Any]) -> Mapping[str, tuple[str, str]]:
    """File name → what stands left and right on its badge.

    >>> facts({
    ...     "project": {"requires-python": ">=3.11", "license": "MIT", "dependencies": ["google-adk>=1,<3"]},
    ...     "tool": {"pyright": {"typeCheckingMode": "strict"}},
    ... })["google-adk"]
    ('google-adk', '>=1,<3')
    """
    project = declared["project"]
    (adk,) = (text for text in project["dependencies"] if text.startswith("google-adk"))
    return {
        "python": ("python", project["requires-python"]),
        "google-adk": ("google-adk", adk.removeprefix("google-adk")),
        "typed": ("typed", f"pyright {declared['tool']['pyright']['typeCheckingMode']}"),
        "licence": ("licence", project["license"]),
    }


def badge(label: str, value: str) -> str:
    """A badge as SVG."""
    left, right = (round(len(text) * CHARACTER) + 12 for text in (label, value))
    return _SVG.format(
        width=left + right,
        left=left,
        label=escape(label),
        value=escape(value),
        label_at=left / 2,
        value_at=left + right / 2,
    )
