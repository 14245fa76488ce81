"""`race`: branches that run at once until the first succeeds, each apart from the session."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.steps.branches import Attempt, on_branch
from adk_fluent.backends.adk.steps.composites import Composite, Seen
from adk_fluent.backends.adk.steps.concurrency import cancel
from adk_fluent.backends.adk.steps.leaves import Events, Position
from adk_fluent.errors import MockError


class RaceComposite(Composite):
    """Runs its children at once, each apart from the session, and passes on only what the winner did."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        if start.resuming:  # it is decided: only the winner goes on
            winner = self.sub_agents[start.index]
            branch = on_branch(ctx, self._branch(winner))
            async with aclosing(self.only(winner, ctx, start, branch)) as events:
                async for event in events:
                    yield event
            return
        winner, attempt, seen = await self._race(ctx)
        if ctx.is_resumable:
            yield private.checkpoint(self, ctx, Position(child=winner.name))
        for event in attempt.pass_on():
            yield with_temporary(ctx, event)
        if ctx.is_resumable and not seen.unfinished:
            yield private.finished(self, ctx)

    async def _race(self, ctx: InvocationContext) -> tuple[BaseAgent, Attempt, Seen]:
        """The first branch to succeed; else the first that waits for a person; else the first failure."""
        branches = [(child, Attempt(ctx, self._branch(child)), Seen()) for child in self.sub_agents]
        tasks = [asyncio.ensure_future(self._attempt(*branch)) for branch in branches]
        try:
            running = set(tasks)
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if _raised(task, MockError):
                        await task  # the test's script is wrong, not the branch
                for branch, task in zip(branches, tasks, strict=True):
                    if task in done and not _raised(task) and not branch[2].unfinished:
                        return branch
        finally:
            await cancel(tasks)
        ended = list(zip(branches, tasks, strict=True))
        for branch, task in ended:
            if not _raised(task) and branch[2].paused:
                return branch
        branch, task = next((entry for entry in ended if _raised(entry[1])), ended[0])
        await task  # raises what the branch raised, as it is
        return branch

    async def _attempt(self, child: BaseAgent, attempt: Attempt, seen: Seen) -> None:
        async with aclosing(self.relay(child, attempt.ctx, seen)) as events:
            async for event in events:
                await attempt.hear(event)

    def _branch(self, child: BaseAgent) -> str:
        return f"{self.name}.{child.name}"


def _raised(task: asyncio.Task[None], kind: type[BaseException] = BaseException) -> bool:
    """Whether a branch that ended did so by an exception; a cancellation from inside it is one."""
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    return isinstance(error, kind)
