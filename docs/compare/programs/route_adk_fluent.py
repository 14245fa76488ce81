"""Route by what a model said, in adk-fluent."""

from adk_fluent import Agent, Route
from adk_fluent.testing import mock_backend

triage = Agent("triage").instruct("Which team?").writes("team")
biller = Agent("biller").instruct("Explain.")
booker = Agent("booker").instruct("Rebook.")
support = triage >> Route("team").eq("billing", biller).otherwise(booker)

print("before: nothing wrong" if support.check().ok else support.check())
script = mock_backend({"triage": "billing", "biller": "For two bags."})
print("run:", support.ask("Why 340?", backend=script))
