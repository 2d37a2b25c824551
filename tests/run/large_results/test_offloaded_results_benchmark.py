"""The small form of `benchmarks/context.py`; its figures of time are for a machine that does nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.terminal.process import ROOT


@pytest.mark.slow
def test_small() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.context", "--small", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    figures = {figure["name"]: figure for figure in json.loads(ran.stdout)}
    assert not ran.stderr
    whole, short = (figures[f"20 turns {how} setting aside: all requests"]["value"] for how in ("without", "with"))
    assert short < whole / 10
    held = [figure for figure in figures.values() if figure["unit"] != "ms"]
    assert all(figure["most"] is None or figure["value"] <= figure["most"] for figure in held)
    assert all(figure["least"] is None or figure["value"] >= figure["least"] for figure in held)
    assert sum(figure["unit"] == "ms" for figure in figures.values()) >= 27
