"""The commands, and every error as one line.

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
from dataclasses import fields
from io import TextIOWrapper

from adk_fluent._tracebacks import FULL
from adk_fluent.cli.arguments import parsed
from adk_fluent.cli.errors import UsageError, one_line
from adk_fluent.cli.pairs import pairs, words_of
from adk_fluent.errors import ADKFluentError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    Args:
        argv: the arguments; those of the process by default.
    """
    arguments = parsed(argv)
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
            answers=words_of("--answer", arguments.answer),
        )
    if arguments.command == "viz":
        from adk_fluent.cli.draw import draw

        return draw(arguments.target, arguments.output)
    if arguments.command == "check":
        from adk_fluent.cli.look import check

        state = pairs("--state", arguments.state)
        return check(
            arguments.target,
            state=state,
            strict=arguments.strict,
            as_json=arguments.json,
            github=arguments.github,
            sarif=arguments.sarif,
            baseline=arguments.baseline,
        )
    if arguments.command == "convert":
        from adk_fluent.cli.convert import convert

        return convert(arguments.target, arguments.output, verify=arguments.verify)
    if arguments.command == "explain":
        from adk_fluent.cli.look import explain

        return explain(arguments.target, as_json=arguments.json)
    if arguments.command == "estimate":
        from adk_fluent.cli.look import estimate

        return estimate(
            arguments.target,
            {
                "invocations_per_day": arguments.invocations,
                "avg_input_tokens": arguments.input_tokens,
                "avg_output_tokens": arguments.output_tokens,
                "turns_per_session": arguments.turns,
                "loop_iterations": arguments.rounds,
                "map_items": arguments.items,
                "branch_probabilities": pairs("--branch", arguments.branch),
            },
            prices=pairs("--price", arguments.price),
            as_json=arguments.json,
        )
    if arguments.command == "preview":
        from adk_fluent.cli.look import preview

        return preview(
            arguments.target,
            arguments.prompt,
            answers=pairs("--answer", arguments.answer),
            state=pairs("--state", arguments.state),
            as_json=arguments.json,
        )
    if arguments.command == "eval":
        from adk_fluent.cli.evaluate import EvalOptions, evaluate

        given = {one.name: getattr(arguments, one.name) for one in fields(EvalOptions)}
        return evaluate(EvalOptions(**given))
    if arguments.command in ("record", "replay", "diff"):
        return _recordings(arguments)
    if arguments.command == "serve":
        from adk_fluent.cli.serve import Serving, serve

        return serve(Serving(**{one.name: getattr(arguments, one.name) for one in fields(Serving)}))
    if arguments.command == "tide":
        from adk_fluent.cli.tide import tide

        return tide(as_json=arguments.json)
    if arguments.command == "worker":
        return _worker(arguments)
    from adk_fluent.cli.new import new

    return new(arguments.folder)


def _worker(arguments: argparse.Namespace) -> int:
    from adk_fluent.cli.worker import Security, versions, worker

    security = Security(
        arguments.tls,
        arguments.tls_ca_path,
        arguments.tls_cert_path,
        arguments.tls_key_path,
        arguments.tls_server_name,
    )
    address, namespace = arguments.address, arguments.namespace
    if arguments.versions:
        return versions(arguments.target, address=address, namespace=namespace, security=security)
    if arguments.target is None:
        raise UsageError("A worker needs a TARGET to work on; only --versions goes without one.")
    return worker(
        arguments.target,
        segment=arguments.segment,
        address=address,
        queue=arguments.queue,
        sessions=arguments.session_db,
        artifacts=arguments.artifacts,
        dev=arguments.dir if arguments.dev else None,
        namespace=namespace,
        security=security,
        telemetry=arguments.telemetry,
    )


def _recordings(arguments: argparse.Namespace) -> int:
    from adk_fluent.cli import recordings

    if arguments.command == "record":
        state = pairs("--state", arguments.state)
        return recordings.record(
            arguments.target, arguments.prompt, arguments.output, state=state, verbose=arguments.verbose
        )
    if arguments.command == "replay":
        return recordings.replay(
            arguments.file,
            arguments.target,
            until=arguments.until,
            on_mismatch=arguments.on_mismatch,
            tools=arguments.tools,
        )
    return recordings.difference(arguments.before, arguments.after, html=arguments.html)


def _settle(debug: bool) -> None:
    """Keep other packages' messages off the terminal, and never fail on a character it lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    if debug:
        os.environ.setdefault(FULL, "1")
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
