"""The intermediate representation (IR): the tree of frozen nodes that an expression holds.

Each class in `nodes` declares everything about one node type: its children, how it runs them, and the state
keys it reads and writes. `walk`, `rewrite`, `resolve_names` and the JSON codec are pure functions over nodes.
This package imports nothing of ADK and no other package but `errors`. Read `base.Node` first, then `nodes`.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
