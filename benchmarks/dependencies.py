"""What each dependency of mcpagent weighs, in a fresh environment: the figures beside them in pyproject.toml.

    python benchmarks/dependencies.py [--runs 5] [--home DIR]
    python benchmarks/dependencies.py --extras      # the table of sizes in docs/install.md

Linux only, since the prompt is read from a terminal. Sizes are those of the installed files without bytecode, in MB of
10^6 bytes: of the package alone, with all that it needs itself, and what would be gone if only this line were. The
import is the CPU time of `import` in a new process over that of a process without it, the median of the runs. The last
column says which starts load it: of `--help`, until the prompt stands, of an answer without a key and a server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import re
import resource
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60.0
PACKAGE = "mcpagent"

LISTING = """
import importlib.metadata as metadata, json, re
from pip._vendor.packaging.requirements import Requirement

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

def required(dist, extras):
    for item in map(Requirement, dist.requires or []):
        if not item.marker or any(item.marker.evaluate({"extra": extra}) for extra in extras):
            yield item

asked = {}  # the extras that somebody here asks of a package
for _ in range(3):
    for dist in metadata.distributions():
        for item in required(dist, asked.get(plain(dist.name), {""})):
            asked.setdefault(plain(item.name), {""}).update(item.extras)

def needed(dist):
    return sorted({plain(item.name) for item in required(dist, asked.get(plain(dist.name), {""}))})

modules = {}
for module, names in metadata.packages_distributions().items():
    for name in names:
        modules.setdefault(plain(name), []).append(module)
print(json.dumps({
    plain(dist.name): {
        "version": dist.version,
        "size": sum(
            file.locate().stat().st_size
            for file in dist.files or []
            if "__pycache__" not in file.parts and file.locate().is_file()
        ),
        "needs": needed(dist),
        "modules": sorted(name for name in modules.get(plain(dist.name), []) if name.isidentifier()),
    }
    for dist in metadata.distributions()
}))
"""
"""Runs in the environment, with the pip that is there; prints what is installed."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A package in the environment; `size` in bytes, `needs` by name, `modules` that can be imported."""

    version: str
    size: int
    needs: tuple[str, ...]
    modules: tuple[str, ...]


EXTRAS = (
    "semantic",
    "multilingual",
    "tables",
    "postgres",
    "durable",
    "query",
    "otel",
    "code",
)
"""Those that somebody wants who uses mcpagent; the others are for work on this repository."""


def install(home: Path, extra: str = "") -> Path:
    """The Python of a fresh environment that holds mcpagent, with one extra, and what it needs, nothing else."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--clear", home], check=True, timeout=120
    )
    python = home / "bin" / "python"
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    subprocess.run(
        [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", what],
        check=True,
        timeout=600,
    )
    return python


def sizes_with_extras(folder: Path) -> Iterator[str]:
    """A Markdown table: the wheel, all that is installed with it, and what each extra adds."""
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-qq",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    subprocess.run([*wheel, "-w", str(folder), str(ROOT)], check=True, timeout=300)
    [built] = folder.glob("*.whl")
    base = installed(install(folder / "base"))
    needed = reached(base, [PACKAGE])
    yield "| what | packages | MB | the largest |"
    yield "|---|---|---|---|"
    yield f"| the wheel of mcpagent, as it is downloaded | 1 | {built.stat().st_size / 1e6:.1f} | |"
    yield _row("mcpagent, installed", base, {PACKAGE})
    yield _row("with all that it needs", base, needed)
    for extra in EXTRAS:
        packages = installed(install(folder / extra, extra))
        extras = {name: item for name, item in packages.items() if name not in base}
        yield _row(f"`[{extra}]` adds", packages, set(extras))


def _row(what: str, packages: Mapping[str, Installed], names: set[str]) -> str:
    largest = sorted(names - {PACKAGE}, key=lambda name: -packages[name].size)[:3]
    words = ", ".join(f"{name} {packages[name].size / 1e6:.1f}" for name in largest)
    return f"| {what} | {len(names)} | {weight(packages, names):.1f} | {words} |"


def installed(python: Path) -> dict[str, Installed]:
    done = subprocess.run(
        [python, "-c", LISTING], capture_output=True, text=True, timeout=60, check=True
    )
    listed: Mapping[str, Any] = json.loads(done.stdout)
    return {
        name: Installed(
            item["version"], item["size"], tuple(item["needs"]), tuple(item["modules"])
        )
        for name, item in listed.items()
    }


def reached(packages: Mapping[str, Installed], roots: Collection[str]) -> set[str]:
    """The packages named, and all that these need."""
    found: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name in packages and name not in found:
            found.add(name)
            pending += packages[name].needs
    return found


def weight(packages: Mapping[str, Installed], names: Collection[str]) -> float:
    return sum(packages[name].size for name in names) / 1e6


# -- importing ---------------------------------------------------------------------------------------------------------


def cpu_seconds(python: Path, code: str) -> float:
    """User and system time of a process that runs the code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [python, "-I", "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def import_seconds(
    python: Path, modules: Mapping[str, str], runs: int
) -> dict[str, float]:
    """Medians by package, interleaved with a process that imports nothing, after one uncounted run."""
    code = {"": "pass"} | {name: f"import {module}" for name, module in modules.items()}
    taken: dict[str, list[float]] = {name: [] for name in code}
    for run in range(runs + 1):
        for name, line in code.items():
            seconds = cpu_seconds(python, line)
            if run:
                taken[name].append(seconds)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    return {name: medians[name] - medians[""] for name in modules}


