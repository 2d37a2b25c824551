"""The rules of the offline model: compute the next message from messages and tool definitions only."""
