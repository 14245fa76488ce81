"""Queues between a pipeline and its segments: brokers that say "there is work" to workers of an engine."""
