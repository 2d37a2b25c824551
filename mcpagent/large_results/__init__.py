"""Results too large for a conversation: kept whole beside it, and read by the model in pieces.

`setting_aside.py` decides and gives the short form, `short_forms.py` writes it, `kinds.py` finds out what the text is;
`reading_ranges.py`, `searching.py` and `querying.py` (with `bounded_paths.py`) are what the three tools of `readers.py`
do, pure functions of a `LargeOutput`; `shelves.py` keeps it.
"""
