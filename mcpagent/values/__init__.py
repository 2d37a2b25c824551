"""Values of the whole package: messages, events, tools, limits, pending calls and shared state."""
