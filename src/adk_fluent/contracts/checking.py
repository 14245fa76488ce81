"""`check_all` and `check_contracts`, and what building does with their findings."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeVar

from adk_fluent.analysis.facts import Facts, analyse, was_built
from adk_fluent.config import ExecutionConfig, execution_config
from adk_fluent.contracts.certainty import must_fail
from adk_fluent.contracts.findings.missing import fine
from adk_fluent.contracts.refusals import nesting, refuse
from adk_fluent.contracts.registry import run_checkers
from adk_fluent.contracts.report import ContractIssue, ContractReport, Severity
from adk_fluent.errors import ArgumentError, ContractError, UnfilledKeyError
from adk_fluent.ir.base import Node, root_of, walk
from adk_fluent.state.fidelity import given_state
from adk_fluent.state.schema import StateSchema

K = TypeVar("K")
Kind = frozenset[tuple[str, str]]
"""What of a state the check takes notice of: its keys, and the types of their values."""
_logged: dict[int, None] = {}
"""The hashes of trees whose findings were logged; the trees themselves would be kept with all they hold."""
_counted: dict[int, None] = {}
"""The hashes of trees whose findings were counted as a metric."""
_startable: dict[tuple[int, Kind], None] = {}
"""The hashes of trees of which a run may succeed, each with the kind of state it begins with."""
_checked: ContextVar[Node | None] = ContextVar("adk_fluent_checked", default=None)
_REMEMBERED: Final = 256
"""How many trees are remembered as logged, as counted, and as ones that may be run."""


def check_all(
    x: object,
    *,
    schema: type | None = None,
    state: Mapping[str, Any] | None = None,
    config: object | None = None,
    strict: bool = False,
) -> ContractReport:
    """Check a pipeline without running it.

    Args:
        x: an expression, an IR node, or a native agent or `App` that adk-fluent built.
        schema: a `StateSchema` that the whole pipeline is held against.
        state: what will be in the session's state before the run.
        config: the `ExecutionConfig` it will run under.
        strict: make warnings and notes errors.

    Raises:
        ArgumentError: `x` is none of these, or an option is of the wrong kind.

    Example:
        >>> from adk_fluent import Agent
        >>> pipeline = Agent("a").writes("summery") >> Agent("b").instruct("Present {summary}.")
        >>> print(check_all(pipeline).errors[0])
        ✗ b reads {summary} in instruction: ERROR
          No step writes "summary", and it is not in the initial state.
          Did you mean "summery"?
          If you mean the text {summary}, write \\{summary}.
    """
    if schema is not None and not (isinstance(schema, type) and issubclass(schema, StateSchema)):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        shown = schema.__name__ if isinstance(schema, type) else f"{schema!r:.60}"  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
        raise ArgumentError(f"schema= takes a subclass of StateSchema, not {shown}.")
    if config is not None:
        execution_config(config)
    if state is not None:
        given_state(state)
    config = config or _config_of(x)
    if schema is None and not state and config is None:
        facts = analyse(x)
    else:
        facts = Facts(root_of(x), schema=schema, state=state, config=config, resolved=was_built(x))
    return ContractReport.of([*run_checkers(facts), *fine(iter(facts.reads))], strict=strict)


def check_contracts(x: object, schema: type | None = None) -> list[ContractIssue]:
    """The warnings and errors of `check_all`, as a list.

    Args:
        x: what `check_all` takes.
        schema: a `StateSchema` that the whole pipeline is held against.

    Example:
        >>> from adk_fluent import Agent
        >>> check_contracts(Agent("a").writes("x") >> Agent("b").instruct("{x}"))
        []
    """
    report = check_all(x, schema=schema)
    return [*report.errors, *report.warnings]


def _config_of(x: object) -> object | None:
    """What an `App` says about resuming; one built of a pipeline with a gate says yes unless told no."""
    if not hasattr(x, "resumability_config"):
        return None
    given: object = getattr(x, "resumability_config", None)
    return _Resumable(bool(getattr(given, "is_resumable", False)))


class _Resumable:
    def __init__(self, resumable: bool) -> None:
        self.resumable = resumable


# --- building -------------------------------------------------------------------------------------


def check_on_build(
    root: Node,
    *,
    config: object | None = None,
    state: Mapping[str, Any] | None = None,
    mode: Literal["log", "error", "off"] | None = "log",
) -> None:
    """What building an expression does: log the findings and count them as a metric, each once, or refuse.

    Args:
        state: what will be in the session's state; `None` if that is not known.
        mode: `log` logs on `adk_fluent.contracts`, once per tree; `error` refuses errors; `off` checks
            nothing, except under `.strict()`, which refuses errors and warnings; `None` logs, and refuses a
            run that must fail in a new session with this state.

    Raises:
        ContractError: there are findings that the expression, or the mode, refuses.
        UnfilledKeyError: the run must fail for want of a key.
        ExpressionError: the steps stand so deep inside each other that no run would get through.
    """
    if _checked.get() is root:
        return
    refuse(nesting(root))
    strict = any(node.annotations.strict for node in walk(root))
    new = hash(root) not in _logged
    counts = mode != "off" and hash(root) not in _counted and _is_measured(config)
    begun = None if mode is not None or state is None else (hash(root), kind_of(state))
    starts = begun is not None and begun not in _startable
    reports = strict or mode == "error" or (mode != "off" and (new or counts))
    if not reports and not starts:
        return
    facts = Facts(root, config=config, state=state, open_state=state is None)
    report = ContractReport.of(run_checkers(facts)) if reports else ContractReport()
    if counts:
        _remember(_counted, hash(root))
        _count(report, root.name)
    refused = [*report.errors, *(report.warnings if strict else ())]
    if refused and (strict or mode == "error"):
        raise ContractError("\n".join(map(str, refused)))
    if starts and (why := must_fail(facts)):
        raise UnfilledKeyError(why)
    if starts and begun is not None:
        _remember(_startable, begun)
    if new:
        _remember(_logged, hash(root))
        _log(report.issues)


def kind_of(state: Mapping[str, Any]) -> Kind:
    """What of a state the check takes notice of."""
    return frozenset((key, type(value).__qualname__) for key, value in state.items())


@contextmanager
def checked_once(root: Node, config: ExecutionConfig, state: Mapping[str, Any] | None) -> Generator[None]:
    """What building does, for whichever backend compiles the tree inside; it is not checked again there.

    Args:
        state: what will be in the session's state; `None` if that is not known.

    Raises:
        ContractError: as `check_on_build`.
    """
    check_on_build(root, config=config, state=state, mode=config.contracts)
    token = _checked.set(root)
    try:
        yield
    finally:
        _checked.reset(token)


def _is_measured(config: object | None) -> bool:
    """Whether metrics go anywhere: a `TelemetryConfig` sets that up, or the application has done so."""
    telemetry = getattr(config, "telemetry", None)
    if telemetry is not None:
        from adk_fluent.telemetry.setup import set_up

        set_up(telemetry)  # what is counted before goes nowhere
    if "opentelemetry.metrics" not in sys.modules:
        return False
    from adk_fluent.telemetry.metrics import are_heard

    return are_heard()


def _count(report: ContractReport, pipeline: str) -> None:
    """Measure the errors and warnings of a report; see `adk_fluent.telemetry.METRICS`."""
    from adk_fluent.telemetry.metrics import instruments

    for issue in (*report.errors, *report.warnings):
        labels = {"code": issue.code, "severity": issue.severity.value, "pipeline": pipeline}
        instruments().violations.add(1, labels)


def _log(issues: Iterable[ContractIssue]) -> None:
    import logging  # what only checks has no use for it

    logger = logging.getLogger("adk_fluent.contracts")
    levels = {Severity.ERROR: logging.ERROR, Severity.WARN: logging.WARNING, Severity.INFO: logging.INFO}
    for issue in issues:
        logger.log(levels[issue.severity], "%s: %s", issue.code, issue)


def _remember(known: dict[K, None], key: K) -> None:
    if len(known) >= _REMEMBERED:
        del known[next(iter(known))]
    known[key] = None
