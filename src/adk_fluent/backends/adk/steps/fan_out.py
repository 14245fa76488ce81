"""`|`: branches that run at once, each on a conversation branch of its own."""

from __future__ import annotations

from contextlib import aclosing

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from pydantic import BaseModel, Field

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.steps.branches import Turns, branch_below, on_branch
from adk_fluent.backends.adk.steps.checkpoints import has_ended, is_below, since_checkpoint
from adk_fluent.backends.adk.steps.composites import Composite
from adk_fluent.backends.adk.steps.concurrency import interleave
from adk_fluent.backends.adk.steps.leaves import Events
from adk_fluent.backends.adk.steps.seen import Seen


class FanOutState(BaseModel):
    """Which branches are done."""

    done: list[str] = Field(default_factory=list[str])


class FanOutComposite(Composite):
    """Runs its children at once; one that escalates, where no loop is around, ends them all."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        state = private.load_state(self, ctx, FanOutState)
        if ctx.is_resumable and state is None:
            yield private.checkpoint(self, ctx, FanOutState())
        passed = since_checkpoint(ctx, self, FanOutState()) if state else []
        done = state.done if state else []
        children = [child for child in self.sub_agents if self._runs(child, ctx, passed, done)]
        seen = [Seen() for _ in children]
        turns = Turns(ctx)
        sources = [
            self.relay(child, on_branch(turns.ctx, self._branch(child)), noted)
            for child, noted in zip(children, seen, strict=True)
        ]
        # What follows a failure in its own branch tells whether it was caught, so that goes first.
        run = interleave(
            sources,
            alone=lambda index: bool(seen[index].problems),
            afoot=runs.afoot(ctx),
            turn=turns.lock,
            due=runs.due(ctx, self.name),
            failed=runs.failed(ctx, self.name),
        )
        async with aclosing(run) as events:
            async for index, event in events:
                if event is not None:
                    yield event
                    if self.is_ended_by(event, children[index]):
                        break
                elif seen[index].problems:
                    return
                elif ctx.is_resumable and not seen[index].paused:
                    done = [*done, children[index].name]
                    yield private.checkpoint(self, ctx, FanOutState(done=done))
        if ctx.is_resumable and not any(noted.paused for noted in seen):
            yield private.finished(self, ctx)

    def _runs(self, child: BaseAgent, ctx: InvocationContext, passed: list[Event], done: list[str]) -> bool:
        """Whether a branch has anything left to do; after an escalation, only if it waits for a person."""
        branch = branch_below(ctx, self._branch(child))
        own = [event for event in passed if is_below(event, branch)]
        if child.name in done or has_ended(child, own):
            return False
        is_over = any(
            self.is_ended_by(event, each)
            for each in self.sub_agents
            for event in passed
            if is_below(event, branch_below(ctx, self._branch(each)))
        )
        return not is_over or any(event.long_running_tool_ids for event in own)

    def _branch(self, child: BaseAgent) -> str:
        return f"{self.name}.{child.name}"
