"""The conversation: its speakers at each point of a run, and the events that each agent's model receives."""
