"""The ADK backend: makes native agents of expressions, and runs them."""

import logging

from adk_fluent.backends.adk.running.backend import ADKBackend

# ADK logs each error with its traceback and raises it too. Where logging is not set up, Python would print
# that log, though the error reaches the caller anyway. Handlers that a program sets up still get it.
logging.getLogger("google_adk").addHandler(logging.NullHandler())

__all__ = ["ADKBackend"]