# -- starting ----------------------------------------------------------------------------------------------------------


def loaded(python: Path, folder: Path) -> Iterator[tuple[str, set[str]]]:
    """The name of each kind of start, and the top-level modules that it imports."""
    (folder / "none.json").write_text('{"mcpServers": {}}', "utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PYTHONPROFILEIMPORTTIME": "1",
    }
    command = [str(python), "-m", PACKAGE]
    for name, arguments in (
        ("help", ["--help"]),
        (
            "answer",
            ["-p", "what is 2 plus 2?", "-m", "offline", "--config", "none.json"],
        ),
    ):
        done = subprocess.run(
            [*command, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        yield name, imported(done.stderr)
    chat = [*command, "chat", "-m", "offline", "--config", "none.json"]
    yield "prompt", imported(until_prompt(chat, environment, folder))


def imported(output: str) -> set[str]:
    return {
        name.split(".")[0]
        for name in re.findall(r"import time:\s*\d+ \|\s*\d+ \|\s*([\w.]+)", output)
    }


def until_prompt(command: list[str], environment: dict[str, str], folder: Path) -> str:
    """What the command writes to a terminal until it asks for a line."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(command[0], command, environment)
    screen, deadline = b"", time.monotonic() + SECONDS
    try:
        while not re.search(
            rb"(?m)^\s*(?:\x1b\[[0-9;?]*[a-zA-Z])*>(?:\x1b|\s)", screen
        ):
            if time.monotonic() > deadline:
                raise SystemExit(f"no prompt within {SECONDS:.0f} s: {screen[-200:]!r}")
            if select.select([terminal], [], [], 0.5)[0]:
                chunk = os.read(terminal, 65536)
                if b"\x1b[6n" in chunk:
                    os.write(
                        terminal, b"\x1b[1;1R"
                    )  # prompt_toolkit asks where the cursor is and waits for it
                screen += chunk
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return screen.decode("utf-8", "replace")


# -- the table ---------------------------------------------------------------------------------------------------------


def table(
    packages: Mapping[str, Installed],
    seconds: Mapping[str, float],
    starts: Mapping[str, set[str]],
) -> Iterator[str]:
    direct = packages[PACKAGE].needs
    everything = reached(packages, [PACKAGE])
    yield f"{'package':<18}{'version':>12}{'MB':>10}{'with own':>10}{'if gone':>10}{'import':>9}   loaded at"
    for name in sorted(
        direct, key=lambda name: -weight(packages, reached(packages, [name]))
    ):
        others = reached(packages, [other for other in direct if other != name])
        sizes = (
            packages[name].size / 1e6,
            weight(packages, reached(packages, [name])),
            weight(packages, everything - others - {PACKAGE}),
        )
        took = f"{seconds[name] * 1000:.0f} ms" if name in seconds else "-"
        users = ", ".join(
            start
            for start, modules in starts.items()
            if modules & set(packages[name].modules)
        )
        cells = "".join(f"{size:>10.1f}" for size in sizes)
        yield f"{name:<18}{packages[name].version:>12}{cells}{took:>9}   {users or '-'}"
    yield (
        f"{PACKAGE} itself {weight(packages, [PACKAGE]):.1f} MB; "
        f"with all {len(everything) - 1} packages {weight(packages, everything):.1f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=5,
        help="counted imports of each package (default: 5)",
    )
    parser.add_argument(
        "--home",
        type=Path,
        help="where to install (default: a folder that is removed afterwards)",
    )
    parser.add_argument(
        "--extras",
        action="store_true",
        help="only the sizes, of the extras too, as Markdown",
    )
    options = parser.parse_args()
    if options.extras:
        with tempfile.TemporaryDirectory() as folder:
            print("\n".join(sizes_with_extras(Path(folder))))
        return
    with tempfile.TemporaryDirectory() as folder:
        python = install(
            options.home.resolve() if options.home else Path(folder) / "environment"
        )
        packages = installed(python)
        modules = {
            name: packages[name].modules[0]
            for name in packages[PACKAGE].needs
            if packages[name].modules
        }
        seconds = import_seconds(python, modules, options.runs)
        starts = dict(loaded(python, Path(folder)))
    print(
        f"Python {sys.version.split()[0]}, {sys.platform}, {options.runs} runs each, interleaved"
    )
    print("\n".join(table(packages, seconds, starts)))


if __name__ == "__main__":
    main()
