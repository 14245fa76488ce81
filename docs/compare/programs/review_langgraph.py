"""Draft until a reviewer is satisfied, in LangGraph."""

from typing import TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.graph import END, START, StateGraph

writer_model = FakeListChatModel(responses=["Tea.", "Tea is old."])
reviewer_model = FakeListChatModel(responses=["too short", "good"])


class State(TypedDict):
    """What the nodes share."""

    topic: str
    draft: str
    verdict: str


def writer(state: State):
    """Write, or mend what the reviewer named."""
    prompt = f"Write {state['topic']}. Draft: {state['draft']} Mend: {state['verdict']}"
    return {"draft": writer_model.invoke(prompt).content}


def reviewer(state: State):
    """Judge the draft."""
    return {
        "verdict": reviewer_model.invoke(
            f"Answer good, or what to mend: {state['draft']}",
        ).content
    }


def decide(state: State) -> str:
    """Go back to the writer until the verdict is good."""
    return END if state["verdict"] == "good" else "writer"


graph = StateGraph(State)
graph.add_node("writer", writer)
graph.add_node("reviewer", reviewer)
graph.add_edge(START, "writer")
graph.add_edge("writer", "reviewer")
graph.add_conditional_edges("reviewer", decide)
pipeline = graph.compile()
print("run:", pipeline.invoke({"topic": "Tea", "draft": "", "verdict": ""})["draft"])
