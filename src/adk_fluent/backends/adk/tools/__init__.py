"""Tools of agents as tools of ADK's, and what happens around their calls."""
