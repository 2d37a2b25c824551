"""The rules of the offline model: from a request to the next message. They know messages and tool definitions only."""
