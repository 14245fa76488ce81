"""`adk-fluent eval`: suites and files of cases, what is printed and written, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from adk_fluent.eval import adk_services
from tests import processes
from tests.cli.commands import Cli

SUITE = """\
from adk_fluent import Agent
from adk_fluent.eval import FluentCase, FluentEvalSuite
from adk_fluent.testing import mock_backend

pipeline = Agent("helper").instruct("Help.").writes("answer")
print("a module may print")
suite = FluentEvalSuite(
    pipeline,
    [
        FluentCase("Hi", reference_response="Hello."),
        FluentCase("Bye", expected_response_contains={word!r}, tags=["end"]),
    ],
    metrics=[{metrics}],
    backend=mock_backend({{"helper": "Hello."}}),
)
"""


@pytest.fixture(autouse=True)
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra `eval` is not installed; importing what it brings takes seconds."""
    monkeypatch.setattr(adk_services, "has_local_service", lambda: False)


@pytest.fixture
def desk(tmp_path: Path) -> str:
    """A file with a suite whose cases pass."""
    return written(tmp_path)


def written(folder: Path, word: str | None = "Hello", metrics: str = "'response_match_score'") -> str:
    """A file with a suite."""
    (folder / "desk.py").write_text(SUITE.format(word=word, metrics=metrics))
    return "desk.py"


def test_a_suite_that_passes(cli: Cli, desk: str) -> None:
    """One line a case on the standard output, nothing else; exit code 0."""
    found = cli("eval", desk)
    assert found.code == 0, found.err
    first, second, last = found.out.splitlines()
    assert first.startswith("passed  hi  response_match_score 1")
    assert second.startswith("passed  bye  response_contains 1")
    assert last == "2 of 2 cases passed."


@pytest.mark.newest
def test_a_suite_that_asks_no_model_imports_nothing_of_the_extra(tmp_path: Path, desk: str) -> None:
    """A whole call of the command, where the extra `eval` is installed, imports nothing that it brings."""
    done = processes.run(f"""
import sys
from adk_fluent.cli.main import main
code = main(["eval", {str(tmp_path / desk)!r}])
brought = {{name.partition(".")[0] for name in sys.modules}}
print(code, sorted(brought & {{"nltk", "pandas", "rouge_score", "vertexai"}}))
""")
    assert done.stdout.splitlines()[-1:] == ["0 []"], done.stderr


def test_a_suite_that_fails(cli: Cli, tmp_path: Path) -> None:
    """Exit code 1, and why in the line of the case; the reports say it too."""
    found = cli(
        "eval",
        written(tmp_path, word="Farewell"),
        "--junit",
        "j.xml",
        "--html",
        "p.html",
        "--markdown",
        "m.md",
    )
    assert found.code == 1
    assert "FAILED  bye" in found.out
    assert "the answer does not contain 'Farewell': 'Hello.'" in found.out
    assert ElementTree.parse(tmp_path / "j.xml").getroot().get("failures") == "1"
    assert "Farewell" in (tmp_path / "p.html").read_text()
    assert "## bye" in (tmp_path / "m.md").read_text()


def test_a_baseline_tells_what_got_worse(cli: Cli, tmp_path: Path, desk: str) -> None:
    """`-o` writes what `--baseline` reads; a case that got worse is exit code 1."""
    assert cli("eval", desk, "-o", "base.json").code == 0
    same = cli("eval", desk, "--baseline", "base.json")
    assert same.code == 0
    assert same.out.splitlines()[-1] == "Nothing changed; 2 cases compared."
    worse = cli("eval", written(tmp_path, word="Farewell"), "--baseline", "base.json")
    assert worse.code == 1
    assert "regressed: bye  1/1 → 0/1 runs pass" in worse.out
    found = cli("eval", written(tmp_path, word="Farewell"), "--baseline", "base.json", "--json")
    assert json.loads(found.out)["changes"]["bye"] == "regressed"


