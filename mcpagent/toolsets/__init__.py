"""Where tools come from: functions, toolsets, MCP servers, and what is done to them."""
