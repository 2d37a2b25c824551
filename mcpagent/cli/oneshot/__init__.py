"""Answer a single question, on a terminal or in a pipe."""
