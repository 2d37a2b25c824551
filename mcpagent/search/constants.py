"""The fitted numbers of the ranking, from `constants.json`, which `benchmarks/search_fit.py` writes with their date.

Limits of size and time are not fitted; they are in the modules that use them.
"""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).with_name("constants.json")

FITTED: dict[str, dict[str, float]] = json.loads(FILE.read_text("utf-8"))["numbers"]
"""The fitted numbers by group and name."""
