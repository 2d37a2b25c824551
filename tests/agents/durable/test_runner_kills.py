"""A death at any write of a run, the last one included: the next worker comes to the same end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal.process import ROOT, environment


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_death_at_any_write_of_a_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.agents.durable.killed_between_writes", str(tmp_path)],
        cwd=ROOT,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert told["whole"] == "all done, answered, done, 6 turns, 5 calls"
    assert told["writes"] >= 11
    assert told["kills"] == 3 * told["writes"]
