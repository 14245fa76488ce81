"""What the events of a run tell."""
