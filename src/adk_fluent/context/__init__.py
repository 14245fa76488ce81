"""Context: the part of the conversation that an agent's model receives.

A spec (`spec.Context`, one subclass for each `C` operation) is a frozen value. `selection.selecting`
evaluates it: from the conversation as plain `entries` it returns those that the agent sees. If it needs a
helper model, it yields a request (an `Ask`) and the backend sends the answer back. So all of this is
pure, and imports `ir` and nothing of ADK. Read `selection.selecting` first, then `filters.EntryFilter`.
"""
