"""Runs on ADK's own runner, and what they give back."""
