"""What the language has no words for: checked arguments, work in another thread's event loop."""
