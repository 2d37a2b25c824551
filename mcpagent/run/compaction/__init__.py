"""Keep a conversation within its model's window: when to compact, which part, and the summary that replaces it."""
