"""Facts about an expression before it runs: its steps, the state at each step, and each agent's history.

`analyse` gives the `Facts` of a tree. They come from one walk in the order of the steps (`state_walk`), which
carries the knowledge about all keys (`values`) and the conversation (`history`). Checks, estimates, pictures
and explanations read these facts. The package may import `ir`, `state` and `context`, but no check and no
backend. Read `facts.Facts` first, then `state_walk.flow_of`.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
