"""Session state: its typed schemas, the `S` operations that change it, and its storable values.

`StateSchema` (in `schema`) declares keys and their types. The operations of `S` (in `operations`) are frozen
functions from the state to its changes; each declares its effects as data (`effects`), which `analysis`
interprets. `fidelity` refuses a value that a session store would not give back. The package
imports `ir` and nothing of ADK. Read `operations.base.StateOperation` first, then `delta.changes`.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
