"""When a run goes on without an end."""
