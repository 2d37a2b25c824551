"""The small form of `benchmarks/sessions.py`; its figures of time are for a machine that does nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.journal.sessions.postgres_server import postgres_server
from tests.terminal.process import ROOT

COUNTS = (
    "answers or histories with something of another",
    "files still open",
    "processes that failed",
    "appends that are not there",
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="its processes are forked")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_many_sessions_and_many_processes(kind: str) -> None:
    options = ["--postgres", postgres_server().address()] if kind == "postgres" else []
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sessions", "--small", "--json", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stderr == ""
    figures = json.loads(done.stdout)
    print(figures)
    for name in COUNTS:
        assert figures[name] == 0, figures
    assert next(value for name, value in figures.items() if name.endswith("failed")) == 0
    assert figures["beside those that are in memory alone"] <= 1.5
