"""Keep a conversation within its model's window: when to compact it, which part, and the summary that remains."""
