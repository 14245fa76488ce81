"""Agents that other processes serve over A2A: what is sent to them, and what of their answers is heard."""
