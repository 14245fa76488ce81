"""Views of an expression before it runs: the request and the answer of each model call, as text and values.

It turns the facts of `analysis` and the findings of `contracts` into reports, and imports no ADK. Read
`data_flow` in `explanation` first: one agent's inputs and outputs. `llm_anatomy` shows an agent's request in
detail, `explain` joins everything, and `presentation` has the texts and tables of all three.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
