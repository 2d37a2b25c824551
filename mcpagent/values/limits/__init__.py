"""When a run goes on without an end: what it may take, and calls that lead nowhere."""
