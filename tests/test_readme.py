"""The README as its readers use it: pasted into a file, and shown far from the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.limits import LIMIT
from tests.test_docs import blocks

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run_as_file(source: str, folder: Path) -> str:
    """The output of `python first.py` with neither key nor network settings in the environment."""
    (folder / "first.py").write_text(source)
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error::SyntaxWarning", "first.py"]
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_first_program_runs_as_a_file(tmp_path: Path) -> None:
    """The first Python block, saved and run without a key, prints what the README shows after it."""
    program, shown, *_ = blocks(README[README.index("## A first pipeline") :])
    assert (program.info, shown.info) == ("python", "text")
    assert run_as_file(program.text, tmp_path) == shown.text


def test_all_blocks_run_as_one_file(tmp_path: Path) -> None:
    """Everything pasted below the first program runs, too: nothing awaits outside a function."""
    whole = list(blocks(README))
    program = "".join(block.text for block in whole if block.info == "python")
    shown = [block.text for block in whole if block.info in ("text", "mermaid")]
    assert run_as_file(program, tmp_path) == "".join(shown)


# --- far from the repository ----------------------------------------------------------------------


@pytest.mark.newest
def test_a_registry_shows_whole_addresses() -> None:
    """In the built metadata each link and picture of the README is absolute, and a file that is there."""
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    metadata = ProjectMetadata(str(ROOT), PluginManager())
    repository = metadata.core.urls["Repository"]
    assert metadata.core.readme_content_type == "text/markdown"
    targets = re.findall(r"\]\(([^)\s]+)\)", metadata.core.readme)
    assert len(targets) == len(re.findall(r"\]\([^)\s]+\)", README))
    for target in targets:
        assert target.startswith((f"{repository}/blob/main/", f"{repository}/raw/main/"))
        assert (ROOT / target.partition("/main/")[2]).is_file()
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", metadata.core.readme)
    assert pictures
    assert all(picture.startswith(f"{repository}/raw/main/docs/pictures/") for picture in pictures)


@pytest.mark.newest
def test_the_repository_is_named_in_one_place() -> None:
    """The address of the project stands in pyproject.toml and nowhere else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    repository = project["urls"]["Repository"]
    assert all(url.startswith(repository) for url in project["urls"].values())
    files = subprocess.run(
        ["git", "grep", "-lF", repository], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
    )
    assert files.stdout.split() == ["pyproject.toml"]


@pytest.mark.newest
def test_the_page_of_models_names_what_adk_resolves() -> None:
    """Each form of a name on the page is one that the installed ADK knows, and so is its default model."""
    from google.adk.agents import LlmAgent
    from google.adk.models import registry

    page = (ROOT / "docs/how-to/models.md").read_text(encoding="utf-8")
    table = page[page.index("| name |") : page.index("If the package")]
    forms = re.findall(
        r"`([\w/.-]+\.\.\.[\w/.-]*)`", "".join(row.split("|")[1] for row in table.splitlines()[2:] if row)
    )
    known = registry._llm_registry_dict  # pyright: ignore[reportPrivateUsage]  # to resolve would import providers
    assert len(forms) > 10
    for form in forms:
        name = form.replace("...", "1-x" if form == "o3-..." else "x")
        name = "projects/x/locations/x/endpoints/x" if form.startswith("projects") else name
        assert any(re.fullmatch(pattern, name) for pattern in known), form
    assert f"`{LlmAgent.DEFAULT_MODEL}` in 2.13" in page
