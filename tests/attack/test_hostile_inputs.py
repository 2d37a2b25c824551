"""Hundreds of hostile inputs, each in bounded time and memory; `handled.py` handles those of one kind."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.attack.handled import KINDS
from tests.speed import within

pytestmark = [pytest.mark.slow, pytest.mark.attack, pytest.mark.skipif(sys.platform == "win32", reason="POSIX")]

MOST_LAG_SECONDS, MOST_MEGABYTES = 0.05, 300
LAG_OF_OTHERS = {"http continue-5000": 0.3}
"""h11 reads each of five thousand `100 Continue` that come in one piece."""
FEWEST = {"answers": 250, "connecting": 80, "http": 200, "schemas": 50, "patterns": 55, "words": 30}


def handled(kind: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.attack.handled", kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(450)
def test_each_ends_with_a_result_or_a_named_error_and_none_holds_the_loop(kind: str) -> None:
    told = handled(kind)
    assert len(told) >= FEWEST[kind]
    assert [(one["input"], one["wrong"]) for one in told if one["wrong"]] == []
    assert [one["input"] for one in told if not one["ended"]] == []
    assert [(one["input"], one["megabytes"]) for one in told if one["megabytes"] > MOST_MEGABYTES] == []
    for one in told:
        name = f"{kind} {one['input']}"
        assert within(one["lag_seconds"], LAG_OF_OTHERS.get(name, MOST_LAG_SECONDS)), (name, one["lag_seconds"])
