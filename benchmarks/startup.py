"""What starting up costs, beside other agent command lines: CPU seconds of `--help`, the prompt, a search, an answer.

    python benchmarks/startup.py [--runs 5] [--home DIR]
    python benchmarks/startup.py --imports [--runs 21]      # imports of this repository only, nothing is installed

Installs mcpagent (this repository) and the others, newest releases, each into an environment of its own in the home
folder, all with the Python that runs this; fast-agent on Python 3.11 beside the older pydantic and a2a-sdk that it
starts with. The runs are interleaved, so that a busy machine is fair to all, after one uncounted run of each. CPU
seconds are user + system, of the process and of every process it started. A prompt counts up to the moment when it
stands on a terminal, mcpagent's to the one when its server has answered; Linux only, since it is read from /proc.
mcpagent has a server of ten tools in its prompt, search and answer, the others none but fastmcp in its search. "50
servers" is the prompt of a chat with that many servers of ten tools, known from an earlier run: up to the moment when
all can be searched.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Contender:
    """A package and its commands; `prompt` is a pattern that stands on the screen when one can type.

    `search` is the nearest thing to searching known tools, on a catalogue kept on disk where there is such a thing;
    `answer` one answer of the model that works without a key; mcpagent has a server that answers.
    `many` is a chat with many servers whose tools are known from an earlier run, and what its screen shows then. None
    where there is nothing like it. `beside` are requirements of its own that it does not start with as they are now.
    """

    package: str
    help: tuple[str, ...]
    chat: tuple[str, ...] | None = None
    prompt: str = ""
    search: tuple[str, ...] | None = None
    answer: tuple[str, ...] | None = None
    many: tuple[tuple[str, ...], str] | None = None
    beside: tuple[str, ...] = ()


OLD_FAST_AGENT = ("pydantic<2.12", "a2a-sdk<0.3")
"""What the newest fast-agent for Python 3.11 starts with; later Pythons have a newer one."""

CONTENDERS = (
    Contender(
        "mcpagent",
        ("mcpagent", "--help"),
        (
            "mcpagent",
            "chat",
            "-m",
            "offline",
            "--config",
            "one.json",
            "--trust-project",
        ),
        r"tools \d+/10 .* mcp 1 ok",
        (
            "mcpagent",
            "tools",
            "search",
            "items",
            "--config",
            "one.json",
            "--trust-project",
        ),
        (
            "mcpagent",
            "-p",
            "what is 2 plus 2?",
            "-m",
            "offline",
            "--config",
            "one.json",
            "--trust-project",
        ),
        (
            (
                "mcpagent",
                "chat",
                "-m",
                "offline",
                "--config",
                "many.json",
                "--trust-project",
            ),
            r"tools \d+/500 .* mcp 50 ok",
        ),
    ),
    Contender(
        "fast-agent-mcp",
        ("fast-agent", "--help"),
        ("fast-agent", "go", "--model", "passthrough"),
        r"^default >$",
        answer=(
            "fast-agent",
            "go",
            "--model",
            "passthrough",
            "-m",
            "what is 2 plus 2?",
        ),
        beside=OLD_FAST_AGENT if sys.version_info < (3, 12) else (),
    ),
    Contender(
        "clai",
        ("clai", "--help"),
        ("clai", "-m", "test"),
        r"➤",
        answer=("clai", "-m", "test", "what is 2 plus 2?"),
    ),
    Contender(
        "llm",
        ("llm", "--help"),
        ("llm", "chat", "-m", "gpt-4o-mini"),
        r"^>$",
        ("llm", "tools", "list"),
    ),
    Contender(
        "fastmcp", ("fastmcp", "--help"), search=("fastmcp", "list", "server.py")
    ),
)

TOOL_SERVER = """from fastmcp import FastMCP

server = FastMCP("clock")


@server.tool
def current_time(zone: str) -> str:
    "The time in a time zone."
    return zone
"""

MANY_SERVERS, TOOLS_EACH = 50, 10
ONE_OF_MANY = """import json, sys

name, count = sys.argv[1], int(sys.argv[2])
PARTS = {
    "item": {"type": "string", "description": "The item that is meant, by its name or its number"},
    "limit": {"type": "integer", "description": "How many at most", "minimum": 1, "maximum": 100},
    "since": {"type": "string", "format": "date", "description": "Only what is newer than this day"},
}
SCHEMA = {"type": "object", "properties": PARTS, "required": ["item"]}
ABOUT = "Lists what {} has of kind {}, newest first."
TOOLS = [
    {"name": f"list_{place}", "description": ABOUT.format(name, place), "inputSchema": SCHEMA} for place in range(count)
]
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": name, "version": "1"},
    },
    "tools/list": {"tools": TOOLS},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": RESULTS.get(request["method"], {})}
        print(json.dumps(answer), flush=True)
