"""Backends: what turns the IR into something that runs, and what runs give back.

`ADKBackend` runs expressions on ADK, `MockBackend` does so with scripted models, `ReplayerBackend` with what
was recorded, `DryRunBackend` with stand-ins, `TemporalBackend` on workers that outlive the caller,
`TraceBackend` logs what another one does, and `VizBackend` draws them. Everything that has the methods of
`Backend` is one, too.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
