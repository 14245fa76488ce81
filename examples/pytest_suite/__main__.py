"""A pytest suite for a pipeline: contracts, routes, requests and failures without a model, one test with one.

python examples/pytest_suite            with GOOGLE_API_KEY the last test asks Gemini, else it is left out
"""

import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    chosen = [] if "GOOGLE_API_KEY" in os.environ else ["-m", "not real_model"]
    # As in a project of its own: no settings of this repository's tests.
    plain = ["-c", os.devnull, f"--rootdir={FOLDER}", "-pno:cacheprovider", "-pno:asyncio"]
    sys.exit(pytest.main([*plain, *chosen, "-v", "--no-header", str(FOLDER), *sys.argv[1:]]))
