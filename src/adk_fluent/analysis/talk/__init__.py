"""The conversation: who has spoken, and who is shown it."""
