"""The processes of a server are those with its mark, among the PIDs that were allocated since it started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcpagent.utilities.processes.process_tree import Allocated, allocated, later, with_mark
from mcpagent.utilities.processes.watchdog import MARK, ProcessMark

PIDS = (1, 90, 100, 101, 150, 900)
NARROWED: dict[str, tuple[Allocated | None, Allocated | None, int, tuple[int, ...]]] = {
    "none since": (Allocated(100, 5_000), Allocated(100, 5_000), 1_000, ()),
    "some since": (Allocated(100, 5_000), Allocated(150, 5_050), 1_000, (101, 150)),
    "past the highest": (Allocated(100, 5_000), Allocated(90, 5_450), 1_000, (1, 90, 101, 150, 900)),
    "more than half a round": (Allocated(100, 5_000), Allocated(150, 5_501), 1_000, PIDS),
    "of another namespace, which counts with ours": (Allocated(100, 5_000), Allocated(101, 9_000), 1_000, PIDS),
    "before is unknown": (None, Allocated(150, 5_050), 1_000, PIDS),
    "now is unknown": (Allocated(100, 5_000), None, 1_000, PIDS),
    "the highest is unknown": (Allocated(100, 5_000), Allocated(150, 5_050), 0, PIDS),
}


def test_only_pids_that_may_be_later_are_looked_at() -> None:
    found = {name: tuple(later(PIDS, before, now, highest)) for name, (before, now, highest, _) in NARROWED.items()}
    assert found == {name: row[-1] for name, row in NARROWED.items()}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_process_with_the_mark_is_found_if_it_started_later() -> None:
    mark = ProcessMark("m-process-tree", 0)
    before = allocated()
    assert before is not None
    with subprocess.Popen(("cat",), stdin=subprocess.PIPE, env={MARK: mark.variable}) as process:
        try:
            after = allocated()
            assert [one.pid for one in with_mark(mark, before)] == [process.pid]
            assert [one.pid for one in with_mark(mark)] == [process.pid]
            assert after is not None
            assert after.last >= process.pid or after.last < before.last
            assert [*with_mark(mark, after)] == []
        finally:
            process.kill()
