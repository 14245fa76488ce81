"""Every word of the help and of the scripted demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from adk_fluent.cli.demo import support
from adk_fluent.cli.errors import one_line
from tests.cli.commands import Cli

pytestmark = pytest.mark.newest  # the same on every release

TARGETS = """\
TARGET is one of
  module:attr        an attribute of a module that Python can import
  path/file.py:attr  an attribute of a file; without :attr the first of pipeline, app, root_agent
  path/folder        an agent folder as `adk web` opens it: app, else root_agent
  path/agent.yaml    an agent configuration of ADK's
It may be an adk-fluent expression, or an agent, a workflow or an App made with ADK alone.

exit codes: 0 fine, 1 the run failed or the check found errors, 2 wrong usage, 130 interrupted
"""

HELP = {
    "": """\
usage: adk-fluent [-h] [--version] COMMAND ...

Compose, draw and run agent pipelines on google-adk.

positional arguments:
  COMMAND
    demo      watch a support pipeline work, on a small model in this process
    run       run a pipeline; without PROMPT, chat with it
    worker    work on durable runs of a pipeline, for a Temporal server
    check     find what is wrong with a pipeline, without running it
    explain   say what each agent of a pipeline reads, sees, writes and answers
    estimate  say what a pipeline will cost, without running it
    convert   write a project in plain ADK as fluent source
    preview   print the requests that models would get; none is asked
    viz       draw a pipeline: Mermaid text, an image, or a page to click through
    eval      run a suite of cases, and say which passed
    record    run a pipeline once, and write down all that happens
    replay    run a pipeline on recorded answers, and say what differs
    diff      say what differs between two recordings
    serve     serve a pipeline over A2A, for other agents to call
    new       make an agent folder that `adk web` opens
    tide      say what the installed google-adk changed, and which methods that concerns

options:
  -h, --help  show this help message and exit
  --version   show program's version number and exit
"""
    + TARGETS,
    "demo": """\
usage: adk-fluent demo [-h] [--debug] [--scripted] [--model NAME] [--prompt TEXT]

Watch a support pipeline work, on a small model in this process.

options:
  -h, --help     show this help message and exit
  --debug        show tracebacks and ADK's own messages
  --scripted     fixed answers, no model: the same every time
  --model NAME   a Gemini model instead; needs GOOGLE_API_KEY
  --prompt TEXT  what the customer writes
""",
    "run": """\
usage: adk-fluent run [-h] [--debug] [--state KEY=VALUE] [--json] [-v] [--session-db FILE]
[--session ID] [--answer ID=VALUE] TARGET [PROMPT]

Run a pipeline; without PROMPT, chat with it.

positional arguments:
  TARGET
  PROMPT             the user's message

options:
  -h, --help         show this help message and exit
  --debug            show tracebacks and ADK's own messages
  --state KEY=VALUE  what is in the state before the first turn, as text or JSON; may be given several
                        times, and of two values for one key the last counts
  --json             one JSON object per event and line
  -v, --verbose      show what agents say to each other, too
  --session-db FILE  keep sessions in this SQLite file
  --session ID       the session to go on in; made when missing
  --answer ID=VALUE  what a run of the session waits for, as text or JSON; y or yes approves; may be
                        given several times, and goes without PROMPT
"""
    + TARGETS,
    "worker": """\
usage: adk-fluent worker [-h] [--debug] [--versions] [--address HOST:PORT] [--namespace NAME] [--tls]
                         [--tls-ca-path FILE] [--tls-cert-path FILE] [--tls-key-path FILE]
                         [--tls-server-name NAME] [--telemetry] [--segment NAME] [--queue NAME]
                         [--session-db FILE] [--artifacts PLACE] [--dev] [--dir DIR]
                         [TARGET]

Work on durable runs of a pipeline, for a Temporal server.

positional arguments:
  TARGET

