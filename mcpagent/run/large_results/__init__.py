"""Offload results that are too large for a conversation, and let the model read them in pieces.

`setting_aside.py` decides and returns the preview, `short_forms.py` writes it, `kinds.py` detects the format of the
text. `reading_ranges.py`, `searching.py` and `querying.py` (with `bounded_paths.py`) implement the three tools of
`readers.py`, as pure functions of a `LargeOutput`. `shelves.py` stores the outputs.
"""
