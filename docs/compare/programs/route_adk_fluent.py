"""Route by what a model said, in adk-fluent."""

from typing import Literal

from adk_fluent import Agent, Route
from adk_fluent.state import StateSchema, StateTypeError
from adk_fluent.testing import mock_backend


class Desk(StateSchema):
    """What the agents share."""

    team: Literal["billing", "booking"]


triage = Agent("triage").instruct("Which team?").writes(Desk.team)
biller = Agent("biller").instruct("Explain.")
booker = Agent("booker").instruct("Rebook.")
support = triage >> Route(Desk.team).eq("billing", biller).eq("booking", booker)

print("before: nothing wrong" if support.check().ok else support.check())
script = mock_backend({"triage": {"team": "billing"}, "biller": "For two bags."})
print("run:", support.ask("Why 340?", backend=script))
contents = script.calls["biller"][0].contents
print("sent:", [part.text for content in contents for part in content.parts or ()])
try:
    support.ask("Why 340?", backend=mock_backend({"triage": {"team": "Billing."}}))
except StateTypeError as error:
    print("run: StateTypeError:", error)
