"""Servers that leave a word in a file when they are started, and yeses given as a person would give them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcpagent.cli.approvals.project_trust import ask_trust, trust_lines
from mcpagent.cli.common.configuration import load_configuration
from mcpagent.cli.common.options import Options
from mcpagent.permissions.trust.consent import Answer
from mcpagent.permissions.trust.descriptions import Description
from tests.terminal.process import SMALL_SERVER, environment, run

PYTHON = sys.executable


class Canary:
    """The file that started servers write into, and the home of the user who says yes to them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "users-home"
        self.file = folder / "canary.txt"

    def server(self, path: Path, word: str) -> Path:
        """A small server of this word in a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"import runpy, sys\nopen({str(self.file)!r}, 'a').write({word + chr(10)!r})\n"
            f"sys.argv = ['server', 'good']\nrunpy.run_path({str(SMALL_SERVER)!r}, run_name='__main__')\n"
        )
        return path

    def command(self, path: Path, word: str) -> Path:
        """The same as a program."""
        self.server(path, word).write_text(f"#!{PYTHON}\n{path.read_text()}")
        path.chmod(0o755)
        return path

    def module(self, path: Path, word: str) -> Path:
        """A module that only leaves its word when it is imported."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(self.file)!r}, 'a').write({word + chr(10)!r})\n")
        return path

    @property
    def words(self) -> set[str]:
        """What was started so far."""
        return set(self.file.read_text().split()) if self.file.exists() else set()

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)

    def options(self, folder: Path, **given: Any) -> Options:
        return Options(environ=environment(self.home, given.pop("env", None)), folder=folder, **given)

    def yes(self, folder: Path, answer: Answer = "always", **given: Any) -> list[str]:
        """Says yes to all that is asked about in this folder; gives what was shown."""
        shown: list[str] = []

        def agree(found: Sequence[Description], start: Path) -> Answer:
            shown.extend(trust_lines(found, start))
            return answer

        chosen = self.options(folder, **given)
        ask_trust(load_configuration(chosen), chosen, shown.append, agree)
        return shown

    def run(self, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str]:
        """`mcpagent` in a pipe, in this folder: its exit code and what it said on stderr."""
        given = {**environment(self.home), **(env or {})}
        done = run(arguments or ("tools", "list"), folder, env=given)
        return done.returncode, done.stderr

    def peak_kilobytes(self, folder: Path, *arguments: str) -> tuple[int, int, str]:
        """The same command, with the most memory that this one process, or one that it waited for, had."""
        code = (
            "import resource, subprocess, sys\n"
            "done = subprocess.run([sys.executable, '-m', 'mcpagent', *sys.argv[1:]], stdin=subprocess.DEVNULL,\n"
            "                      capture_output=True, text=True, timeout=60)\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.returncode)\n"
            "sys.stderr.write(done.stderr)\n"
        )
        done = subprocess.run(
            [PYTHON, "-c", code, *arguments],
            cwd=folder,
            env=environment(self.home),
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        )
        peak, exit_code = done.stdout.split()
        return int(peak), int(exit_code), done.stderr

    def refused(self, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
        """The one line that says that something is not trusted; nothing was started."""
        self.forget()
        code, said = self.run(folder, *arguments, env=env)
        assert code in (3, 5), said
        assert said.count("\n") == 1, said
        assert "not trusted" in said
        assert "--trust-project" in said
        assert self.words == set()
        return said


def project(folder: Path, **servers: dict[str, Any]) -> Path:
    """The folder's `.mcp.json` with these servers."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return file


def fifo(path: Path) -> Path:
    """A pipe that nobody writes to."""
    os.mkfifo(path)
    return path
