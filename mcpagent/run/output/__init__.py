"""Typed answers: from a type or a JSON Schema to the format requested from a model, and from its text to a value."""
