"""How much memory this process held at most."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_megabytes() -> float:
    """The most that was resident since this program began.

    On Linux not `ru_maxrss`, which a program takes over from the one that started it (`exec_mmap` in the kernel): in a
    child of a large process it is as large, whatever the child does.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) for line in status.read_text("ascii").splitlines() if "VmHWM" in line) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # macOS, in bytes
