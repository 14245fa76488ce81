"""Does the steps of a workflow as activities, and runs its segments as child workflows."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final, cast

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    TimeoutError,
    is_cancelled_exception,
)

from adk_fluent.backends.adk.api import ids
from adk_fluent.backends.adk.durable.failures import raise_again
from adk_fluent.backends.adk.durable.pieces import Pieces
from adk_fluent.backends.adk.durable.steps import Json, Step, use
from adk_fluent.backends.temporal.hands import ALONE
from adk_fluent.backends.temporal.policy import StepPolicy
from adk_fluent.backends.temporal.sizes import SMALLER, check_history, check_size
from adk_fluent.backends.temporal.versions import parts_of
from adk_fluent.errors import EngineError, RunError

_DIED: Final = ("TemporalTimeout:Heartbeat", "TemporalTimeout:StartToClose")
"""What Temporal calls the failure of a step whose worker died or hung."""


class Difference(Exception):
    """A run asks for another step than its history has; the worker has other code than the run began with.

    It fails the task of the workflow, not the run, which goes on with a worker that has the right code.
    """


class TemporalEngine:
    """Does steps as activities of the workflow at hand.

    Attributes:
        difference: why the history cannot be that of this code; then the task of the run is cancelled.
    """

    def __init__(self, policy: StepPolicy, patience: float) -> None:
        self.policy: StepPolicy = policy
        self._patience = patience
        self._answers: dict[str, Pieces] = {}
        self._children: dict[str, list[list[Json]]] = {}
        self._calls = self._on = self._steps = 0
        self._run = asyncio.current_task()
        self.difference: Difference | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._on and not self._children

    async def do(self, step: Step) -> Json:
        """What the step gives, from the activity, or from the history."""
        done = await self._begun(step, "")
        return done["given"]

    async def stream(self, step: Step) -> AsyncGenerator[Json, None]:
        """The pieces as the activity signals them, then what it gives."""
        self._calls += 1
        call = str(self._calls)
        answer = self._answers[call] = Pieces()
        task = asyncio.ensure_future(self._begun(step, call))
        try:
            while answer.waiting or not task.done():
                await workflow.wait_condition(lambda: bool(answer.waiting) or task.done())
                for piece in answer.take():
                    yield piece
            done = await task
            if (rest := done["pieces"]) is not None:
                answer.hear(rest["attempt"], rest["pieces"], rest["first"])
            for piece in answer.take():
                yield piece
            yield done["given"]
        finally:
            del self._answers[call]
            task.cancel()

    async def child(
        self, name: str, asked: dict[str, Json], queue: str, what: str
    ) -> AsyncGenerator[Json, None]:
        """What a child workflow on another queue tells, then what it gives.

        Args:
            what: what it is, for messages.

        Raises:
            EngineError: none did.
        """
        seconds = self._patience
        asked = {**asked, "policy": asdict(self.policy), "patience": seconds}
        self._calls += 1
        call = f"{workflow.info().workflow_id}/{self._calls}"
        told = self._children[call] = []
        handle = await workflow.start_child_workflow(
            name,
            asked,
            id=call,
            task_queue=queue,
            task_timeout=workflow.info().task_timeout,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
        )
        try:
            try:
                await workflow.wait_condition(
                    lambda: bool(told) or handle.done(), timeout=timedelta(seconds=seconds)
                )
            except builtins.TimeoutError:
                raise EngineError(
                    f"No worker took up the {what} within {seconds:g} s: none listens on the task queue "
                    f"{queue!r}. Start one (adk-fluent worker TARGET --segment NAME)."
                ) from None
            while told or not handle.done():
                await workflow.wait_condition(lambda: bool(told) or handle.done())
                while told:
                    for piece in told.pop(0):
                        yield piece
            try:
                yield await handle
            except ChildWorkflowError as error:
                cause = error.cause
                if is_cancelled_exception(error):
                    raise asyncio.CancelledError from None
                if isinstance(cause, ApplicationError) and cause.details:
                    raise_again(cast("Mapping[str, Json]", cause.details[0]))
                raise
        finally:
            del self._children[call]
            if not handle.done():
                handle.cancel()

    def told(self, call: str, pieces: list[Json]) -> None:
        """Take what a child workflow tells; the first time, that it has begun."""
        if call in self._children:
            self._children[call].append(pieces)

    def heard(self, call: str, attempt: int, first: int, pieces: list[Json]) -> None:
        """Take pieces of an answer, the first of which has this number in the attempt."""
        if call in self._answers:
            self._answers[call].hear(attempt, pieces, first)

    async def _begun(self, step: Step, call: str) -> Json:
        info = workflow.info()
        check_history(info.get_current_history_length(), info.get_current_history_size())
        self._steps += 1
        of = {"kind": step.kind, "key": step.key, "agent": step.agent, **parts_of(step.data)}
        told: dict[str, Json] = {"of": of, "kind": step.kind, "key": step.key, "agent": step.agent}
        told |= {"data": dict(step.data), "number": self._steps}
        check_size(told, f"What the {step.kind} {step.key!r} is given", SMALLER)
        self._on += 1
        try:
            done = await self._done(step, self._attempts(step, [told, call]))
            if done["of"] != of:
                await self._differs(step, done["of"], of)
            return done
        finally:
            self._on -= 1

    async def _attempts(self, step: Step, args: list[Json]) -> Json:
        """What the activity gives; where a worker died with it, it runs alone from then on."""
        try:
            return await self._activity(step, args, self.policy.attempts, _DIED)
        except ActivityError as error:
            if not isinstance(error.cause, TimeoutError) or self.policy.attempts == 1:
                raise
        return await self._activity(step, args, self.policy.attempts - 1, (), ALONE)

    async def _activity(
        self, step: Step, args: list[Json], attempts: int, final: Sequence[str], where: str = ""
    ) -> Json:
        return await workflow.execute_activity(
            step.kind,
            args=args,
            task_queue=workflow.info().task_queue + where,
            start_to_close_timeout=timedelta(seconds=self.policy.timeout),
            heartbeat_timeout=timedelta(seconds=self.policy.heartbeat),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(milliseconds=100),
                maximum_attempts=attempts,
                non_retryable_error_types=final,
            ),
            summary=step.key,
        )

    async def _differs(self, step: Step, then: Mapping[str, Json], now: Mapping[str, Json]) -> None:
        """End the decisions of the run, past all that might catch an error in the tree."""
        names = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
        self.difference = Difference(
            f"{step.agent!r}: the run {workflow.info().workflow_id!r} recorded the {then['kind']} "
            f"{then['key']!r} of {then['agent']!r}, and this worker asks for the {step.kind} {step.key!r} "
            f"with other values of {', '.join(names)}. It has other code, settings or data than the run "
            "began with. Start a worker that has those, or cancel the run and begin it again."
        )
        assert self._run is not None
        self._run.cancel()
        await asyncio.Future()  # until it is

    async def _done(self, step: Step, activity: Any) -> Json:
        try:
            return await activity
        except ActivityError as error:
            cause = error.cause
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from None  # which nobody takes for a failure of the step
            if isinstance(cause, ApplicationError) and cause.details:
                raise_again(cast("Mapping[str, Json]", cause.details[0]))
            if isinstance(cause, TimeoutError):
                policy = self.policy
                often = "once" if policy.attempts == 1 else f"{policy.attempts} times"
                raise RunError(
                    f"{step.agent!r}: its {step.kind} {step.key!r} was begun {often} and "
                    f"never ended: each time its worker died, or took longer than {policy.timeout:g} s. See "
                    "the worker's log, or give the backend policy=StepPolicy(timeout=, attempts=)."
                ) from None
            raise


def engine_of(policy: StepPolicy, patience: float) -> TemporalEngine:
    """An engine that does the steps of the workflow at hand."""
    engine = TemporalEngine(policy, patience)
    use(engine)
    ids.deterministic(lambda: workflow.now().timestamp(), lambda: str(workflow.uuid4()), workflow.random)
    return engine
