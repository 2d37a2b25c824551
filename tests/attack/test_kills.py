"""Of 1,000 killed writers each has acknowledged a write: all of these are read back, and nothing stays behind.

A thousand with `--seeds all`, else a quarter of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal.process import ROOT, environment

pytestmark = [
    pytest.mark.attack,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX"),
]

KINDS = ("recording", "typed", "learned", "lists", "pins", "approvals", "trust", "servers", "secrets")
KILLS = 1_000 // len(KINDS) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_loses_nothing_that_was_acknowledged_and_leaves_nothing(
    kind: str, tmp_path: Path, share_of_seeds: float
) -> None:
    kills = int(KILLS * share_of_seeds)
    command = [sys.executable, "-m", "tests.attack.killed_writers", kind, str(tmp_path), str(kills)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(tmp_path / "home"), capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    told = json.loads(done.stdout)
    print(f"{kind}: {told}")
    assert told["lost"] == []
    assert told["kills"] == kills
    assert told["least"] >= 1
    assert done.stderr == ""
