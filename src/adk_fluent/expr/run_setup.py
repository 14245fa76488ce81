"""`RunSetup`: what one call of a terminal needs before it runs: options, backend, compiled form and session.

A compiled expression is kept for the expression, the backend, the configuration and the middleware. The
contract check runs once more for each kind of given state, because the state decides which keys are missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, cast

from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.protocol import Backend, SessionBackend, StoredSession
from adk_fluent.backends.reading import Reading
from adk_fluent.backends.recent import Recent, forms_of
from adk_fluent.backends.turns import user_said
from adk_fluent.config import ExecutionConfig, execution_config
from adk_fluent.contracts.check import check_on_build, checked_once, kind_of
from adk_fluent.errors import ArgumentError, BackendError
from adk_fluent.expr.options import SERVICES, checked
from adk_fluent.expr.reports import Reports
from adk_fluent.ir import Node, walk
from adk_fluent.middleware.checking import given_to
from adk_fluent.spelling import did_you_mean

_OPTIONS = (*SERVICES, "app_name", "user_id", "session_id", "state", "backend", "config", "middleware")


class RunSetup:
    """An expression together with the options of one call.

    Args:
        expression: the expression that runs.
        options: the options of the call, as in `RunOptions`.
        terminal: the method that was called, for messages.
        history: the events of earlier turns, for a backend that stores no sessions.

    Raises:
        ArgumentError: an option does not exist, or has the wrong type.
        BackendError: an option needs a backend that stores sessions, and the given one does not.
    """

    def __init__(
        self,
        expression: Reports,
        options: Mapping[str, Any],
        *,
        terminal: str = "run",
        history: Sequence[AgentEvent] = (),
    ) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise ArgumentError(f"A run has no option {name!r}.{did_you_mean(name, _OPTIONS)}")
        options = checked(options)
        self._expression = expression
        self._options: Mapping[str, Any] = options
        self._terminal = terminal
        self._history = tuple(history)
        self._user_id: str = options.get("user_id") or "user"
        self._config = execution_config(options.get("config"))
        if app_name := options.get("app_name"):
            self._config = replace(self._config, app_name=app_name)
        self._node = expression.node
        if (middleware := options.get("middleware")) is not None:
            self._node = given_to(self._node, middleware)
        if terminal in ("resume", "rewind"):
            self.check_stores(f"{terminal}()")
        for name in ("session_id", *SERVICES):
            if name in options:
                self.check_stores(f"{terminal}({name}=)", f"Leave {name} out")

    # --- what runs it -----------------------------------------------------------------------------

    @cached_property
    def backend(self) -> Backend:
        """The given backend or the default one; the local durable one if `config.durable` is set."""
        given = self._options.get("backend")
        if self._config.durable is not None:
            from adk_fluent.backends.temporal.local import local_backend

            return local_backend(given)
        if given is not None:
            return given
        from adk_fluent.backends.adk.api import default_backend

        return default_backend()

    @cached_property
    def sessions(self) -> SessionBackend | None:
        """The backend if it stores sessions, else `None`."""
        return self.backend if isinstance(self.backend, SessionBackend) else None

    def check_stores(self, what: str, instead: str = "") -> None:
        """Refuse a feature that needs stored sessions if the given backend stores none.

        Args:
            what: the feature, for the message.
            instead: another remedy than a different backend, for the message.

        Raises:
            BackendError: the backend stores no sessions.
        """
        if "backend" in self._options:
            self._storing(what, instead)

    def _storing(self, what: str, instead: str = "") -> SessionBackend:
        """Return the backend, which must store sessions; else raise `BackendError`."""
        if self.sessions is None:
            either = f"{instead}, or take" if instead else "Take"
            raise BackendError(
                f"{type(self.backend).__name__} stores no sessions, which {what} needs. "
                f"{either} a backend that does, such as ADKBackend()."
            )
        return self.sessions

    @property
    def compiled(self) -> Any:
        """The compiled expression; it is compiled once per expression, backend and configuration."""
        return self._form.compiled

    @cached_property
    def _form(self) -> _Form:
        backend, node, config = self.backend, self._node, self._config
        acting = tuple(map(id, node.annotations.middleware))  # the cached form keeps these objects alive
        given = cast("Mapping[str, Any] | None", self._options.get("state"))
        known = None if "session_id" in self._options else given or {}
        kind = None if known is None else kind_of(known)

        def make() -> tuple[_Form, Recent[None]]:
            form, checked = _form(backend, node, config, known), Recent[None]()
            checked.get(kind, lambda: None)
            return form, checked

        form, checked = forms_of(self._expression, backend).get((config, acting), make)
        checked.get(kind, lambda: check_on_build(node, config=config, state=known, mode=config.contracts))
        return form

    @property
    def _services(self) -> Mapping[str, Any]:
        """The services among the options, by name."""
        return {name: self._options[name] for name in SERVICES if name in self._options}

    def _arguments(self, prompt: Any, session_id: str, *, streaming: bool) -> dict[str, Any]:
        """The keyword arguments for the backend's `run` and `stream`.

        Raises:
            ArgumentError: the prompt is empty, or a message cannot hold it.
        """
        user_said(prompt)
        more = {"history": self._history} if self.sessions is None else {"services": self._services}
        return {
            "user_id": self._user_id,
            "session_id": session_id,
            "state": self._options.get("state") or {},
            "streaming": streaming,
            **more,
        }

    # --- the session ------------------------------------------------------------------------------

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Keep connections of tools, such as those to MCP servers, open inside this block."""
        if not any(getattr(node, "tools", ()) for node in walk(self._expression.node)):
            return nullcontext()
        from adk_fluent.backends.adk.api import OpenTools

        return OpenTools(self._expression.node).in_use()

    async def _session(self, sessions: SessionBackend, session_id: str) -> StoredSession:
        return await sessions.session(
            self.compiled, session_id=session_id, user_id=self._user_id, services=self._services
        )

    async def _forget(self, compiled: Any, session_id: str) -> bool:
        """Delete the session unless the user named it or gave a service; return True if it is deleted."""
        sessions, options = self.sessions, self._options
        if sessions is None or options.get("session_id") or options.get("session_service") is not None:
            return False
        await sessions.forget(compiled, session_id=session_id, user_id=self._user_id, services=self._services)
        return True

    def new_session_id(self) -> str:
        """The given session id, or a new one."""
        return self._session_id()

    def _session_id(self) -> str:
        return self._options.get("session_id") or str(uuid.uuid4())


class _Form(NamedTuple):
    """A compiled expression, and the `Reading` that interprets its events."""

    compiled: Any
    reading: Reading


def _form(backend: Backend, node: Node, config: ExecutionConfig, state: Mapping[str, Any] | None) -> _Form:
    """Check a tree and compile it.

    Args:
        backend: the backend that compiles it.
        node: the root of the tree.
        config: the configuration of the run.
        state: the session's state before the run, for the contract check; `None` if it is not known.
    """
    with checked_once(node, config, state):
        return _Form(backend.compile(node, config), Reading.of(node, config))
