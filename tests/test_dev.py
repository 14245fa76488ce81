"""`./dev`: which Pythons it finds, on what it runs the tests, and how it mutates the code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import LIMIT

pytestmark = pytest.mark.newest

ROOT = Path(__file__).resolve().parent.parent

# A Python that says it is of some version, makes environments of copies of itself, installs nothing, and
# finds the given outcome in the tests it runs; each call but `-c` is noted.
STAND_IN = """#!/bin/sh
[ "$1" = -c ] || echo "$0 $*" >>"{log}"
case "$*" in
-c*) exec "{real}" -c "import platform, sys
sys.version_info, sys.executable = ({commas}), sys.argv[1]
platform.python_version = lambda: '{version}'
exec(sys.argv[2])" "$0" "$2" ;;
"-m venv"*)
    for folder in "$@"; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python"
    printf '#!/bin/sh\\necho "$0 $*" >>"{log}"\\n' >"$folder/bin/uv"
    chmod +x "$folder/bin/uv" ;;
"-m tests.suite"*) {pytest} ;;
esac
"""
PASSES, FAILS = "echo '== result: 3 passed'", "echo '== result: 1 failed, 2 passed'; exit 1"


def stand_in(program: Path, version: str, tests: str = PASSES) -> Path:
    """Put such a Python at `program`."""
    program.parent.mkdir(parents=True, exist_ok=True)
    commas = version.replace(".", ", ")
    log = program.parent.parent / "log"
    program.write_text(
        STAND_IN.format(log=log, real=sys.executable, commas=commas, version=version, pytest=tests)
    )
    program.chmod(0o755)
    return program


def broken(program: Path) -> None:
    """Put there what a version manager leaves in place of a Python that is not chosen."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("#!/bin/sh\necho 'no such version' >&2\nexit 127\n")
    program.chmod(0o755)


class Checkout:
    """A fresh checkout on a machine with the Pythons in `bin`."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin = folder / "clone", folder / "bin"
        self.root.mkdir()
        shutil.copy(ROOT / "dev", self.root)
        shutil.copy(ROOT / "pyproject.toml", self.root)
        shutil.copytree(ROOT / "requirements", self.root / "requirements")

    def dev(self, *arguments: str, python: str = "", services: str = "") -> subprocess.CompletedProcess[str]:
        """The output of `./dev`."""
        path = f"{self.bin}:/usr/bin:/bin"
        return subprocess.run(
            [self.root / "dev", *arguments],
            capture_output=True,
            text=True,
            timeout=2 * LIMIT,
            env={
                "PATH": path,
                "PYTHON": python,
                "CHROMIUM": "sh",
                "SERVICES": services,
                "HOME": os.environ.get("HOME", ""),
                "PYTEST_ADDOPTS": "-p no:adk_fluent.testing.plugin",  # which a toy in its place lacks
            },
        )

    @property
    def log(self) -> list[str]:
        """The commands that the test doubles received, one a line."""
        return (self.bin.parent / "log").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh checkout on a machine that has no Python yet but that of /usr/bin."""
    return Checkout(tmp_path)


def found(checkout: Checkout) -> list[str]:
    """The lines of `./dev pythons`, with the Python of /usr/bin left out."""
    lines = checkout.dev("pythons").stdout.splitlines()
    return [line for line in lines if line.split()[1].startswith(str(checkout.bin))]


def test_pythons_are_listed_by_what_they_say_they_are(checkout: Checkout) -> None:
    """The oldest comes first, whatever the programs are called, and each version once."""
    stand_in(checkout.bin / "python3.13", "3.13.11")
    stand_in(checkout.bin / "python3.12", "3.13.9")
    stand_in(checkout.bin / "python3", "3.11.0")
    stand_in(checkout.bin / "python3.11", "3.11.0")
    listed = found(checkout)
    assert [line.split()[0] for line in listed] == ["3.11.0", "3.13.9", "3.13.11"]
    assert [line.split()[1] for line in listed[1:]] == [f"{checkout.bin}/python3.{n}" for n in (12, 13)]


