"""`python -m adk_fluent` is the command `adk-fluent`."""

from __future__ import annotations

import sys

from adk_fluent.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
