"""Signing in to remote MCP servers (OAuth), and using what was signed in to."""
