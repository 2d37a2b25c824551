"""What is typed strictly in a user's project fits; the files `typed_*.py` of the tests are that project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_users_strict_code_fits_and_its_mistakes_are_found(tmp_path: Path) -> None:
    # Outside of this repository, so that nothing of its configuration helps, and the package is the installed one.
    files = sorted(Path(__file__).parent.rglob("typed_*.py"))
    assert len(files) > 1
    for file in files:
        (tmp_path / file.name).write_text(file.read_text("utf-8"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", *(file.name for file in files)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.stdout.startswith("Success"), done.stdout + done.stderr
