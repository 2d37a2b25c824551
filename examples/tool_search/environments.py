"""Makes the environments the example needs: one for mcpagent, one for each published server. Standard library only."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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
    Environment(
        "calculator", ("mcp-server-calculator==0.2.1", "mcp<2"), ("calculator",)
    ),
    Environment("aws", ("mcp==2.3.0", "botocore==1.44.5"), ("aws",)),
    Environment(
        "node",
        (
            f"{NPM}everything@2026.8.31",
            f"{NPM}filesystem@2026.8.31",
            f"{NPM}memory@2026.8.31",
        ),
        ("everything", "filesystem", "memory"),
        manager="npm",
        needs="node",
    ),
)

NODE_MAJOR = 18


class InstallError(Exception):
    """An environment could not be made; its text is one line."""


def prepare(
    home: Path,
    say: Callable[[str], None],
    mcpagent: Environment = MCPAGENT,
    retry: bool = False,
) -> set[str]:
    """Makes what is missing, several at once, and names the servers that can run.

    `retry`: what could not be installed in an earlier run is tried again. Raises `InstallError` when mcpagent itself
    cannot be installed; a server that cannot is told and left out.
    """
    home.mkdir(parents=True, exist_ok=True)
    usable: set[str] = set()
    under_way: dict[str, float] = {}

    def installed(environment: Environment) -> float | None:
        def begins() -> None:
            under_way[environment.name] = time.monotonic()
            say(f"  {environment.name:<12}   ...   installing {environment.contents}")

        try:
            return make(
                environment,
                home,
                retry=retry or environment is mcpagent,
                begins=begins,
            )
        finally:
            under_way.pop(environment.name, None)

    with ThreadPoolExecutor(max_workers=3) as workers:
        started = {
            workers.submit(installed, environment): environment
            for environment in (mcpagent, *ENVIRONMENTS)
        }
        for done in _as_they_end(started, under_way, say):
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
            failed = (
                home / f"{environment.name}.failed.json"
            )  # a newer one could not be had
            contents = (
                f"as it was: {_failure(failed)[1]}"
                if failed.exists()
                else environment.contents
            )
            say(f"  {environment.name:<12} {taken:>5}   {contents}")
    return usable


SILENT_SECONDS = 10
"""The longest pause without a line while something is installed."""


def _as_they_end(
    started: Iterable[Future[float | None]],
    under_way: dict[str, float],
    say: Callable[[str], None],
) -> Iterator[Future[float | None]]:
    """Yields each environment that is done, and reports the others every ten seconds."""
    pending = set(started)
    while pending:
        ended, pending = wait(
            pending, timeout=SILENT_SECONDS, return_when=FIRST_COMPLETED
        )
        yield from ended
        if not ended:
            now = time.monotonic()
            names = [f"{name} {now - at:.0f} s" for name, at in [*under_way.items()]]
            say(f"  still installing: {', '.join(names)}")


def make(
    environment: Environment,
    home: Path,
    *,
    retry: bool = False,
    begins: Callable[[], None] = lambda: None,
) -> float | None:
    """Installs one environment; seconds taken, None where one is there already. `begins` is called before it installs.

    A failure is kept beside it and raised again by later runs, without trying, until `retry` or other packages. Where
    an older one was there, it stays as it was and is used.
    """
    _require(environment)
    folder, before = home / environment.name, home / f"{environment.name}.before"
    ready, failure = folder / "ready.json", home / f"{environment.name}.failed.json"
    if (
        before.exists() and not ready.exists()
    ):  # an attempt that was ended in the middle
        _replace(before, folder)
    made_of = json.dumps(
        [environment.packages, sys.version_info[:2], _stamp(environment)]
    )
    if ready.is_file() and ready.read_text("utf-8") == made_of:
        return None
    tried, reason = _failure(failure)
    if not retry and tried == made_of:
        if ready.is_file():
            return None
        raise InstallError(f"{reason}; not tried again (--retry does)")
    if ready.is_file():
        _replace(folder, before)
    started = time.monotonic()
    begins()
    try:
        _install(environment, folder, home / f"{environment.name}.log")
    except InstallError as problem:
        failure.write_text(json.dumps([made_of, str(problem)]), "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        if before.exists():
            _replace(before, folder)
            return None
        raise
    ready.write_text(made_of, "utf-8")
    failure.unlink(missing_ok=True)
    shutil.rmtree(before, ignore_errors=True)
    return time.monotonic() - started


def _replace(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    source.rename(target)


def _failure(file: Path) -> tuple[str, str]:
    """What was tried in an earlier run, and why it failed; nothing where none did."""
    try:
        tried, reason = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return "", ""
    return str(tried), str(reason)


def _install(environment: Environment, folder: Path, log: Path) -> None:
    """Raises `InstallError`, in one line, where it does not succeed."""
    if environment.manager == "npm" and shutil.which("npm") is None:
        raise InstallError("npm is not installed")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
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
                raise InstallError(
                    f"not installed within {INSTALL_SECONDS} s; see {log}"
                ) from None
            if code:
                raise InstallError(f"{_cause(log)} (whole output: {log})")


def _stamp(environment: Environment) -> str:
    """What else the environment is made of: this repository's requirements, where it is installed from here."""
    return (
        (ROOT / "pyproject.toml").read_text("utf-8")
        if "-e" in environment.packages
        else ""
    )


def _commands(environment: Environment, folder: Path) -> Iterator[Sequence[str]]:
    if environment.manager == "npm":
        npm = shutil.which("npm") or "npm"
        quiet = (
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--loglevel=error",
            "--fetch-retries=1",
        )
        yield (npm, "install", "--prefix", str(folder), *quiet, *environment.packages)
    else:
        python = str(folder / BIN / "python")
        yield (sys.executable, "-m", "venv", str(folder))
        yield (
            python,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            *environment.packages,
        )


def _require(environment: Environment) -> None:
    """Raises `InstallError` where a program is missing or too old."""
    if environment.needs and shutil.which(environment.needs) is None:
        raise InstallError(f"{environment.needs} is not installed")
    if environment.manager == "npm":
        version = subprocess.run(
            ["node", "--version"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        ).stdout
        if int("".join(filter(str.isdigit, version.split(".")[0])) or 0) < NODE_MAJOR:
            raise InstallError(
                f"needs Node {NODE_MAJOR} or newer, found {version.strip() or 'none'}"
            )


NPM_DETAIL = re.compile(
    r"npm (?:error|ERR!) (?:(?:code|syscall|errno|path|type) |A complete log|\s*$)",
    re.IGNORECASE,
)
"""Lines of npm's that say nothing by themselves; the cause is the first of the others."""


def _cause(log: Path) -> str:
    """The line of the installer's output that says why: npm's first, pip's last."""
    lines = [
        line.strip()
        for line in log.read_text("utf-8", "replace").splitlines()
        if line.strip()
    ]
    of_npm = [
        line for line in lines if re.match(r"npm (?:error|ERR!)", line, re.IGNORECASE)
    ]
    told = [line for line in of_npm if not NPM_DETAIL.match(line)]
    errors = [line for line in lines if "error" in line.lower()]
    return (
        told[0] if told else (errors or lines or ["the installer gave no reason"])[-1]
    )[:200]