options:
  -h, --help            show this help message and exit
  --debug               show tracebacks and ADK's own messages
  --versions            list the queues that have runs in flight or waiting, and leave; TARGET is
                        marked, if given
  --address HOST:PORT   where the server is; 127.0.0.1:7233 unless given
  --namespace NAME      the namespace there; default unless given
  --tls                 encrypt, as is done anyhow where TEMPORAL_API_KEY is set
  --tls-ca-path FILE    whom to trust, in place of the system's list
  --tls-cert-path FILE  the certificate to show
  --tls-key-path FILE   its key
  --tls-server-name NAME
                        the name in the server's certificate
  --telemetry           send spans and metrics to where OTEL_EXPORTER_OTLP_ENDPOINT says
  --segment NAME        the segment of a pipeline that is cut; all unless given
  --queue NAME          the task queue; that of the pipeline unless given
  --session-db FILE     keep sessions in this SQLite file
  --artifacts PLACE     keep artifacts in this folder, or in gs://BUCKET
  --dev                 start a server for development on this machine, at the address
  --dir DIR             where --dev keeps runs and sessions; .adk-fluent unless given

"""
    + TARGETS,
    "check": """\
usage: adk-fluent check [-h] [--debug] [--state KEY=VALUE] [--strict] [--json] [--github] [--sarif FILE]
                        [--baseline FILE]
                        TARGET

Find what is wrong with a pipeline, without running it.

positional arguments:
  TARGET

options:
  -h, --help         show this help message and exit
  --debug            show tracebacks and ADK's own messages
  --state KEY=VALUE  what is in the state before the first turn, as text or JSON; may be given several
                        times, and of two values for one key the last counts
  --strict           take every warning and note for an error
  --json             the whole report as JSON
  --github           annotations, as GitHub's workflows show them
  --sarif FILE       write the findings as SARIF 2.1.0, too
  --baseline FILE    tell only what this file does not know; it is written where there is none
"""
    + TARGETS,
    "convert": """\
usage: adk-fluent convert [-h] [--debug] [-o FILE] [--verify] TARGET

Write a project in plain ADK as fluent source.

positional arguments:
  TARGET

options:
  -h, --help            show this help message and exit
  --debug               show tracebacks and ADK's own messages
  -o, --output FILE     the file to write
  --verify              prove it: the same tree, and the same run with a scripted model on both sides
"""
    + TARGETS,
    "explain": """\
usage: adk-fluent explain [-h] [--debug] [--json] TARGET

Say what each agent of a pipeline reads, sees, writes and answers.

positional arguments:
  TARGET

options:
  -h, --help  show this help message and exit
  --debug     show tracebacks and ADK's own messages
  --json      the same as JSON
"""
    + TARGETS,
    "estimate": """\
usage: adk-fluent estimate [-h] [--debug] [--invocations N] [--input-tokens N] [--output-tokens N] [--turns N]
                           [--rounds N] [--items N] [--branch AGENT=P] [--price MODEL=IN,OUT] [--json] TARGET

Say what a pipeline will cost, without running it.

positional arguments:
  TARGET

options:
  -h, --help            show this help message and exit
  --debug               show tracebacks and ADK's own messages
  --invocations N       user messages a day; 1000 unless given
  --input-tokens N      tokens of a user's message; 500 unless given
  --output-tokens N     tokens of an answer; 200 unless given
  --turns N             user messages in a session; 1 unless given
  --rounds N            rounds of loops; 2 unless given, and where nothing ends a loop earlier, all
  --items N             items of maps; 3 unless given
  --branch AGENT=P      how likely a branch is taken, from 0 to 1; named by its agent, or by
                        the value compared with
  --price MODEL=IN,OUT  what a model costs, in USD per million tokens in and out
  --json                the same as JSON

"""
    + TARGETS,
    "preview": """\
usage: adk-fluent preview [-h] [--debug] [--state KEY=VALUE] [--answer AGENT=ANSWER] [--json] TARGET PROMPT

