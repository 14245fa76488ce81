"""Arguments, dispatch, and every error as one line.

Exit codes: 0 fine, 1 the run failed, the check found errors or google-adk changed, 2 wrong usage or a TARGET
that cannot be loaded, 130 interrupted.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from adk_fluent import __version__
from adk_fluent.cli.errors import UsageError, one_line
from adk_fluent.cli.pairs import pairs
from adk_fluent.errors import ADKFluentError

TARGET_HELP = """\
TARGET is one of
  module:attr        an attribute of a module that Python can import
  path/file.py:attr  an attribute of a file; without :attr the first of pipeline, app, root_agent
  path/folder        an agent folder as `adk web` opens it: app, else root_agent
It may be an adk-fluent expression, an ADK agent, or an ADK App.

exit codes: 0 fine, 1 the run failed or the check found errors, 2 wrong usage, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    Args:
        argv: the arguments; those of the process by default.
    """
    arguments = _parse(argv)
    debug = bool(arguments.debug)
    _settle(debug)
    try:
        return _command(arguments)
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except SystemExit as leaving:  # a step or tool of TARGET; argparse has left long ago
        _complain(f"the run ended: something in it called sys.exit({leaving.code!r})")
        return 1
    except BrokenPipeError:  # whoever read us has gone; nothing can be said any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        _complain(
            error if isinstance(error, ADKFluentError) else f"{type(error).__name__}: {one_line(error)}"
        )
        return 2 if isinstance(error, UsageError) else 1


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    # argparse takes an optional PROMPT for absent when options stand between it and TARGET.
    if arguments.command == "run" and arguments.prompt is None and len(rest) == 1 and rest[0][:1] != "-":
        arguments.prompt, rest = rest[0], []
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _command(arguments: argparse.Namespace) -> int:
    if arguments.command == "demo":
        from adk_fluent.cli.show import demo

        return demo(scripted=arguments.scripted, model=arguments.model, prompt=arguments.prompt)
    if arguments.command == "run":
        from adk_fluent.cli.run import run

        return run(
            arguments.target,
            arguments.prompt,
            state=pairs("--state", arguments.state),
            as_json=arguments.json,
            verbose=arguments.verbose,
            sessions=arguments.session_db,
            session_id=arguments.session,
        )
    if arguments.command == "viz":
        from adk_fluent.cli.draw import draw

        return draw(arguments.target, arguments.output)
    if arguments.command == "check":
        from adk_fluent.cli.look import check

        state = pairs("--state", arguments.state)
        return check(arguments.target, state=state, strict=arguments.strict, as_json=arguments.json)
    if arguments.command == "explain":
        from adk_fluent.cli.look import explain

        return explain(arguments.target, as_json=arguments.json)
    if arguments.command == "preview":
        from adk_fluent.cli.look import preview

        return preview(
            arguments.target,
            arguments.prompt,
            answers=pairs("--answer", arguments.answer),
            state=pairs("--state", arguments.state),
            as_json=arguments.json,
        )
    if arguments.command == "tide":
        from adk_fluent.cli.tide import tide

        return tide(as_json=arguments.json)
    from adk_fluent.cli.new import new

    return new(arguments.folder)


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="adk-fluent",
        description="Compose, draw and run agent pipelines on google-adk.",
        epilog=TARGET_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"adk-fluent {__version__}")
    commands = _Commands(parser)
    _add_running(commands)
    _add_looking(commands)
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
    run.add_argument("-v", "--verbose", action="store_true", help="show what agents say to each other, too")
    run.add_argument("--session-db", metavar="FILE", type=Path, help="keep sessions in this SQLite file")
    run.add_argument("--session", metavar="ID", help="the session to go on in; made when missing")


def _add_looking(commands: _Commands) -> None:
    check = commands.add("check", "find what is wrong with a pipeline, without running it")
    _add_state(check)
    check.add_argument("--strict", action="store_true", help="take every warning and note for an error")
    check.add_argument("--json", action="store_true", help="the whole report as JSON")

    explain = commands.add("explain", "say what each agent of a pipeline reads, sees, writes and answers")
    explain.add_argument("--json", action="store_true", help="the same as JSON")

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


def _add_state(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--state",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="what is in the state before the first turn, as text or JSON; may be given several times, and "
        "of two values for one key the last counts",
    )


def _settle(debug: bool) -> None:
    """Keep other packages' messages off the terminal, and never fail on a character it lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    if debug:
        logging.basicConfig(level=logging.INFO)
        return
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    for name in ("google_adk", "google.adk", "google_genai", "httpx", "asyncio", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _complain(message: object) -> None:
    sys.stdout.flush()
    print(f"adk-fluent: {one_line(str(message))}", file=sys.stderr)