def test_pythons_that_cannot_run_the_tests_are_not_listed(checkout: Checkout) -> None:
    """Too old ones, shims that run nothing, folders, and programs called otherwise do not count."""
    stand_in(checkout.bin / "python3", "3.10.13")
    broken(checkout.bin / "python3.12")
    (checkout.bin / "python3.13").mkdir()
    stand_in(checkout.bin / "python", "3.11.0")
    stand_in(checkout.bin / "python3.11", "3.11.0").chmod(0o644)
    assert found(checkout) == []
    assert checkout.dev("pythons").returncode == 0


def test_the_core_suite_runs_on_the_oldest_python_too(checkout: Checkout) -> None:
    """With another Python than that of .venv on the machine, the core suite runs on it; the end says so."""
    stand_in(checkout.bin / "python3", "3.11.0")
    newest = stand_in(checkout.bin / "python3.14", "3.14.1")
    ran = checkout.dev("test", "all", python=str(newest))
    assert ran.returncode == 0, ran.stderr
    adk = ran.stdout.splitlines()[0].split()[2]
    report = ran.stdout.splitlines()[-1]
    assert report.startswith(f"google-adk {adk} on Python 3.14.1: 3 passed in 0:")
    pythons = [suite.split(":")[0].split()[-1] for suite in report.split("; ")]
    assert pythons == ["3.14.1", "3.11.0", "3.11.0", "3.14.1"]
    assert report.count("3 passed") == 4


def test_each_suite_runs_what_its_environment_can(checkout: Checkout) -> None:
    """.venv runs everything; another Python and the older google-adks run the core suite."""
    stand_in(checkout.bin / "python3", "3.11.0")
    checkout.dev("test", "all", python=str(stand_in(checkout.bin / "python3.14", "3.14.1")))
    suites = [line for line in checkout.log if "-m tests.suite" in line]
    assert [" -m not local and not newest and not faults" in line for line in suites] == [
        False,
        True,
        True,
        True,
    ]
    assert [line.split("/bin/")[0] for line in suites] == [
        ".venv",
        ".venvs/other-python",
        ".venvs/adk-1.25.0",
        ".venvs/adk-1.39.1",
    ]
    installed = [line.split(" --require-hashes ")[1] for line in checkout.log if "/uv pip sync" in line]
    assert installed == [
        "requirements/dev.txt requirements/local-nodeps.txt",
        "requirements/dev.txt",
        "requirements/adk-1.25.0.txt",
        "requirements/adk-1.39.1.txt",
    ]


SAMPLE = "not faults and not exhaustive"
CORE = "-m not local and not newest and not faults"
LISTED = "--on-adk .venv/.outcomes.json"


@pytest.mark.parametrize(
    ("arguments", "suites"),
    [
        ([], [f".venv -m {SAMPLE}"]),
        (["oldest"], [f".venvs/adk-1.25.0 -m not local and not newest and {SAMPLE} {LISTED}"]),
        (
            ["all"],
            [
                ".venv --limit 3600",
                f".venvs/other-python {CORE}",
                f".venvs/adk-1.25.0 {CORE}",
                f".venvs/adk-1.39.1 {CORE}",
            ],
        ),
        (["loaded"], [f".venv --loaded -m {SAMPLE}"]),
        (["loaded", "tests/x.py", "-k", "y"], [".venv --loaded tests/x.py -k y"]),
    ],
)
def test_each_test_command_runs_its_suites(
    checkout: Checkout, arguments: list[str], suites: list[str]
) -> None:
    """`test` and `test oldest` are for every change, `test all` for releases, `test loaded` for tests."""
    stand_in(checkout.bin / "python3", "3.11.0")
    newest = stand_in(checkout.bin / "python3.14", "3.14.1")
    assert checkout.dev("test", *arguments, python=str(newest)).returncode == 0
    ran = [line.partition(" -m tests.suite ")[2] for line in checkout.log if "-m tests.suite" in line]
    assert ran == suites


def test_the_fast_tests_failing_does_not_end_the_rest(checkout: Checkout) -> None:
    """Each suite runs, whatever came out of those before it."""
    stand_in(checkout.bin / "python3", "3.11.0")
    newest = stand_in(checkout.bin / "python3.14", "3.14.1", FAILS)
    ran = checkout.dev("test", "all", python=str(newest))
    assert ran.returncode == 1
    assert len([line for line in checkout.log if "-m tests.suite" in line]) == 4


