"""The rules of the offline model: they compute the next message from messages and tool definitions alone."""
