"""Typed answers: from a type or a JSON Schema to the format requested from a model, and from the answer's text to a
value.
"""
