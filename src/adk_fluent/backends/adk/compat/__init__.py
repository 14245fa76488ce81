"""What ADK's versions differ in, and the names of ADK that are private."""
