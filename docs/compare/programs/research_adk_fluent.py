"""Research in two places at once, then merge, in adk-fluent."""

from adk_fluent import Agent
from adk_fluent.testing import mock_backend

web = Agent("web").instruct("Search the web.").writes("old")
docs = Agent("docs").instruct("Search the docs.").writes("hot")
pipeline = (web | docs) >> Agent("writer").instruct("Merge {old} and {hot}.")

print("before: nothing wrong" if pipeline.check().ok else pipeline.check())
script = mock_backend(
    {"web": "Tea is old.", "docs": "Tea is hot.", "writer": "Old and hot."},
)
print("run:", pipeline.ask("Tea", backend=script))
