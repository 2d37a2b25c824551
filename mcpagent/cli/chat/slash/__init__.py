"""The slash commands of a conversation, from /help to /quit."""
