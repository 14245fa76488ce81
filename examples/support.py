"""The support desk of `adk-fluent demo` on the small model: a TARGET to run, chat with and draw.

adk-fluent run examples/support.py "The app crashes when I open it"
adk-fluent viz examples/support.py -o support.svg
"""

from adk_fluent.cli.demo import support
from adk_fluent.local import LocalLlm

pipeline = support(LocalLlm(max_tokens=80))