"""


class NotMeasuredError(Exception):
    """A command failed or never came to its prompt; its text is one line."""


# -- measuring --------------------------------------------------------------------------------------------------------


def cpu_of_command(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> float:
    """CPU seconds until the command ends, its children included."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        deadline = time.monotonic() + SECONDS
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                process.kill()
                raise NotMeasuredError(
                    f"{' '.join(command[1:])}: not done within {SECONDS:.0f} s"
                )
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            lines = output.read().decode("utf-8", "replace").split("\n")
            reason = next(
                (line.strip() for line in reversed(lines) if line.strip()), ""
            )
            raise NotMeasuredError(f"exit code {process.returncode}: {reason[:100]}")
    return used.ru_utime + used.ru_stime


def cpu_of_prompt(
    command: Sequence[str], prompt: str, environment: Mapping[str, str], folder: Path
) -> float:
    """CPU seconds of the process and its descendants up to the moment when its prompt is on the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        with contextlib.suppress(OSError):
            os.execvpe(command[0], list(command), dict(environment))
        os._exit(127)
    try:
        _await_prompt(terminal, prompt)
        return _tree_cpu(pid)
    finally:
        _end(pid)
        os.close(terminal)


def _await_prompt(terminal: int, prompt: str) -> None:
    screen, deadline = b"", time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.5)[0]:
            continue
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if b"\x1b[6n" in chunk:
            os.write(
                terminal, b"\x1b[1;1R"
            )  # prompt_toolkit asks where the cursor is and waits for it
        screen += chunk
        shown = re.sub(
            r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07",
            "",
            screen.decode("utf-8", "replace"),
        )
        if any(re.search(prompt, line.strip()) for line in re.split(r"[\r\n]+", shown)):
            return
    text = " ".join(screen.decode("utf-8", "replace").split())[-100:]
    raise NotMeasuredError(f"no prompt seen: {text!r}")


def _processes() -> dict[int, tuple[int, float]]:
    """Parent and CPU seconds of every process, with those of its ended children."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = (
                    int(fields[1]),
                    sum(map(int, fields[11:15])) / TICKS,
                )
    return found


def _tree(root: int) -> Iterator[tuple[int, float]]:
    processes = _processes()
    pending = [root]
    while pending:
        pid = pending.pop()
        if pid in processes:
            yield pid, processes[pid][1]
        pending += [child for child, (parent, _) in processes.items() if parent == pid]


def _tree_cpu(root: int) -> float:
    return sum(seconds for _, seconds in _tree(root))


