"""Findings about keys, and how they are worded."""
