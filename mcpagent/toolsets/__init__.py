"""Provide tools from functions, toolsets and MCP servers, and combine them."""
