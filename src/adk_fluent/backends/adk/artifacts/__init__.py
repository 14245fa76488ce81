"""Artifacts as ADK keeps them: the service, and the parts that a model is shown."""
