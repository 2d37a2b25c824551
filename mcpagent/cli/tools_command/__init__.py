"""`mcpagent tools`: inspect tools and call one."""
