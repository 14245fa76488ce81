"""Check a pipeline: `check_all` and `check_contracts` on request, `check_on_build` for each build and run."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeVar

from adk_fluent.analysis.facts import Facts, analyse, was_built
from adk_fluent.config import ExecutionConfig, execution_config
from adk_fluent.contracts.certainty import must_fail
from adk_fluent.contracts.findings import confirmations
from adk_fluent.contracts.refusals import raise_first
from adk_fluent.contracts.report import ContractIssue, ContractReport, Severity, run_checkers
from adk_fluent.contracts.tree_rules import depth_refusals
from adk_fluent.errors import ArgumentError, ContractError, UnfilledKeyError
from adk_fluent.ir.base import Node, root_of, walk
from adk_fluent.state.fidelity import given_state
from adk_fluent.state.schema import StateSchema

K = TypeVar("K")
Kind = frozenset[tuple[str, str]]
"""The part of a state on which findings depend: its keys, and the types of their values."""
_logged: dict[int, None] = {}
"""The hashes of trees whose findings were logged. Trees as keys would keep everything in them alive."""
_counted: dict[int, None] = {}
"""The hashes of trees whose findings were counted as a metric."""
_startable: dict[tuple[int, Kind], None] = {}
"""The hashes of trees of which a run may succeed, each with the kind of its initial state."""
_checked: ContextVar[Node | None] = ContextVar("adk_fluent_checked", default=None)
_REMEMBERED: Final = 256
"""The most trees in each of `_logged`, `_counted` and `_startable`."""


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
        schema: a `StateSchema` with which the whole pipeline is compared.
        state: the session's state before the run.
        config: the `ExecutionConfig` of the run.
        strict: make warnings and notes errors.

    Raises:
        ArgumentError: `x` is something else, or an option has the wrong type.

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
    return ContractReport.of([*run_checkers(facts), *confirmations(iter(facts.reads))], strict=strict)


def check_contracts(x: object, schema: type | None = None) -> list[ContractIssue]:
    """The warnings and errors of `check_all`, as a list.

    Args:
        x: as for `check_all`.
        schema: a `StateSchema` with which the whole pipeline is compared.

    Example:
        >>> from adk_fluent import Agent
        >>> check_contracts(Agent("a").writes("x") >> Agent("b").instruct("{x}"))
        []
    """
    report = check_all(x, schema=schema)
    return [*report.errors, *report.warnings]


def _config_of(x: object) -> object | None:
    """The resumability of an `App`. One that was built from a pipeline with a gate can resume by default."""
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
    """Check an expression that is built: log its findings and count them as a metric once, or refuse it.

    Args:
        state: the session's state before the run; `None` if that is not known.
        mode: `log` logs on `adk_fluent.contracts`, once per tree; `error` refuses errors; `off` checks
            nothing, except under `.strict()`, which refuses errors and warnings; `None` logs, and refuses a
            run that must fail in a new session with this state.

    Raises:
        ContractError: there are findings that the expression, or the mode, refuses.
        UnfilledKeyError: the run must fail because a key is missing.
        ExpressionError: the steps are nested too deep for a run.
    """
    if _checked.get() is root:
        return
    raise_first(depth_refusals(root))
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
    """The keys of a state and the types of their values: findings depend on nothing else in it."""
    return frozenset((key, type(value).__qualname__) for key, value in state.items())


@contextmanager
def checked_once(root: Node, config: ExecutionConfig, state: Mapping[str, Any] | None) -> Generator[None]:
    """Check a tree as building does; a backend that compiles it inside the block does not check it again.

    Args:
        state: the session's state before the run; `None` if that is not known.

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
    """True if metrics are exported: a `TelemetryConfig` or the application has set that up."""
    telemetry = getattr(config, "telemetry", None)
    if telemetry is not None:
        from adk_fluent.telemetry.setup import set_up

        set_up(telemetry)  # before the counting: earlier counts are lost
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
    import logging  # imported late: `check_all` does not log

    logger = logging.getLogger("adk_fluent.contracts")
    levels = {Severity.ERROR: logging.ERROR, Severity.WARN: logging.WARNING, Severity.INFO: logging.INFO}
    for issue in issues:
        logger.log(levels[issue.severity], "%s: %s", issue.code, issue)


def _remember(known: dict[K, None], key: K) -> None:
    if len(known) >= _REMEMBERED:
        del known[next(iter(known))]
    known[key] = None
