"""The workflows that a worker holds in memory, and how they end with it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeAlias
from weakref import WeakSet

from temporalio.bridge.proto.workflow_activation import (
    RemoveFromCache,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
)

Activate: TypeAlias = Callable[[WorkflowActivation], WorkflowActivationCompletion]


class Instances(UnsandboxedWorkflowRunner):
    """Runs workflows as they are, and lets go of those that a worker still holds when it ends.

    A worker that shuts down forgets the runs it has in memory. Their coroutines would be destroyed whenever
    Python collects garbage, in whatever thread that happens to be: outside of any workflow.
    """

    def __init__(self) -> None:
        self._made = WeakSet[WorkflowInstance]()

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """A workflow in memory."""
        made = super().create_instance(det)
        setattr(made, "activate", _one_at_a_time(made.activate))  # noqa: B010  # it is one of the class
        self._made.add(made)
        return made

    def let_go(self) -> None:
        """Cancel what is left in each of them, as the engine does with one that it removes from its cache.

        Nothing that workflows do then has an effect. To be called when no worker uses them any more.
        """
        for instance in list(self._made):
            instance.activate(_LET_GO)


def _one_at_a_time(activate: Activate) -> Activate:
    """Decide a run by one thread at a time.

    Temporal's library gives up on a thread that blocks, and at once has another one be rid of the run. That
    must wait until the first has come back, or what both leave behind can never be let go of.
    """
    lock = Lock()

    def alone(act: WorkflowActivation) -> WorkflowActivationCompletion:
        with lock:
            return activate(act)

    return alone


_LET_GO = WorkflowActivation(jobs=[WorkflowActivationJob(remove_from_cache=RemoveFromCache())])
