"""Offload results that are too large for a conversation, and let the model read them in pieces.

`offloaded_results.py` decides and returns the preview, `previews.py` writes it, `parsed_outputs.py` detects the format
of the text. `reading_ranges.py`, `searching.py` and `querying.py` (with `bounded_paths.py`) implement the three tools
of `readers.py`, as pure functions of a `LargeOutput`. `output_stores.py` stores the outputs.
"""
