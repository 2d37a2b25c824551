"""Each promise of SECURITY.md names tests that exist, and one of them has the number of its threat in its name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
FEWEST_PROMISES = 29


def test_each_promise_has_a_test_with_the_number_of_its_threat() -> None:
    rows = re.findall(r"^\| T(\d+) \|.*$", PAGE, re.MULTILINE)
    lines = re.findall(r"^\| T\d+ \|.*$", PAGE, re.MULTILINE)
    assert len(rows) >= FEWEST_PROMISES
    assert len(set(rows)) == len(rows)
    without: list[str] = []
    for number, line in zip(rows, lines, strict=True):
        links = re.findall(r"\((tests/[^)#]+)\)", line)
        texts = [(ROOT / link).read_text("utf-8") for link in links]
        name = re.compile(rf"^(?:async )?def test_(?:t\d+_)*t{number}_", re.MULTILINE)
        if not any(name.search(text) for text in texts):
            without.append(line[:80])
    assert not without, "no test_tN_ in the linked files:\n" + "\n".join(without)
