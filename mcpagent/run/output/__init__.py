"""Answers as data: from a type or a JSON Schema to the form that a model is asked for, and from its text to a value."""
