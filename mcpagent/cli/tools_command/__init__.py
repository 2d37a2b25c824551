"""`mcpagent tools`: looking at tools and calling one."""
