"""What a session store refuses or cannot do, told in one line of ours with its own error as the cause."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any, Final, cast

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService
from pydantic_core import to_json

from adk_fluent.backends.adk.events.branch_sessions import really
from adk_fluent.errors import (
    ADKFluentError,
    SessionConflictError,
    SessionError,
    SessionStoreError,
    sentence,
    what_happened,
)


@contextmanager
def telling_of(service: BaseSessionService, session_id: object) -> Generator[None]:
    """Tell in our words what the session service raises; other errors pass as they are.

    Args:
        session_id: the session that is read or written.

    Raises:
        SessionConflictError: somebody else wrote to the session since it was read.
        SessionStoreError: the store could not be reached, or could not do what it was asked.
    """
    try:
        yield
    except ADKFluentError:
        raise
    except Exception as error:
        if not _from_store(error):
            raise
        raise _told(error, service, session_id) from error


def _from_store(error: BaseException) -> bool:
    """Whether a method of a session service raised it, or was on the way of it.

    ADK has no class for that: it is a plain `ValueError` before 2.x, or whatever a database's driver raises.
    """
    return any(
        isinstance(frame.f_locals.get("self"), BaseSessionService)
        for frame, _ in walk_tb(error.__traceback__)
    )


def _told(error: Exception, service: BaseSessionService, session_id: object) -> SessionError:
    store = type(really(service)).__name__
    if _is_stale(error) or _already_there(error):
        return SessionConflictError(
            f"Another run wrote to session {session_id!r} while this one ran, so {store} took no more of "
            "this one. What the other run wrote is kept. Send the prompt again: it goes on from there."
        )
    cause = getattr(error, "orig", None) or error  # SQLAlchemy's own text repeats the statement and its data
    told = sentence(what_happened(cause))
    kept = f"{told} What it took before is kept."
    if _unreachable(error):
        return SessionStoreError(
            f"{store} cannot reach the database of session {session_id!r}: {kept} "
            "Send the prompt again when the database answers."
        )
    refused = _refused_value(error)
    where = f" and cannot store {refused}" if refused else ""
    return SessionStoreError(f"{store} failed with session {session_id!r}{where}: {kept}")


def _refused_value(error: Exception) -> str | None:
    """The key and the writer of the state that a store could not write; `None` if it was something else."""
    for frame, _ in walk_tb(error.__traceback__):
        if not isinstance(frame.f_locals.get("self"), BaseSessionService):
            continue
        event = frame.f_locals.get("event")
        is_event = isinstance(event, Event)
        state: object = event.actions.state_delta if is_event else frame.f_locals.get("state")
        if not isinstance(state, dict):
            continue
        for key, value in cast("dict[str, object]", state).items():
            if not _can_be_written(value, plainly=isinstance(error, TypeError)):
                return f"state key {key!r}" + (f", which {event.author!r} wrote" if is_event else "")
    return None


def _can_be_written(value: object, *, plainly: bool) -> bool:
    """Whether a value can be copied and written as JSON; `plainly` as JSON alone, as older releases do."""
    try:
        to_json(copy.deepcopy(value))
        if plainly:
            json.dumps(value)
    except Exception:  # noqa: BLE001  # a value may raise anything
        return False
    return True


_STALE: Final = ("stale session", "modified in storage since")
"""What ADK says of a writer whose copy of the session is old; its class for it is private, and of 2.x."""


def _is_stale(error: Exception) -> bool:
    return isinstance(error, ValueError) and any(words in str(error) for words in _STALE)


def _already_there(error: Exception) -> bool:
    """Whether two runs made the same session, or the first of one user or app, at once."""
    return isinstance(error, AlreadyExistsError) or _is_sql(error, "IntegrityError")


def _unreachable(error: Exception) -> bool:
    broken: Any = getattr(error, "connection_invalidated", False)
    return bool(broken) or isinstance(error, OSError) or _is_sql(error, "InterfaceError") or _locked(error)


def _locked(error: Exception) -> bool:
    """Whether another process holds a file of SQLite, which waits for a few seconds and then says so."""
    cause = getattr(error, "orig", None) or error
    return type(cause).__name__ == "OperationalError" and "database is locked" in str(cause)


def _is_sql(error: Exception, *names: str) -> bool:
    """Whether SQLAlchemy raised one of these; it is there only where a service uses it."""
    module = sys.modules.get("sqlalchemy.exc")
    return module is not None and isinstance(error, tuple(getattr(module, name) for name in names))
