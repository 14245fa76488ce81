"""Queues between a pipeline and its segments."""
