"""Agent cards: agents defined in files."""
