"""Makes the environments the example needs: one for mcpagent, one for each published server. Standard library only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = "Scripts" if os.name == "nt" else "bin"
INSTALL_SECONDS = 600
"""What one environment may take; pip's and npm's own waits are shorter."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder of its own with packages in it; `needs` names a program that must be there."""

    name: str
    packages: tuple[str, ...]
    servers: tuple[str, ...] = ()
    manager: str = "pip"
    needs: str = ""

    @property
    def contents(self) -> str:
        return "this repository" if "-e" in self.packages else " ".join(self.packages)


NPM = "@modelcontextprotocol/server-"

MCPAGENT = Environment("mcpagent", ("-e", str(ROOT)))

ENVIRONMENTS = (
    Environment("time", ("mcp-server-time==2026.10.19",), ("time",)),
    Environment("git", ("mcp-server-git==2026.10.19",), ("git",), needs="git"),
    Environment("fetch", ("mcp-server-fetch==2026.10.24",), ("fetch",)),
    # These two do not run on mcp 2.x yet: environments of their own are what lets them live beside the others.
    Environment("sqlite", ("mcp-server-sqlite==2025.4.25", "mcp<2"), ("sqlite",)),
    Environment("calculator", ("mcp-server-calculator==0.2.1", "mcp<2"), ("calculator",)),
    Environment("aws", ("mcp==2.3.0", "botocore==1.44.5"), ("aws",)),
    Environment(
        "node",
        (f"{NPM}everything@2026.8.31", f"{NPM}filesystem@2026.8.31", f"{NPM}memory@2026.8.31"),
        ("everything", "filesystem", "memory"),
        manager="npm",
        needs="node",
    ),
)

NODE_MAJOR = 18


class InstallError(Exception):
    """An environment could not be made; its text is one line."""


def prepare(home: Path, say: Callable[[str], None], mcpagent: Environment = MCPAGENT) -> set[str]:
    """Makes what is missing, several at once, and names the servers that can run.

    Raises `InstallError` when mcpagent itself cannot be installed; a server that cannot is told and left out.
    """
    home.mkdir(parents=True, exist_ok=True)
    usable: set[str] = set()
    with ThreadPoolExecutor(max_workers=3) as workers:
        started = {workers.submit(make, environment, home): environment for environment in (mcpagent, *ENVIRONMENTS)}
        for done in as_completed(started):
            environment = started[done]
            try:
                seconds = done.result()
            except InstallError as problem:
                if environment is mcpagent:
                    workers.shutdown(wait=False, cancel_futures=True)
                    raise
                say(f"  {environment.name:<12} left out: {problem}")
                continue
            usable.update(environment.servers)
            taken = "kept" if seconds is None else f"{seconds:.0f} s"
            say(f"  {environment.name:<12} {taken:>5}   {environment.contents}")
    return usable


def make(environment: Environment, home: Path) -> float | None:
    """Installs one environment; seconds taken, None where it was there already."""
    _require(environment)
    folder = home / environment.name
    made_of = json.dumps([environment.packages, sys.version_info[:2], _stamp(environment)])
    ready = folder / "ready.json"
    if ready.is_file() and ready.read_text("utf-8") == made_of:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    log = home / f"{environment.name}.log"
    with log.open("w", encoding="utf-8") as output:
        for command in _commands(environment, folder):
            try:
                code = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=INSTALL_SECONDS,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                raise InstallError(f"not installed within {INSTALL_SECONDS} s; see {log}") from None
            if code:
                raise InstallError(f"{_last_error(log)} (whole output: {log})")
    ready.write_text(made_of, "utf-8")
    return time.monotonic() - started


def _stamp(environment: Environment) -> str:
    """What else the environment is made of: this repository's requirements, where it is installed from here."""
    return (ROOT / "pyproject.toml").read_text("utf-8") if "-e" in environment.packages else ""


def _commands(environment: Environment, folder: Path) -> Iterator[Sequence[str]]:
    if environment.manager == "npm":
        npm = shutil.which("npm") or "npm"
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        yield (npm, "install", "--prefix", str(folder), *quiet, *environment.packages)
    else:
        python = str(folder / BIN / "python")
        yield (sys.executable, "-m", "venv", str(folder))
        yield (python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *environment.packages)


def _require(environment: Environment) -> None:
    """Raises `InstallError` where a program is missing or too old."""
    if environment.needs and shutil.which(environment.needs) is None:
        raise InstallError(f"{environment.needs} is not installed")
    if environment.manager == "npm":
        if shutil.which("npm") is None:
            raise InstallError("npm is not installed")
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
        if int("".join(filter(str.isdigit, version.split(".")[0])) or 0) < NODE_MAJOR:
            raise InstallError(f"needs Node {NODE_MAJOR} or newer, found {version.strip() or 'none'}")


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["the installer gave no reason"])[-1][:200]
