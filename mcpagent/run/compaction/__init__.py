"""Keeping a conversation within its model's window: when it is made shorter, of what, and the summary that stays."""
