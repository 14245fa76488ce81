"""Route by what a model said, in LangGraph."""

from typing import TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.graph import END, START, StateGraph

triage_model = FakeListChatModel(responses=["billing", "Billing."])
biller_model = FakeListChatModel(responses=["For two bags."])
booker_model = FakeListChatModel(responses=["Rebooked."])


class State(TypedDict):
    """What the nodes share."""

    question: str
    team: str
    answer: str


def triage(state: State):
    """Ask which team."""
    return {"team": triage_model.invoke(f"Which team? {state['question']}").content}


def biller(state: State):
    """Explain the bill."""
    return {"answer": biller_model.invoke(f"Explain. {state['question']}").content}


def booker(state: State):
    """Rebook."""
    return {"answer": booker_model.invoke(f"Rebook. {state['question']}").content}


graph = StateGraph(State)
graph.add_node("triage", triage)
graph.add_node("biller", biller)
graph.add_node("booker", booker)
graph.add_edge(START, "triage")
graph.add_conditional_edges(
    "triage",
    lambda state: state["team"],
    {"billing": "biller", "booking": "booker"},
)
graph.add_edge("biller", END)
graph.add_edge("booker", END)
support = graph.compile()
question: State = {"question": "Why 340?", "team": "", "answer": ""}
print("run:", support.invoke(question)["answer"])
try:
    support.invoke(question)
except KeyError as error:
    print("run: KeyError:", error)
