"""Child processes: find them, end them with mcpagent, and run programs with bounded output."""
