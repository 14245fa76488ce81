"""A misspelt key, in LangGraph."""

from typing import TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.graph import START, StateGraph


class State(TypedDict):
    """What the nodes share."""

    facts: str
    text: str


def research(state: State):
    """Find facts."""
    print("[asked for 'Tea is old.']")
    model = FakeListChatModel(responses=["Tea is old."])
    return {"facts": model.invoke("Find facts.").content}


def writer(state: State):
    """Write with them."""
    model = FakeListChatModel(responses=["..."])
    return {"text": model.invoke(f"Write with {state['fact']}.").content}


graph = StateGraph(State)
graph.add_node("research", research)
graph.add_node("writer", writer)
graph.add_edge(START, "research")
graph.add_edge("research", "writer")
pipeline = graph.compile()
try:
    pipeline.invoke({"facts": "", "text": ""})
except KeyError as error:
    print("run: KeyError:", error)
