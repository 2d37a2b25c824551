"""Helpers without knowledge of agents: text, JSON Schema, Python."""
