"""Middleware on ADK: which acts where, what its hooks are given, and the calls they stand around."""
