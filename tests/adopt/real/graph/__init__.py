"""A project in plain ADK."""

from . import agent as agent
