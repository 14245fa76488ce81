"""What an agent is shown of the conversation, on its way into a request."""
