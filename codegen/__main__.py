"""`python -m codegen`: write, check, scan, diff, pictures. Run it from the repository root."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from adk_fluent.tide.diff import diff
from adk_fluent.tide.scan import Scan, scan

from .markdown import markdown
from .render_exports import render_exports
from .render_expr import render_expr
from .render_ir import NODES, OPTIONS, render_ir
from .render_packages import PAGE, render_page
from .store import (
    EXPORTS_MODULE,
    EXPR_MODULE,
    IR_MODULE,
    REFERENCE_FILE,
    ROOT,
    replaced,
    stored_scans,
    version_key,
)


def installed_adk() -> Scan:
    """The scan of the installed google-adk, which must have what the modules are made of."""
    found = scan()
    for name in (*NODES, OPTIONS[0]):
        if name in found.unavailable:
            raise SystemExit(f"google-adk {found.adk_version} has no {name}: {found.unavailable[name]}")
    return found


def modules(installed: Scan) -> Mapping[Path, str]:
    """What is generated for a scan, itself included: path below the repository root -> text."""
    older = [s for s in stored_scans() if version_key(s.adk_version) < version_key(installed.adk_version)]
    return {
        IR_MODULE: render_ir(installed),
        EXPR_MODULE: render_expr(installed, older),
        EXPORTS_MODULE: render_exports(ROOT / "src" / "adk_fluent"),
        REFERENCE_FILE: installed.to_json(),
        PAGE: render_page(ROOT),
    }


def write(root: Path) -> int:
    """Write below `root` what the installed google-adk gives; a reference that it replaces is kept."""
    installed = installed_adk()
    for path, text in {**replaced(root, installed), **modules(installed)}.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(f"wrote {target}")
    return 0


def check(root: Path) -> int:
    """1 when a generated file below `root` is not what the installed google-adk gives."""
    installed = installed_adk()
    expected = modules(installed)
    stale = [p for p, text in expected.items() if not _reads(root / p, text)]
    for path in stale:
        print(f"{path} is out of date: run `python -m codegen write`", file=sys.stderr)
    return 1 if stale else 0


def _reads(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def store_scan(target: Path) -> int:
    """Store the scan of the installed google-adk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(installed_adk().to_json(), encoding="utf-8")
    print(f"wrote {target}")
    return 0


def report(before: Path, after: Path, folder: Path) -> int:
    """Write what changed between two stored scans as JSON and Markdown."""
    result = diff(Scan.load(before), Scan.load(after))
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".json", result.to_json()), (".md", markdown(result))):
        target = folder / f"{result.before}-to-{result.after}{suffix}"
        target.write_text(text, encoding="utf-8")
        print(f"wrote {target}")
    return 0


def pictures(root: Path) -> int:
    """Write badges from the metadata, and the gallery from the examples; a picture of neither is removed."""
    from .badges import badges
    from .gallery import gallery  # which imports the library

    written = {**badges(root), **gallery(root)}
    for folder in {path.parent for path in written if path.suffix == ".svg"}:
        for old in (root / folder).glob("*.svg"):
            if folder / old.name not in written:
                old.unlink()
    for path, text in written.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        print(f"wrote {root / path}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0 fine, 1 stale output, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m codegen", description="Mirror the installed google-adk.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("write", "write the generated files"), ("check", "exit 1 when they are stale")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--root", type=Path, default=ROOT, help="repository root (default: this one)")
    drawing = commands.add_parser("pictures", help="write the pictures of the documentation")
    drawing.add_argument("--root", type=Path, default=ROOT, help="repository root (default: this one)")
    storing = commands.add_parser("scan", help="store what the installed google-adk looks like")
    storing.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    comparing = commands.add_parser("diff", help="report what changed between two stored scans")
    comparing.add_argument("before", type=Path, metavar="OLD.json")
    comparing.add_argument("after", type=Path, metavar="NEW.json")
    comparing.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(argv)
    match options.command:
        case "write":
            return write(options.root)
        case "check":
            return check(options.root)
        case "pictures":
            return pictures(options.root)
        case "scan":
            return store_scan(options.output)
        case _:
            return report(options.before, options.after, options.output)


if __name__ == "__main__":
    sys.exit(main())
