"""A process that runs for long returns the memory that it freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.terminal.process import ROOT

PROGRAM = """
import sys
from pathlib import Path
from mcpagent.utilities.processes.freed_memory import return_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1] == "returns":
    return_freed_memory()
before = resident()
large = bytearray(30_000_000)
del large
blocks = [bytearray(64_000) for _ in range(300)]
del blocks
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone keeps freed memory")
def test_memory_that_was_freed_after_a_large_block_goes_back_to_the_system() -> None:
    kept = {}
    for how in ("returns", "keeps"):
        words = [sys.executable, "-c", PROGRAM, how]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        kept[how] = int(done.stdout)
    assert kept["returns"] < 3_000_000 < 15_000_000 < kept["keeps"]
