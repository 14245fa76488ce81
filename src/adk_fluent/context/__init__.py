"""Context: which part of the conversation an agent sees. Values, and pure functions over them."""

from adk_fluent.context.entries import Call, Entry, FileRef, Response
from adk_fluent.context.selection import Selection, select
from adk_fluent.context.spec import Context
from adk_fluent.context.view import View

__all__ = ["Call", "Context", "Entry", "FileRef", "Response", "Selection", "View", "select"]
