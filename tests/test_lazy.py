"""Packages import their names on first use, and need no source for it."""

from __future__ import annotations

import ast
import compileall
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import google.adk
import pytest

from adk_fluent import contracts
from adk_fluent._exports import EXPORTS
from adk_fluent._lazy import lazy
from tests.limits import LIMIT
from tests.test_site import public_modules

ROOT = Path(__file__).resolve().parent.parent

DEPLOYED = """
import asyncio, sys
import google.adk
import adk_fluent
for module in sys.argv[1:]:
    package = __import__(module, fromlist=["*"])
    for name in package.__all__:
        getattr(package, name)
assert adk_fluent.__file__.endswith(".pyc"), adk_fluent.__file__
assert google.adk.__file__.endswith(".pyc"), google.adk.__file__

from adk_fluent import Agent
from adk_fluent.testing import call_tool, mock_backend

def price(flight: str) -> int:
    return 90

clerk = Agent("clerk").tool(price).writes("offer") >> (lambda state: {"done": state["offer"]})
script = mock_backend({"clerk": [call_tool("price", flight="LH1"), "90 euros"]})
assert clerk.check().ok
print(asyncio.run(clerk.run("How much?", backend=script)).state["done"])
"""


def without_sources(package: Path, place: Path) -> None:
    """Copy a package to `place` as byte code alone."""
    copy = place / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(copy, quiet=2, legacy=True, workers=1)
    for source in copy.rglob("*.py"):
        source.unlink()


@pytest.mark.newest
def test_a_deployment_without_sources_works(tmp_path: Path) -> None:
    """Byte code alone, of this package and of google-adk, imports every public name, checks and runs."""
    without_sources(ROOT / "src" / "adk_fluent", tmp_path)
    without_sources(Path(google.adk.__path__[0]), tmp_path / "google")
    script = tmp_path / "deployed.py"
    script.write_text(DEPLOYED)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", script, *sorted(EXPORTS)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert (ran.stdout, ran.returncode) == ("90 euros\n", 0), ran.stderr


@pytest.mark.newest  # older environments lack what some names need
def test_the_table_has_every_public_name_of_a_lazy_package() -> None:
    """A name that a package promises is defined there or found through the table."""
    for module in EXPORTS:
        package = importlib.import_module(module)
        assert not [name for name in package.__all__ if not hasattr(package, name)]


def test_type_checkers_see_each_public_name() -> None:
    """The stub of a lazy module imports each name `as` itself: without that, a type checker hides it."""
    for module, homes in EXPORTS.items():
        stub = Path(str(importlib.import_module(module).__file__)).with_suffix(".pyi")
        imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
        shown = [alias.asname for node in imports for alias in node.names]
        assert sorted(map(str, shown)) == sorted(name for name in homes if homes[name] != module), module


@pytest.mark.parametrize("name", ["issues", "checks", "__wrapped__"])
def test_no_name_is_suggested_for_a_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`from package import module` asks for the module as a name first: that costs nothing at each import."""
    monkeypatch.delattr(contracts, name, raising=False)
    monkeypatch.setattr("difflib.get_close_matches", None)
    assert not hasattr(contracts, name)


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("adk_fluent", "Pipline", r"^adk_fluent has no 'Pipline'\. Did you mean 'Pipeline'\?$"),
        ("adk_fluent", "Agnet", r"^adk_fluent has no 'Agnet'\. Did you mean 'Agent'\?$"),
        ("adk_fluent.cost", "Token", r"^adk_fluent.cost has no 'Token'\. Did you mean 'Tokens'\?$"),
        ("adk_fluent.cost", "Zebra", r"^adk_fluent.cost has no 'Zebra'; it has .*Tokens"),
    ],
)
def test_an_unknown_name_suggests_the_nearest_or_lists_all(module: str, name: str, said: str) -> None:
    """A misspelt name raises an AttributeError that names the nearest, or what the package has."""
    importlib.import_module(module)
    with pytest.raises(AttributeError, match=said):
        lazy(module)(name)


def test_dir_lists_every_public_name() -> None:
    """Completion in an editor or shell shows what is imported on first use, too."""
    for module in EXPORTS:
        package = importlib.import_module(module)
        assert set(package.__all__) <= set(dir(package)), module


def test_each_public_module_lists_its_public_names_only() -> None:
    """`dir()` of a module, which completion shows, has no name that the module only imports."""
    modules = list(public_modules())
    assert len(modules) > 20
    for module in modules:
        listed = dir(module)
        assert listed
        assert listed == sorted(getattr(module, "__all__", listed))
        assert not {"Any", "TYPE_CHECKING", "annotations", "lazy", "listing"} & set(listed)
