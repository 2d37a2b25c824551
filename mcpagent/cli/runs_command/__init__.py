"""`mcpagent runs`: the durable runs of a database."""
