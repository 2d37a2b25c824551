"""One question, one answer, on a terminal or in a pipe."""
