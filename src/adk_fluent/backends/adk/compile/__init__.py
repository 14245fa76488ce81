"""From IR to native ADK agents."""
