"""The words that the model is told before a conversation, and between its requests."""
