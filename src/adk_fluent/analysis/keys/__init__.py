"""Which keys a step reads and writes."""
