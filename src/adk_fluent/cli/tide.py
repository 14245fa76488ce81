"""`adk-fluent tide`: what the installed google-adk changed."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from adk_fluent.tide.diff import diff
from adk_fluent.tide.report import document, text
from adk_fluent.tide.scan import reference, scan

SAME, CHANGED = 0, 1
"""Exit codes of `tide`."""


def tide(*, as_json: bool) -> int:
    """Print what the installed google-adk changed against the one that adk-fluent's fields were made from.

    Returns:
        1 if something changed, or could not be read.

    Raises:
        MissingADKError: no google-adk is installed.
    """
    with redirect_stdout(sys.stderr):  # what a module of ADK may print
        found = diff(reference(), scan())
    sys.stdout.write(f"{document(found) if as_json else text(found)}\n")
    return SAME if found.is_empty else CHANGED
