"""The screens in docs/ are what the command shows today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import each_row

ROOT = Path(__file__).resolve().parents[2]
SCREENS = sorted((ROOT / "docs" / "screens").glob("*.svg"))

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")


def shots() -> list[str]:
    text = (ROOT / "benchmarks" / "screenshots.py").read_text("utf-8")
    return re.findall(r'^    "(\w+)": Shot\(', text, re.MULTILINE)


def test_every_screen_of_the_script_is_kept_and_no_other() -> None:
    assert sorted(shots()) == [path.stem for path in SCREENS]


@each_row("path", SCREENS)
def test_a_screen_tells_nothing_of_the_machine_it_was_taken_on(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith("<svg")
    assert not re.search(r"/(?:tmp|home|root|Users|work)/", text)


@each_row("path", SCREENS)
def test_a_screen_claims_no_times(path: Path) -> None:
    """They are those of a busy machine and of a stand-in for a model."""
    words = re.sub(r"<[^>]+>", " ", path.read_text("utf-8")).replace("&#160;", " ")
    assert not re.search(r"\b\d[\d.]* (?:ms|s)\b", words)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", shots())
def test_a_screen_is_what_the_command_shows(name: str) -> None:
    pytest.importorskip("pyte", reason="pip install pyte: screens are read by a terminal emulator")
    command = [sys.executable, str(ROOT / "benchmarks" / "screenshots.py"), "--check", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