def test_tags_runs_and_json(cli: Cli, desk: str) -> None:
    """A choice of cases, each several times, printed for machines."""
    found = cli("eval", desk, "--tag", "end", "--runs", "3", "--parallel", "2", "--json")
    whole = json.loads(found.out)
    runs = [(run["eval_id"], run["run"]) for run in whole["case_results"]]
    assert runs == [("bye", 1), ("bye", 2), ("bye", 3)]
    assert found.err == "a module may print\n"


def test_files_of_cases(cli: Cli, tmp_path: Path, desk: str) -> None:
    """YAML, and ADK's sets, run on the pipeline that is named; one that fails fails the case alone."""
    (tmp_path / "cases.yaml").write_text("cases: [{input: Hi, expected_response_contains: Hello}]")
    (tmp_path / "broken.py").write_text("from adk_fluent import S\npipeline = S.require('name')\n")
    found = cli("eval", "cases.yaml", "--pipeline", "broken.py")
    assert found.code == 1
    assert "FAILED  hi" in found.out
    assert "'name'" in found.out
    turn = {"user_content": {"parts": [{"text": "Hi"}]}}
    cases = [{"eval_id": "a", "conversation": [turn]}]
    (tmp_path / "x.evalset.json").write_text(json.dumps({"eval_set_id": "x", "eval_cases": cases}))
    assert "FAILED  a" in cli("eval", "x.evalset.json", "--pipeline", "broken.py").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.py"], "There is no file 'none.py'"),
        (["desk.py:pipeline"], "'pipeline' in desk.py is of type Agent, not an evaluation suite"),
        (["cases.yaml"], "cases.yaml says no pipeline to run its cases on: --pipeline TARGET"),
        (["cases.yaml", "--pipeline", "desk.py"], "cases.yaml, line 1, column 8: a suite has cases"),
        (["none.yaml", "--pipeline", "desk.py"], "none.yaml cannot be read"),
        (["none.yaml"], "There is no file 'none.yaml'"),
        (
            ["desk.py", "--pipeline", "desk.py"],
            "adk-fluent: --pipeline goes with a file of cases; a suite in Python names its own.\n",
        ),
        (["desk.py", "--baseline", "none.json"], "none.json cannot be read"),
        (["desk.py", "--junit", "none/j.xml"], "There is no folder 'none' to write j.xml into"),
        (["desk.py", "--tag", "ende"], "there is no tag 'ende'. Did you mean 'end'?"),
        (["desk.py", "--runs", "0"], "argument --runs: invalid"),
    ],
)
def test_wrong_usage(cli: Cli, tmp_path: Path, desk: str, arguments: list[str], said: str) -> None:
    """Exit code 2, one line, and nothing on the standard output."""
    (tmp_path / "cases.yaml").write_text("cases: 3")
    found = cli("eval", *arguments)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_a_cloud_metric_is_wrong_usage(cli: Cli, tmp_path: Path) -> None:
    """Nothing has run."""
    found = cli("eval", written(tmp_path, metrics="'safety_v1'"))
    assert found.code == 2
    assert "safety_v1 is computed by a service of Google Cloud, so nothing was run" in found.err


def test_what_nothing_judged_does_not_pass(cli: Cli, tmp_path: Path) -> None:
    """A case without expectations fails the command, which says why; `--allow-unjudged` lets it pass."""
    written(tmp_path, word=None, metrics="")
    done = cli("eval", "desk.py")
    assert done.code == 1
    assert "NOT JUDGED  bye" in done.out
    assert "not judged: the case states nothing that is expected" in done.out
    assert cli("eval", "desk.py", "--allow-unjudged").code == 0


def test_a_suite_without_cases_is_wrong_usage(cli: Cli, tmp_path: Path) -> None:
    """Nothing ran, so nothing passed."""
    (tmp_path / "empty.py").write_text(
        "from adk_fluent import Agent\nfrom adk_fluent.eval import FluentEvalSuite\n"
        "suite = FluentEvalSuite(Agent('helper'))\n"
    )
    done = cli("eval", "empty.py")
    assert (done.code, done.out) == (2, "")
    assert "Suite 'eval' has no cases" in done.err
