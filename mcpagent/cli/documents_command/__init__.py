"""`mcpagent docs`: index, search, show and remove documents."""