def test_the_newest_python_is_the_other_one_where_ours_is_the_oldest(checkout: Checkout) -> None:
    """If .venv has the oldest Python, the core suite and the oldest google-adk run on the newest."""
    oldest = stand_in(checkout.bin / "python3", "3.11.0")
    stand_in(checkout.bin / "python3.14", "3.14.1")
    stand_in(checkout.bin / "python3.13", "3.13.1")
    report = checkout.dev("test", "all", python=str(oldest)).stdout.splitlines()[-1]
    pythons = [suite.split(":")[0].split()[-1] for suite in report.split("; ")]
    assert pythons == ["3.11.0", "3.14.1", "3.14.1", "3.11.0"]


def test_a_failure_on_the_oldest_python_is_a_failure(checkout: Checkout) -> None:
    """Tests that fail there fail the command, after all other suites have run."""
    stand_in(checkout.bin / "python3", "3.11.0", FAILS)
    ran = checkout.dev("test", "all", python=str(stand_in(checkout.bin / "python3.14", "3.14.1")))
    assert ran.returncode == 1
    report = ran.stdout.splitlines()[-1]
    assert report.count("on Python 3.11.0: 1 failed, 2 passed in ") == 2
    assert report.count("on Python 3.14.1: 3 passed in ") == 2


def test_environments_are_made_once_for_each_python(checkout: Checkout) -> None:
    """An environment is made once; a new oldest Python gets a new one."""
    newest = str(stand_in(checkout.bin / "python3.14", "3.14.1"))
    stand_in(checkout.bin / "python3", "3.11.1")

    def made() -> list[str]:
        ran = checkout.dev("test", "all", python=newest)
        return [line.split()[2] for line in ran.stderr.splitlines() if "preparing" in line]

    everything = [".venv", ".venvs/other-python", ".venvs/adk-1.25.0", ".venvs/adk-1.39.1"]
    assert made() == everything
    assert made() == []
    stand_in(checkout.bin / "python3", "3.11.0")
    assert made() == [".venvs/other-python", ".venvs/adk-1.25.0"]
    lock = checkout.root / "requirements" / "dev.txt"
    lock.write_text(lock.read_text() + "# changed\n")
    assert made() == [".venv", ".venvs/other-python"]


def test_another_python_gets_environments_of_its_own(checkout: Checkout) -> None:
    """`PYTHON` replaces environments of another version; without it, any existing one is used."""
    stand_in(checkout.bin / "python3", "3.11.0")
    first, second = (str(stand_in(checkout.bin / f"python3.{n}", f"3.{n}.1")) for n in (14, 15))

    def made(python: str) -> list[str]:
        ran = checkout.dev("test", "all", python=python)
        return [line.split()[2] for line in ran.stderr.splitlines() if "preparing" in line]

    ours = [".venv", ".venvs/adk-1.39.1"]
    assert [name for name in made(first) if name in ours] == ours
    assert [name for name in made("") if name in ours] == []
    assert [name for name in made(second) if name in ours] == ours
    assert [name for name in made(second) if name in ours] == []


TOY = {
    "src/adk_fluent/__init__.py": "",
    "src/adk_fluent/toys/toy.py": "def larger(a, b):\n    return a if a > b else b\n\n\nlimit = 3\n",
    "tests/toys/test_toy.py": "import adk_fluent.toys.toy as toy\n\n\ndef test_larger():\n"
    "    assert toy.larger(1, 2) == 2\n",
    "tests/test_docs.py": "def test_docs():\n    pass\n",
}


@pytest.fixture
def toy(checkout: Checkout) -> Checkout:
    """A checkout of a library with one function, in whose .venv the real mutmut is."""
    newest = stand_in(checkout.bin / "python3.14", "3.14.1")
    assert checkout.dev("test", "tests", python=str(newest)).returncode == 0
    mutmut = checkout.root / ".venv" / "bin" / "mutmut"
    mutmut.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).with_name("mutmut")}" "$@"\n')
    mutmut.chmod(0o755)
    for name, text in TOY.items():
        path = checkout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return checkout


def sources(checkout: Checkout) -> dict[str, str]:
    """The text of each Python file of the checkout that is not hidden."""
    folders = [checkout.root / "src", checkout.root / "tests"]
    return {
        str(path.relative_to(checkout.root)): path.read_text()
        for folder in folders
        for path in folder.rglob("*.py")
    }


