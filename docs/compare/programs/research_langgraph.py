"""Research in two places at once, then merge, in LangGraph."""

from typing import TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    """What the nodes share."""

    topic: str
    old: str
    hot: str
    text: str


def web(state: State):
    """Search the web."""
    model = FakeListChatModel(responses=["Tea is old."])
    return {"old": model.invoke(f"Search the web: {state['topic']}").content}


def docs(state: State):
    """Search the docs."""
    model = FakeListChatModel(responses=["Tea is hot."])
    return {"hot": model.invoke(f"Search the docs: {state['topic']}").content}


def writer(state: State):
    """Merge both."""
    model = FakeListChatModel(responses=["Old and hot."])
    return {"text": model.invoke(f"Merge {state['old']} and {state['hot']}").content}


graph = StateGraph(State)
graph.add_node("web", web)
graph.add_node("docs", docs)
graph.add_node("writer", writer)
graph.add_edge(START, "web")
graph.add_edge(START, "docs")
graph.add_edge(["web", "docs"], "writer")
graph.add_edge("writer", END)
pipeline = graph.compile()
print("run:", pipeline.invoke({"topic": "Tea", "old": "", "hot": "", "text": ""})["text"])
