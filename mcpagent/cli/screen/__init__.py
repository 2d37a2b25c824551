"""Terminal output and input."""
