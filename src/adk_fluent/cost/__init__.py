"""Cost of model calls: prices, estimates before a run, and budgets.

Read `price_of` in `prices` first, then `estimate_cost` in `estimate`, which walks the tree (`turn_walk`,
`agent_calls`) and sums the expected calls. `model_selection` chooses the model of a call, and `countdown`
keeps the remaining sum of a budget in state. The package may import `analysis` and all packages below it; it
needs no ADK.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