def _end(root: int) -> None:
    for pid, _ in list(_tree(root)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(root, 0)


# -- the contenders ---------------------------------------------------------------------------------------------------


def install(contender: Contender, home: Path) -> Path:
    """The folder with the contender's commands."""
    folder = home / contender.package
    bin_folder = folder / "bin"
    if not (folder / "ready").exists():
        print(f"installing {contender.package} ...", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
        what = (
            ["-e", str(ROOT)]
            if contender.package == "mcpagent"
            else [contender.package, *contender.beside]
        )
        pip = [
            str(bin_folder / "python"),
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, *what], check=True, timeout=600)
        (folder / "ready").touch()
    return bin_folder


def version(contender: Contender, bin_folder: Path) -> str:
    code = f"import importlib.metadata; print(importlib.metadata.version({contender.package!r}))"
    done = subprocess.run(
        [bin_folder / "python", "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.strip()


def environment(home: Path, bin_folder: Path) -> dict[str, str]:
    """No key, nobody's settings, nothing sent: only what the command itself does is measured."""
    user = home / "user"
    user.mkdir(exist_ok=True)
    return {
        "PATH": f"{bin_folder}:/usr/bin:/bin",
        "HOME": str(user),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLUMNS": "100",
        "LINES": "40",
        "OPENAI_API_KEY": "none",
        "FASTMCP_CHECK_FOR_UPDATES": "off",
    }


Measured = dict[tuple[str, str], list[float]]
COLUMNS = ("--help", "prompt", "50 servers", "search", "answer")


def measure(
    bins: Mapping[str, Path], home: Path, runs: int
) -> tuple[Measured, list[str]]:
    """CPU seconds by package and column; what could not be measured, with the reason."""
    found: Measured = {}
    failed: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "server.py").write_text(TOOL_SERVER, "utf-8")
        (work / "one.py").write_text(ONE_OF_MANY, "utf-8")
        many = {
            f"s{number:02}": {
                "command": sys.executable,
                "args": [str(work / "one.py"), f"s{number:02}", str(TOOLS_EACH)],
            }
            for number in range(MANY_SERVERS)
        }
        one = {name: many[name] for name in list(many)[:1]}
        for name, servers in {"one.json": one, "many.json": many}.items():
            (work / name).write_text(json.dumps({"mcpServers": servers}), "utf-8")
            know_servers(bins["mcpagent"], home, work, name, len(servers))
        for run in range(runs + 1):
            for contender in CONTENDERS:
                bin_folder = bins[contender.package]
                variables = environment(home, bin_folder)
                commands = {
                    "--help": contender.help,
                    "prompt": contender.chat,
                    "search": contender.search,
                    "answer": contender.answer,
                    "50 servers": contender.many[0]
                    if contender.many is not None
                    else None,
                }
                for column, command in commands.items():
                    key = (contender.package, column)
                    if command is None or key in failed:
                        continue
                    whole = (str(bin_folder / command[0]), *command[1:])
                    try:
                        if column == "prompt":
                            seconds = cpu_of_prompt(
                                whole, contender.prompt, variables, work
                            )
                        elif column == "50 servers" and contender.many is not None:
                            seconds = cpu_of_prompt(
                                whole, contender.many[1], variables, work
                            )
                        else:
                            seconds = cpu_of_command(whole, variables, work)
                    except NotMeasuredError as problem:
                        failed[key] = str(problem)
                        continue
                    if run:  # the first one fills caches and writes bytecode
                        found.setdefault(key, []).append(seconds)
    return found, [
        f"{package}, {column}: {reason}" for (package, column), reason in failed.items()
    ]


def know_servers(
    bin_folder: Path, home: Path, folder: Path, file: str, count: int
) -> None:
    """Has mcpagent ask each of the file's servers once, so that it knows their tools: each of them answers."""
    command = [
        str(bin_folder / "mcpagent"),
        "tools",
        "list",
        "--config",
        file,
        "--trust-project",
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(home, bin_folder),
        capture_output=True,
        timeout=300,
    )
    if f"{count * TOOLS_EACH} tools".encode() not in done.stdout:
        raise NotMeasuredError(
            f"the servers of {file} are not known: {done.stderr[-200:]!r}"
        )


def table(found: Measured, versions: Mapping[str, str]) -> str:
    medians = {key: statistics.median(values) for key, values in found.items()}
    lines = [
        f"{'CPU seconds, median (times mcpagent)':<36}"
        + "".join(f"{column:>16}" for column in COLUMNS)
    ]
    for contender in CONTENDERS:
        cells = []
        for column in COLUMNS:
            value, ours = (
                medians.get((contender.package, column)),
                medians.get(("mcpagent", column)),
            )
            ratio = f" ({value / ours:.1f}x)" if value is not None and ours else ""
            cells.append(f"{'-' if value is None else f'{value:.2f}{ratio}':>16}")
        lines.append(
            f"{contender.package + ' ' + versions[contender.package]:<36}"
            + "".join(cells)
        )
    return "\n".join(lines)


IMPORTS = (
    "pass",
    "import mcpagent",
    "from mcpagent import Agent",
    "from mcpagent import Agent; Agent('offline')",
)


def imports_table(runs: int) -> str:
    """CPU seconds of each import, and how many bare starts of Python that is."""
    seconds: dict[str, list[float]] = {code: [] for code in IMPORTS}
    for run in range(runs + 1):
        for code in IMPORTS:
            spent = cpu_of_command([sys.executable, "-c", code], os.environ, ROOT)
            if run:
                seconds[code].append(spent)
    medians = {code: statistics.median(values) for code, values in seconds.items()}
    bare = medians["pass"]
    lines = [
        f"{code:<46}{value:>8.3f} s{value / bare:>8.1f}x"
        for code, value in medians.items()
    ]
    return "\n".join(
        [
            f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {runs} runs",
            *lines,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="counted runs of each command (default: 5)"
    )
    parser.add_argument(
        "--home", type=Path, default=ROOT / ".demo" / "startup", help="where to install"
    )
    parser.add_argument(
        "--json", action="store_true", help="print all values as JSON too"
    )
    parser.add_argument(
        "--imports",
        action="store_true",
        help="measure only imports of this repository, against a bare start",
    )
    options = parser.parse_args()
    if options.imports:
        print(imports_table(options.runs))
        return
    home: Path = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    bins = {contender.package: install(contender, home) for contender in CONTENDERS}
    versions = {
        contender.package: version(contender, bins[contender.package])
        for contender in CONTENDERS
    }
    found, failed = measure(bins, home, options.runs)
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {options.runs} runs each, interleaved"
    )
    print(table(found, versions))
    print(
        "search: "
        + "; ".join(
            " ".join(item.search) for item in CONTENDERS if item.search is not None
        )
    )
    print(
        "answer: "
        + "; ".join(
            " ".join(item.answer) for item in CONTENDERS if item.answer is not None
        )
    )
    for line in failed:
        print(f"not measured: {line}")
    if options.json:
        print(
            json.dumps(
                {
                    f"{package} {column}": values
                    for (package, column), values in found.items()
                }
            )
        )


if __name__ == "__main__":
    main()
