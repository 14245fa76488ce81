"""Context: which part of the conversation an agent sees. Values, and pure functions over them."""
