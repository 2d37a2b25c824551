"""The history of a conversation, and the part of it that a model receives."""
