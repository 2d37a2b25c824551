"""Describe the machine that the server runs on, without user names and environment variables."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Any


def system_info() -> dict[str, Any]:
    """Get the operating system, processor, number of CPUs and Python version of this computer."""
    return {
        "operating_system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def disk_space() -> dict[str, str]:
    """Tell how much disk space is used and free where the working directory is."""
    usage = shutil.disk_usage(Path.cwd())
    return {
        name: f"{size / 1e9:.1f} GB"
        for name, size in (("total", usage.total), ("free", usage.free))
    }


def working_directory() -> str:
    """Tell the working directory (current folder) whose files can be read."""
    return str(Path.cwd())
