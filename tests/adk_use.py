"""The tests that use google-adk: only those run again on its oldest release.

A test uses google-adk if its file, or a module of `tests` that the file imports, has anything at its top
level that comes from google-adk or from a package of ours that imports it; if such a module is imported while
the test runs, as our terminal methods do in each call; or if the test starts a process. The run on the newest
release notes which tests do none of this, and `--on-adk FILE` leaves these out.
"""

from __future__ import annotations

import builtins
import importlib
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import pytest

from tests.suite import Outcomes

OURS: Final = "a2a adopt backends cli debug distributed eval local serve telemetry testing tide"
PACKAGES: Final = ("google.adk.", "google.genai.", *(f"adk_fluent.{name}." for name in OURS.split()))
"""What comes with google-adk, and our packages that import it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run leave out what another one noted as free of google-adk."""
    parser.addoption("--on-adk", metavar="FILE", help="run only tests that use google-adk, by these outcomes")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the tests."""
    noted: str | None = config.getoption("on_adk")
    config.pluginmanager.register(AdkUse(Path(noted) if noted else None), "adk-use")


def uses_adk(module: str | None) -> bool:
    """True if a module of this name lies in one of the packages."""
    return module is not None and f"{module}.".startswith(PACKAGES)


def origin(value: object) -> str | None:
    """The name of the module that a value comes from."""
    if isinstance(value, ModuleType):
        return value.__name__
    own: object = getattr(value, "__module__", None)
    return own if isinstance(own, str) else type(value).__module__


def imports_adk(module: ModuleType, seen: set[str]) -> bool:
    """True if a module of `tests`, or one that it imports, has something of google-adk at its top level."""
    seen.add(module.__name__)
    origins = {origin(value) for value in list(vars(module).values())}
    if any(map(uses_adk, origins)):
        return True
    others = {name for name in origins if name and name.startswith("tests.")} - seen
    return any(imports_adk(sys.modules[name], seen) for name in sorted(others) if name in sys.modules)


class AdkUse:
    """Notes which tests use google-adk, and leaves out those that another run noted as free of it."""

    def __init__(self, noted: Path | None) -> None:
        self._left_out = frozenset(Outcomes.read(noted).without_adk if noted and noted.exists() else ())
        self._files: dict[str, bool] = {}
        self._file = ""
        self._used = False

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what does not use google-adk."""
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self._left_out])
        items[:] = [item for item in items if item.nodeid not in self._left_out]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch a test with its fixtures."""
        self._file = str(cast(Any, item).module.__name__)
        self._used = self._used_by_file()
        with self._watching():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Count what a fixture of several tests does for all tests of the file from here on."""
        before = self._used
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function" and self._used and not before:
                self._files[self._file] = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Note what was seen up to the end of the test; the report of the teardown carries it."""
        if not self._used:
            item.user_properties.append(("without_adk", True))

    def _used_by_file(self) -> bool:
        if self._file not in self._files:
            self._files[self._file] = imports_adk(sys.modules[self._file], set())
        return self._files[self._file]

    @contextmanager
    def _watching(self) -> Generator[None]:
        plain_import, by_name, start = builtins.__import__, importlib.import_module, subprocess.Popen.__init__

        def imported(
            name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
        ) -> ModuleType:
            if not self._used:
                whole = resolve_name("." * level + name, globals["__package__"]) if level else name
                self._used = uses_adk(whole) or any(uses_adk(f"{whole}.{each}") for each in fromlist or ())
            return plain_import(name, globals, locals, fromlist, level)

        def imported_by_name(name: str, package: str | None = None) -> ModuleType:
            if not self._used:
                self._used = uses_adk(name)
            return by_name(name, package)

        def started(process: Any, *args: Any, **more: Any) -> None:
            self._used = True
            start(process, *args, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builtins, "__import__", imported)
            patch.setattr(importlib, "import_module", imported_by_name)
            patch.setattr(subprocess.Popen, "__init__", started)
            yield