Print the requests that models would get; none is asked.

positional arguments:
  TARGET
  PROMPT                the user's message

options:
  -h, --help            show this help message and exit
  --debug               show tracebacks and ADK's own messages
  --state KEY=VALUE     what is in the state before the first turn, as text or JSON; may be given several
                        times, and of two values for one key the last counts
  --answer AGENT=ANSWER
                        what an agent answers, as text or JSON, instead of a made-up answer
  --json                the same as JSON
"""
    + TARGETS,
    "viz": """\
usage: adk-fluent viz [-h] [--debug] [-o FILE] TARGET

Draw a pipeline: Mermaid text, an image, or a page to click through.

positional arguments:
  TARGET

options:
  -h, --help            show this help message and exit
  --debug               show tracebacks and ADK's own messages
  -o, --output FILE write a .html page, or a .svg, .png, .md, .mmd or .txt file (png needs the extra viz)
"""
    + TARGETS,
    "eval": """\
usage: adk-fluent eval [-h] [--debug] [--pipeline TARGET] [--baseline FILE] [-o FILE] [--junit FILE]
                       [--html FILE] [--markdown FILE] [--tag TAG] [--runs N] [--parallel N]
                       [--allow-unjudged] [--json]
                       SUITE

Run a suite of cases, and say which passed.

positional arguments:
  SUITE                 the cases, and what they are judged by

options:
  -h, --help            show this help message and exit
  --debug               show tracebacks and ADK's own messages
  --pipeline TARGET     what the cases of a file are run on
  --baseline FILE       a report to compare with, see -o
  -o, --output FILE
                        write the report as JSON, which --baseline reads
  --junit FILE          write the report as JUnit XML
  --html FILE           write the report as a page
  --markdown FILE       write the report as Markdown
  --tag TAG             run only cases with this tag
  --runs N              run each case so often
  --parallel N          how many runs go on at the same time; 4 unless given
  --allow-unjudged      let a case pass although a metric gave no score, or nothing judged it
  --json                print the report as JSON

SUITE is one of
  module:attr          a FluentEvalSuite in a module that Python can import
  path/file.py:attr    one in a file; without :attr the one named suite
  path/cases.yaml      a file of cases, which --pipeline TARGET says what to run on
  path/x.evalset.json  the same, as ADK's own tools write it

exit codes: 0 all cases passed, 1 one failed or got worse than the baseline, 2 wrong usage
""",
    "record": """\
usage: adk-fluent record [-h] [--debug] -o FILE [--state KEY=VALUE] [-v] TARGET PROMPT

Run a pipeline once, and write down all that happens.

positional arguments:
  TARGET
  PROMPT                the user's message

options:
  -h, --help            show this help message and exit
  --debug               show tracebacks and ADK's own messages
  -o, --output FILE
                        the file to write
  --state KEY=VALUE     what is in the state before the first turn, as text or JSON; may be given
                        several times, and of two values for one key the last counts
  -v, --verbose         show what agents say to each other, too

"""
    + TARGETS,
    "replay": """\
usage: adk-fluent replay [-h] [--debug] [--until STEP] [--on-mismatch {error,skip,live}]
                         [--tools {recorded,live}]
                         FILE TARGET

Run a pipeline on recorded answers, and say what differs.

positional arguments:
  FILE                  what `record` wrote
  TARGET

options:
  -h, --help            show this help message and exit
  --debug               show tracebacks and ADK's own messages
  --until STEP          show what was at this step: its number, or an agent
  --on-mismatch {error,skip,live}
                        what to do with a request that was not recorded: end, answer nothing, or
                        ask the model; error unless given
  --tools {recorded,live}
                        whether tools really run

exit codes: 0 nothing differs, 1 something does, 2 wrong usage
""",
    "diff": """\
usage: adk-fluent diff [-h] [--debug] [--html FILE] A B

