"""How steps are done: how long, how often, and how soon a dead worker is noticed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from adk_fluent.config import CompactionConfig, ContextCacheConfig, ExecutionConfig
from adk_fluent.errors import ArgumentError, BackendError
from adk_fluent.middleware.arguments import of_type


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPolicy:
    """How a durable engine does the steps of a run: model calls, tools, callbacks, functions.

    An error that a step raises is not tried again by the engine: it reaches the run, where fallbacks and the
    `retry` middleware see it as on any backend. What is tried again is a step whose worker died or hung.

    Attributes:
        timeout: seconds that one attempt may take.
        heartbeat: seconds without a sign of life after which a worker is taken for dead.
        attempts: how often a step is begun; then the run fails, and names it.

    Raises:
        ArgumentError: a value is out of range.
    """

    timeout: float = 600.0
    heartbeat: float = 5.0
    attempts: int = 5

    def __post_init__(self) -> None:
        for name in ("timeout", "heartbeat"):
            check_seconds("StepPolicy", name, getattr(self, name))
        attempts = cast(object, self.attempts)
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise ArgumentError(f"StepPolicy(attempts={attempts!r:.40}): it is a positive whole number.")


def check_seconds(owner: str, name: str, value: object) -> None:
    """Refuse what is no time that the engine takes.

    Raises:
        ArgumentError: it is none; the message names the argument and whose it is.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ArgumentError(f"{owner}({name}={value!r:.40}): it is a positive number of seconds.")


def policy_of(given: object, owner: str) -> StepPolicy:
    """The policy that a backend was given, or the default one for `None`.

    Raises:
        ArgumentError: it is something else.
    """
    of_type(given, StepPolicy | None, f"{owner}(policy=)", "a StepPolicy(timeout=, heartbeat=, attempts=)")
    return StepPolicy() if given is None else cast(StepPolicy, given)


def config_json(config: ExecutionConfig) -> dict[str, Any]:
    """A configuration as JSON, for the worker.

    Raises:
        BackendError: it has what only a worker can have.
    """
    if config.telemetry is not None:
        raise BackendError(
            "TemporalBackend cannot send ExecutionConfig(telemetry=) to its workers, since exporters are "
            "live objects. Give it to run_worker(telemetry=), and leave it out here."
        )
    return asdict(replace(config, contracts="off", durable=None))


def config_of(data: dict[str, Any]) -> ExecutionConfig:
    """The configuration that `config_json` wrote."""
    given = dict(data)
    if given["compaction"] is not None:
        given["compaction"] = CompactionConfig(**given["compaction"])
    if given["context_cache"] is not None:
        given["context_cache"] = ContextCacheConfig(**given["context_cache"])
    return ExecutionConfig(**given)
