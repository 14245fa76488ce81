"""Two branches write one key, in LangGraph."""

from typing import TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, StateGraph


class State(TypedDict):
    """What the nodes share."""

    found: str


def web(state: State):
    """Search the web."""
    model = FakeListChatModel(responses=["old"])
    return {"found": model.invoke("Search the web.").content}


def docs(state: State):
    """Search the docs."""
    model = FakeListChatModel(responses=["hot"])
    return {"found": model.invoke("Search the docs.").content}


graph = StateGraph(State)
graph.add_node("web", web)
graph.add_node("docs", docs)
graph.add_edge(START, "web")
graph.add_edge(START, "docs")
both = graph.compile()
try:
    both.invoke({"found": ""})
except InvalidUpdateError as error:
    print("run: InvalidUpdateError:", str(error).splitlines()[0])
