"""The only entry for content into a conversation: from functions, servers, files and programs.

`admission_of_content.py` checks each part by its bytes, size, number and dimensions, and by the inputs that the
endpoint accepts; it scales, describes or offloads parts that do not pass. `budget.py` has the limits. `media_types.py`
reads types and dimensions from bytes, `file_descriptions.py` describes a part in words, `files.py` reads files into
parts. Pillow and pypdf run in a separate process (`file_worker.py`, called by `file_processing.py`). `json_steps.py`
parses large JSON in steps, within the budget.
"""