Say what differs between two recordings.

positional arguments:
  A            a recording
  B            another one

options:
  -h, --help   show this help message and exit
  --debug      show tracebacks and ADK's own messages
  --html FILE  write a page, too

exit codes: 0 nothing differs, 1 something does, 2 wrong usage
""",
    "new": """\
usage: adk-fluent new [-h] [--debug] DIR

Make an agent folder that `adk web` opens.

positional arguments:
  DIR

options:
  -h, --help  show this help message and exit
  --debug     show tracebacks and ADK's own messages
""",
    "serve": """\
usage: adk-fluent serve [-h] [--debug] [--host HOST] [--port N] [--store PLACE] [--durable]
                        [--token-env NAME] [--endpoint URL]
                        TARGET

Serve a pipeline over A2A, for other agents to call.

positional arguments:
  TARGET

options:
  -h, --help        show this help message and exit
  --debug           show tracebacks and ADK's own messages
  --host HOST       where to listen; 127.0.0.1 unless given
  --port N          the port; 8000 unless given, 0 is a free one
  --store PLACE     keep sessions and tasks in this file or PostgreSQL database
  --durable         tasks go on after a crash of this process; needs --store
  --token-env NAME  the environment variable with a token to ask for
  --endpoint URL    what the card names, if not where it listens

"""
    + TARGETS,
    "tide": """\
usage: adk-fluent tide [-h] [--debug] [--json]

Say what the installed google-adk changed, and which methods that concerns.

options:
  -h, --help  show this help message and exit
  --debug     show tracebacks and ADK's own messages
  --json      the same as JSON

exit codes: 0 nothing changed, 1 something did, 2 wrong usage
""",
}


@pytest.mark.parametrize("command", HELP)
def test_the_help_of_each_command(cli: Cli, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command tells its arguments and options, and those that take a TARGET what that may be."""
    monkeypatch.setenv("COLUMNS", "200")
    done = cli(*command.split(), "--help")
    told = done.out.replace("-o FILE, --output FILE", "-o, --output FILE")  # as Python has it from 3.13 on
    assert (done.code, done.err, told.split()) == (0, "", HELP[command].split())
    assert done.out.endswith(f"\n\n{TARGETS}") is (TARGETS in HELP[command])


LETTER = (
    "Dear customer, we apologize for the inconvenience. We can book you on the next flight to London. "
    "Thank you for your patience."
)
DEMO = """\
adk-fluent demo · an airline's support desk
No model: the answers are written in advance, and everything else is real.

The pipeline
  ● triage → ticket
  │
  ƒ open_ticket → team
  │
  ◆ team
  ├─ booking    ● booking → draft
  ├─ billing    ● billing → draft
  └─ otherwise  ● technical → draft
  │
  ∥ at the same time
  ├─ ● tone → tone
  └─ ● sentiment → sentiment
  │
  ● reply → opening
  │
  ƒ write_letter → letter

you
  My flight to London was cancelled, I want to rebook

Loading google-adk …

● triage  internal
  {"team": "booking"}
  → ticket

ƒ open_ticket
  → team = booking

◆ team: booking
● booking  internal
  {"reply": "We can book you on the next flight to London."}
  → draft

∥ at the same time: tone, sentiment
● tone  internal
  {"tone": "upset"}
  → tone

● sentiment  internal
  {"sentiment": "negative"}
  → sentiment

● reply
  {"reply": "Dear customer, we apologize for the inconvenience."}
  → opening

ƒ write_letter
  → letter = Dear customer, we apologize for the inconvenience. We can b…

The letter
  LETTER

The state
  ticket     {"team": "booking"}
  team       booking
  draft      {"reply": "We can book you on the next flight to London."}
  tone       {"tone": "upset"}
  sentiment  {"sentiment": "negative"}
  opening    {"reply": "Dear customer, we apologize for the inconvenienc…
  letter     Dear customer, we apologize for the inconvenience. We can b…

Make one of your own: adk-fluent new my_agent
"""


