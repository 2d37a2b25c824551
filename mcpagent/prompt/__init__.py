"""Texts for the model: the system prompt of a conversation, and notes between its requests."""
