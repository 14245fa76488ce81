"""Which commands there are, and what each of them takes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from adk_fluent import __version__
from adk_fluent.spelling import did_you_mean

TARGET_HELP = """\
TARGET is one of
  module:attr        an attribute of a module that Python can import
  path/file.py:attr  an attribute of a file; without :attr the first of pipeline, app, root_agent
  path/folder        an agent folder as `adk web` opens it: app, else root_agent
  path/agent.yaml    an agent configuration of ADK's
It may be an adk-fluent expression, or an agent, a workflow or an App made with ADK alone.

exit codes: 0 fine, 1 the run failed or the check found errors, 2 wrong usage, 130 interrupted
"""

SUITE_HELP = """\
SUITE is one of
  module:attr          a FluentEvalSuite in a module that Python can import
  path/file.py:attr    one in a file; without :attr the one named suite
  path/cases.yaml      a file of cases, which --pipeline TARGET says what to run on
  path/x.evalset.json  the same, as ADK's own tools write it

exit codes: 0 all cases passed, 1 one failed or got worse than the baseline, 2 wrong usage
"""


VERBOSE = "show what agents say to each other, too"

REPLAYS = "exit codes: 0 nothing differs, 1 something does, 2 wrong usage"


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of a command line, by default those of the process; leaves where they are wrong."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    # argparse takes an optional PROMPT for absent when options stand between it and TARGET.
    if arguments.command == "run" and arguments.prompt is None and len(rest) == 1 and rest[0][:1] != "-":
        arguments.prompt, rest = rest[0], []
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


class _Commands:
    """The commands, to be filled with their arguments."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._added = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
        self._common = argparse.ArgumentParser(add_help=False)
        self._common.add_argument(
            "--debug", action="store_true", help="show tracebacks and ADK's own messages"
        )

    def add(
        self, name: str, summary: str, *, on_target: bool = True, epilog: str | None = None
    ) -> argparse.ArgumentParser:
        """A command, with what every one of them takes; `on_target` ones take a TARGET first."""
        made = self._added.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=TARGET_HELP if on_target else epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[self._common],
        )
        if on_target:
            made.add_argument("target", metavar="TARGET")
        return made


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the command or option that a misspelt one was meant to be."""

    def error(self, message: str) -> NoReturn:
        problem, listed, known = message.partition(" (choose from ")
        word = problem.partition("invalid choice: ")[2].strip("'\"")
        if listed and (hint := did_you_mean(word, re.findall(r"[\w-]+", known))):
            message = f"{problem}.{hint}"
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="adk-fluent",
        description="Compose, draw and run agent pipelines on google-adk.",
        epilog=TARGET_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"adk-fluent {__version__}")
    commands = _Commands(parser)
    _add_running(commands)
    _add_worker(commands)
    _add_looking(commands)
    _add_eval(commands)
    _add_recordings(commands)
    _add_serve(commands)
    new = commands.add("new", "make an agent folder that `adk web` opens", on_target=False)
    new.add_argument("folder", metavar="DIR", type=Path)
    tide = commands.add(
        "tide",
        "say what the installed google-adk changed, and which methods that concerns",
        on_target=False,
        epilog="exit codes: 0 nothing changed, 1 something did, 2 wrong usage",
    )
    tide.add_argument("--json", action="store_true", help="the same as JSON")
    return parser


def _add_running(commands: _Commands) -> None:
    demo = commands.add(
        "demo", "watch a support pipeline work, on a small model in this process", on_target=False
    )
    demo.add_argument("--scripted", action="store_true", help="fixed answers, no model: the same every time")
    demo.add_argument("--model", metavar="NAME", help="a Gemini model instead; needs GOOGLE_API_KEY")
    demo.add_argument("--prompt", metavar="TEXT", help="what the customer writes")

    run = commands.add("run", "run a pipeline; without PROMPT, chat with it")
    run.add_argument("prompt", metavar="PROMPT", nargs="?", help="the user's message")
    _add_state(run)
    run.add_argument("--json", action="store_true", help="one JSON object per event and line")
    run.add_argument("-v", "--verbose", action="store_true", help=VERBOSE)
    run.add_argument("--session-db", metavar="FILE", type=Path, help="keep sessions in this SQLite file")
    run.add_argument("--session", metavar="ID", help="the session to go on in; made when missing")
    run.add_argument(
        "--answer",
        metavar="ID=VALUE",
        action="append",
        default=[],
        help="what a run of the session waits for, as text or JSON; y or yes approves; may be given several "
        "times, and goes without PROMPT",
    )


def _add_worker(commands: _Commands) -> None:
    worker = commands.add(
        "worker",
        "work on durable runs of a pipeline, for a Temporal server",
        on_target=False,
        epilog=TARGET_HELP,
    )
    worker.add_argument("target", metavar="TARGET", nargs="?")
    worker.add_argument(
        "--versions",
        action="store_true",
        help="list the queues that have runs in flight or waiting, and leave; TARGET is marked, if given",
    )
    worker.add_argument(
        "--address", metavar="HOST:PORT", help="where the server is; 127.0.0.1:7233 unless given"
    )
    worker.add_argument(
        "--namespace", metavar="NAME", default="default", help="the namespace there; default unless given"
    )
    worker.add_argument(
        "--tls", action="store_true", help="encrypt, as is done anyhow where TEMPORAL_API_KEY is set"
    )
    worker.add_argument(
        "--tls-ca-path", metavar="FILE", type=Path, help="whom to trust, in place of the system's list"
    )
    worker.add_argument("--tls-cert-path", metavar="FILE", type=Path, help="the certificate to show")
    worker.add_argument("--tls-key-path", metavar="FILE", type=Path, help="its key")
    worker.add_argument("--tls-server-name", metavar="NAME", help="the name in the server's certificate")
    worker.add_argument(
        "--telemetry",
        action="store_true",
        help="send spans and metrics to where OTEL_EXPORTER_OTLP_ENDPOINT says",
    )
    worker.add_argument(
        "--segment", metavar="NAME", help="the segment of a pipeline that is cut; all unless given"
    )
    worker.add_argument("--queue", metavar="NAME", help="the task queue; that of the pipeline unless given")
    worker.add_argument("--session-db", metavar="FILE", type=Path, help="keep sessions in this SQLite file")
    worker.add_argument(
        "--artifacts", metavar="PLACE", help="keep artifacts in this folder, or in gs://BUCKET"
    )
    worker.add_argument(
        "--dev", action="store_true", help="start a server for development on this machine, at the address"
    )
    worker.add_argument(
        "--dir",
        metavar="DIR",
        type=Path,
        default=Path(".adk-fluent"),
        help="where --dev keeps runs and sessions; .adk-fluent unless given",
    )


def _add_looking(commands: _Commands) -> None:
    check = commands.add("check", "find what is wrong with a pipeline, without running it")
    _add_state(check)
    check.add_argument("--strict", action="store_true", help="take every warning and note for an error")
    check.add_argument("--json", action="store_true", help="the whole report as JSON")
    check.add_argument("--github", action="store_true", help="annotations, as GitHub's workflows show them")
    check.add_argument("--sarif", metavar="FILE", type=Path, help="write the findings as SARIF 2.1.0, too")
    check.add_argument(
        "--baseline",
        metavar="FILE",
        type=Path,
        help="tell only what this file does not know; it is written where there is none",
    )

    explain = commands.add("explain", "say what each agent of a pipeline reads, sees, writes and answers")
    explain.add_argument("--json", action="store_true", help="the same as JSON")

    _add_estimate(commands)
    convert = commands.add("convert", "write a project in plain ADK as fluent source")
    convert.add_argument("-o", "--output", metavar="FILE", type=Path, help="the file to write")
    convert.add_argument(
        "--verify",
        action="store_true",
        help="prove it: the same tree, and the same run with a scripted model on both sides",
    )
    preview = commands.add("preview", "print the requests that models would get; none is asked")
    preview.add_argument("prompt", metavar="PROMPT", help="the user's message")
    _add_state(preview)
    preview.add_argument(
        "--answer",
        metavar="AGENT=ANSWER",
        action="append",
        default=[],
        help="what an agent answers, as text or JSON, instead of a made-up answer",
    )
    preview.add_argument("--json", action="store_true", help="the same as JSON")

    viz = commands.add("viz", "draw a pipeline: Mermaid text, an image, or a page to click through")
    viz.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write a .html page, or a .svg, .png, .md, .mmd or .txt file (png needs the extra viz)",
    )


def _add_eval(commands: _Commands) -> None:
    made = commands.add(
        "eval", "run a suite of cases, and say which passed", on_target=False, epilog=SUITE_HELP
    )
    made.add_argument("suite", metavar="SUITE", help="the cases, and what they are judged by")
    made.add_argument("--pipeline", metavar="TARGET", help="what the cases of a file are run on")
    made.add_argument("--baseline", metavar="FILE", type=Path, help="a report to compare with, see -o")
    for option, of in (
        (("-o", "--output"), "JSON, which --baseline reads"),
        (("--junit",), "JUnit XML"),
        (("--html",), "a page"),
        (("--markdown",), "Markdown"),
    ):
        made.add_argument(*option, metavar="FILE", type=Path, help=f"write the report as {of}")
    made.add_argument(
        "--tag", metavar="TAG", dest="tags", action="append", default=[], help="run only cases with this tag"
    )
    made.add_argument("--runs", metavar="N", type=_positive, help="run each case so often")
    made.add_argument(
        "--parallel",
        metavar="N",
        dest="parallelism",
        type=_positive,
        default=4,
        help="how many runs go on at the same time; 4 unless given",
    )
    made.add_argument(
        "--allow-unjudged",
        action="store_true",
        help="let a case pass although a metric gave no score, or nothing judged it",
    )
    made.add_argument("--json", dest="as_json", action="store_true", help="print the report as JSON")


def _add_serve(commands: _Commands) -> None:
    made = commands.add("serve", "serve a pipeline over A2A, for other agents to call")
    made.add_argument(
        "--host", metavar="HOST", default="127.0.0.1", help="where to listen; 127.0.0.1 unless given"
    )
    made.add_argument(
        "--port", metavar="N", type=int, default=8000, help="the port; 8000 unless given, 0 is a free one"
    )
    made.add_argument(
        "--store", metavar="PLACE", help="keep sessions and tasks in this file or PostgreSQL database"
    )
    made.add_argument(
        "--durable", action="store_true", help="tasks go on after a crash of this process; needs --store"
    )
    made.add_argument(
        "--token-env", metavar="NAME", dest="token", help="the environment variable with a token to ask for"
    )
    made.add_argument("--endpoint", metavar="URL", help="what the card names, if not where it listens")


def _add_recordings(commands: _Commands) -> None:
    record = commands.add("record", "run a pipeline once, and write down all that happens")
    record.add_argument("prompt", metavar="PROMPT", help="the user's message")
    record.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the file to write")
    _add_state(record)
    record.add_argument(
        "-v", "--verbose", action="store_true", help="show what agents say to each other, too"
    )

    replay = commands.add(
        "replay", "run a pipeline on recorded answers, and say what differs", on_target=False, epilog=REPLAYS
    )
    replay.add_argument("file", metavar="FILE", type=Path, help="what `record` wrote")
    replay.add_argument("target", metavar="TARGET")
    replay.add_argument("--until", metavar="STEP", help="show what was at this step: its number, or an agent")
    replay.add_argument(
        "--on-mismatch",
        choices=("error", "skip", "live"),
        default="error",
        help="what to do with a request that was not recorded: end, answer nothing, or ask the model; "
        "error unless given",
    )
    replay.add_argument(
        "--tools", choices=("recorded", "live"), default="recorded", help="whether tools really run"
    )

    diff = commands.add("diff", "say what differs between two recordings", on_target=False, epilog=REPLAYS)
    diff.add_argument("before", metavar="A", type=Path, help="a recording")
    diff.add_argument("after", metavar="B", type=Path, help="another one")
    diff.add_argument("--html", metavar="FILE", type=Path, help="write a page, too")


def _positive(text: str) -> int:
    """A whole number from 1."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _add_estimate(commands: _Commands) -> None:
    estimate = commands.add("estimate", "say what a pipeline will cost, without running it")
    for option, of, said in (
        ("--invocations", int, "user messages a day; 1000 unless given"),
        ("--input-tokens", float, "tokens of a user's message; 500 unless given"),
        ("--output-tokens", float, "tokens of an answer; 200 unless given"),
        ("--turns", float, "user messages in a session; 1 unless given"),
        ("--rounds", float, "rounds of loops; 2 unless given, and where nothing ends a loop earlier, all"),
        ("--items", float, "items of maps; 3 unless given"),
    ):
        estimate.add_argument(option, metavar="N", type=of, help=said)
    estimate.add_argument(
        "--branch",
        metavar="AGENT=P",
        action="append",
        default=[],
        help="how likely a branch is taken, from 0 to 1; named by its agent, or by the value compared with",
    )
    estimate.add_argument(
        "--price",
        metavar="MODEL=IN,OUT",
        action="append",
        default=[],
        help="what a model costs, in USD per million tokens in and out",
    )
    estimate.add_argument("--json", action="store_true", help="the same as JSON")


def _add_state(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--state",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="what is in the state before the first turn, as text or JSON; may be given several times, and "
        "of two values for one key the last counts",
    )