def test_every_line_of_the_scripted_demo(cli: Cli) -> None:
    """The pipeline, the customer, each step with what it wrote, and what came of it; nothing else."""
    done = cli("demo", "--scripted")
    assert (done.code, done.err) == (0, "")
    assert done.out == DEMO.replace("LETTER", LETTER)


def test_what_the_agents_of_the_demo_are_told() -> None:
    """Each clerk has one short instruction, sees what the customer wrote, and answers with one field."""
    found = support("m").llm_anatomy()
    assert {name: one.system.splitlines()[0] for name, one in found.items()} == {
        "triage": '"Classify the message as booking, billing or technical.',
        "booking": '"You help airline customers to book a flight."',
        "billing": '"You help customers with payments and refunds."',
        "technical": '"You help customers with the app and the website."',
        "tone": '"Say if the customer is calm or upset.',
        "sentiment": '"Classify the sentiment of the message."',
        "reply": '"You write the last answer to an airline customer."',
    }
    assert {one.history for one in found.values()} == {"PART, C.user_only(): user"}
    assert {name: one.after for name, one in found.items()} == {
        name: f'response stored → state["{key}"]'
        for name, key in [
            ("triage", "ticket"),
            ("booking", "draft"),
            ("billing", "draft"),
            ("technical", "draft"),
            ("tone", "tone"),
            ("sentiment", "sentiment"),
            ("reply", "opening"),
        ]
    }
    assert all(one.constraint.startswith("must return ") for one in found.values())
    assert support("m").check().ok


@pytest.mark.parametrize(
    ("pipeline", "code", "counts"),
    [
        ("Agent('a').instruct('A.')", 0, "No problems found."),
        ("Agent('a')", 0, "1 note."),
        ("A.writes('x') >> Agent('b').reads('x').instruct('B.')", 0, "No problems found; 1 promise holds."),
        ("A >> Agent('b').context(C.none()).instruct('B.')", 0, "1 warning."),
        ("Agent('a').instruct('{s} {t}')", 1, "2 errors."),
        (
            "A >> Agent('b').context(C.none()).instruct('{s}')",
            1,
            "1 error, 1 warning.",
        ),
    ],
)
def test_the_count_of_findings(cli: Cli, tmp_path: Path, pipeline: str, code: int, counts: str) -> None:
    """The last line of a check says how many errors, warnings, notes and promises there are."""
    begin = "from adk_fluent import Agent, C\nA = Agent('a').instruct('A.')\n"
    (tmp_path / "some.py").write_text(f"{begin}pipeline = {pipeline}\n")
    done = cli("check", "some.py:pipeline")
    assert (done.code, done.err, done.out.splitlines()[-1]) == (code, "", counts)


def test_what_a_check_of_ones_own_prints_is_no_report(cli: Cli, tmp_path: Path) -> None:
    """What a predicate prints while a run is previewed goes to stderr."""
    (tmp_path / "some.py").write_text(
        "from adk_fluent import Agent\n"
        "pipeline = Agent('a').proceed_if(lambda state: print('asked') or True)\n"
    )
    done = cli("preview", "some.py", "hi")
    assert (done.code, done.err) == (0, "asked\n")
    assert "asked" not in done.out
    assert cli("preview", "some.py", " ").err == "adk-fluent: PROMPT is empty.\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("first\n  second"), "first second"),
        (KeyError(), "KeyError"),
        (ValueError(" \n"), "ValueError"),
        ("", ""),
        ("x" * 400, "x" * 400),
        ("x" * 401, "x" * 399 + "…"),
    ],
)
def test_an_error_is_one_line(error: BaseException | str, line: str) -> None:
    """A message on one line of at most 400 characters; an error without words is named by its class."""
    assert one_line(error) == line
