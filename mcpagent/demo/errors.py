"""What a demo tool raises when its arguments make no sense; the text goes to the model."""

from __future__ import annotations


class DemoToolError(ValueError):
    """One line: what is wrong with which argument, and what would be right."""