def test_mutation_lists_what_no_test_notices(toy: Checkout) -> None:
    """Survivors are named, each can be shown, the last line counts them, and the checkout stays as it is."""
    ran = toy.dev("mutate", "src/adk_fluent/toys")
    assert ran.returncode == 0, ran.stderr
    *survivors, hint, total = ran.stdout.splitlines()
    assert (hint, total) == (
        "./dev mutate show NAME shows one of these changes.",
        "3 mutants, 1 killed, 2 survived: 33.3 % killed",
    )
    shown = [toy.dev("mutate", "show", line.split(": ")[0]).stdout for line in survivors]
    assert any("\n+    return a if a >= b else b\n" in diff for diff in shown), shown
    assert sources(toy) == TOY


@pytest.mark.exhaustive
def test_survivors_are_tested_again_with_new_tests(toy: Checkout) -> None:
    """`mutate again` asks the tests as they are now about what was not killed before."""
    assert toy.dev("mutate", "src/adk_fluent/toys/toy.py").stdout.endswith(
        "1 killed, 2 survived: 33.3 % killed\n"
    )
    tests = toy.root / "tests" / "toys" / "test_toy.py"
    tests.write_text(TOY["tests/toys/test_toy.py"].replace("(1, 2)", "(2, 1)"))
    assert toy.dev("mutate", "again").stdout.endswith("3 mutants, 2 killed, 1 survived: 66.7 % killed\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "dev: say what to mutate, such as ./dev mutate src/adk_fluent/prompt\n"),
        (["again"], "dev: nothing was mutated yet; begin with ./dev mutate PATH\n"),
        (["tests"], "dev: only what lies in src/adk_fluent can be mutated, not tests\n"),
        (["src/adk_fluent/toy"], "dev: there is no src/adk_fluent/toy\n"),
    ],
)
def test_mutation_says_what_it_needs(toy: Checkout, arguments: list[str], says: str) -> None:
    """A module that cannot be mutated is refused in one line."""
    ran = toy.dev("mutate", *arguments)
    assert (ran.returncode, ran.stderr) == (1, says)


def program(path: Path, does: str) -> None:
    """Put a shell script there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("works", [True, False])
def test_servers_that_tests_need_are_installed_where_that_is_possible(
    checkout: Checkout, works: bool
) -> None:
    """Root on Debian gets the packages of programs that are missing, once; a failure stops nothing."""
    newest = stand_in(checkout.bin / "python3", "3.11.0")
    program(checkout.bin / "id", "echo 0")
    program(
        checkout.bin / "apt-get", f'echo "apt-get $*" >>"{checkout.bin.parent}/log"; exit {int(not works)}'
    )
    ran = checkout.dev("test", "x.py", python=str(newest), services="sh:dash no-such-server:its-package")
    assert ran.returncode == 0, ran.stderr
    installed = [line for line in checkout.log if line.startswith("apt-get install")]
    assert [line.split()[-1] for line in installed] == ["its-package"]
    assert ("could not install its-package" in ran.stderr) != works


def test_servers_that_cannot_be_installed_are_named(checkout: Checkout) -> None:
    """Without root rights, `./dev` names the packages that some tests need, and runs the tests."""
    newest = stand_in(checkout.bin / "python3", "3.11.0")
    program(checkout.bin / "id", "echo 1000")
    ran = checkout.dev("test", "x.py", python=str(newest), services="no-such-server:its-package")
    assert ran.returncode == 0, ran.stderr
    assert "some tests need it: its-package" in ran.stderr


def test_the_end_names_unstable_tests_and_those_that_were_not_run(checkout: Checkout) -> None:
    """The end of a run names unstable tests, and those that did not run, with their google-adk release."""
    says = "echo 'not run, x-server is not installed: a.py::test_b'; echo 'unstable: a.py::test_c: E'; "
    ours, _ = (stand_in(checkout.bin / f"python3.{n}", f"3.{n}.0", says + PASSES) for n in (11, 14))
    end = checkout.dev("test", "all", python=str(ours)).stdout.splitlines()[-9:]
    assert end.count("unstable: a.py::test_c: E") >= 3
    lines = [line for line in end if line.startswith("not run on ")]
    assert len(lines) >= 3
    assert all(line.endswith("x-server is not installed: a.py::test_b") for line in lines)
