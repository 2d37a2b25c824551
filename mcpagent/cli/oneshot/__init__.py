"""Answer a single prompt, on a terminal or in a pipe."""
