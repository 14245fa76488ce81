"""The support desk of `adk-fluent demo` on a small model: a TARGET to run, chat with and draw.

python examples/support.py "The app crashes when I open it"
adk-fluent run examples/support.py
adk-fluent viz examples/support.py -o support.svg
"""

import os
import sys

from adk_fluent.cli.demo import support
from adk_fluent.local import LocalLlm

pipeline = support("gemini-2.5-flash" if "GOOGLE_API_KEY" in os.environ else LocalLlm(max_tokens=80))

if __name__ == "__main__":
    print(pipeline.ask(" ".join(sys.argv[1:]) or "The app crashes when I open it."))
