"""Draft until a reviewer is satisfied, in adk-fluent."""

from adk_fluent import Agent, until
from adk_fluent.testing import mock_backend

writer = Agent("writer").instruct("Write.").writes("draft").show()
reviewer = Agent("reviewer").writes("verdict").hide()
reviewer = reviewer.instruct("Answer good, or what to mend.")
pipeline = (writer >> reviewer) * until(lambda state: state["verdict"] == "good", max=3)

print("before: nothing wrong" if pipeline.check().ok else pipeline.check())
script = mock_backend(
    {"writer": ["Tea.", "Tea is old."], "reviewer": ["too short", "good"]},
)
print("run:", pipeline.ask("Tea", backend=script))
