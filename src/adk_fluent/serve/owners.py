"""Whose a task is: callers find their own alone."""

from __future__ import annotations

from typing import Any, Final

OWNER: Final = "adk_fluent_owner"
"""Where a stored task says whose it is; callers never see it."""


def name_of(call_context: Any) -> str:
    """The name of the user who makes a call, as they were let in; empty where nobody is asked for it."""
    user = getattr(call_context, "user", None)
    return str(getattr(user, "user_name", "")) if getattr(user, "is_authenticated", False) else ""


class Owned:
    """A task store of a2a-sdk 0.3, which by itself gives every task to everybody; 1.x keeps them apart.

    Args:
        store: where the tasks are.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def save(self, task: Any, context: Any = None) -> None:
        """Keep a task as that of the caller."""
        metadata: dict[str, Any] = {**(task.metadata or {}), OWNER: name_of(context)}
        await self._store.save(task.model_copy(update={"metadata": metadata}), context)

    async def get(self, task_id: str, context: Any = None) -> Any:
        """A task of the caller; `None` for one of somebody else, as for one that is not there."""
        task = await self._store.get(task_id, context)
        if task is None:
            return None
        metadata: dict[str, Any] = dict(task.metadata or {})
        if metadata.pop(OWNER, "") != name_of(context):
            return None
        return task.model_copy(update={"metadata": metadata or None})
