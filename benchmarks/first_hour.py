"""The first hour beside other command lines: the first visible token, start CPU, lines of help, flags.

    python -m benchmarks.first_hour [--runs 5] [--home DIR]

Installs mcpagent (this repository), llm, fast-agent and clai, newest releases, each into an environment of its own, as
`benchmarks/startup.py` does. All ask one question of the same server on this machine, which speaks OpenAI's Chat
Completions, waits for 0.3 seconds and then sends a word every 50 ms. Each command runs on a terminal of its own. The
columns:

- `delta to screen`: from the moment when the server sent the first word to the moment when the word is on the screen.
- `start to word`: from the start of the command to that moment, the 0.3 seconds included.
- `CPU help`, `CPU answer`: user and system seconds of `--help`, and of the whole answer.
- `help lines`, `flags`: lines of `--help`, and the flags of all commands, counted in their help pages.

The runs are interleaved, after one uncounted run of each. POSIX only.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.startup import (
    CONTENDERS,
    ROOT,
    SECONDS,
    NotMeasuredError,
    cpu_of_command,
    environment,
    install,
    version,
)

NAMES = ("mcpagent", "llm", "fast-agent-mcp", "clai")
FIRST = "quokka"
WORDS = (FIRST, *(f" word{number}" for number in range(20)))
WAIT, PAUSE = 0.3, 0.05


class Scripted(BaseHTTPRequestHandler):
    """One answer, word by word; `sent` is when its first word was written."""

    sent = 0.0

    def log_message(self, *_: object) -> None:
        """Nothing: stderr is the table's."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        time.sleep(WAIT)
        for place, word in enumerate(WORDS):
            if place == 0:
                Scripted.sent = time.monotonic()
            self._write({"role": "assistant", "content": word}, None)
            time.sleep(PAUSE)
        self._write({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def _write(self, delta: dict[str, str], reason: str | None) -> None:
        chunk = {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "slow",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


@dataclass(frozen=True, slots=True)
class Asked:
    """A command that asks the server, and the variables that lead to it."""

    command: tuple[str, ...]
    variables: dict[str, str]


def questions(address: str, work: Path) -> dict[str, Asked]:
    """The question of each contender, by package."""
    (work / "none.json").write_text('{"mcpServers": {}}')
    (work / "extra-openai-models.yaml").write_text(
        f"- model_id: slow\n  model_name: slow\n  api_base: {address}\n"
    )
    # Not "slow": fast-agent has a stand-in of that name, which asks no server.
    (work / "fastagent.config.yaml").write_text(
        f"generic:\n  api_key: none\n  base_url: {address}\n"
    )
    prompt = "Say something."
    return {
        "mcpagent": Asked(
            (
                "mcpagent",
                "-p",
                prompt,
                "-m",
                f"openai-chat:slow?base_url={address}",
                "--config",
                "none.json",
            ),
            {"MCPAGENT_TRUST_PROJECT": "1"},
        ),
        "llm": Asked(
            ("llm", "-m", "slow", "--key", "none", prompt),
            {"LLM_USER_PATH": str(work)},
        ),
        "fast-agent-mcp": Asked(
            ("fast-agent", "go", "--model", "generic.scripted", "-m", prompt),
            {},
        ),
        "clai": Asked(
            ("clai", "-m", "openai-chat:slow", prompt), {"OPENAI_BASE_URL": address}
        ),
    }


def first_word(
    command: Sequence[str], variables: dict[str, str], folder: Path
) -> tuple[float, float, float]:
    """Seconds from the first delta to the screen, from the start to the screen, and CPU seconds of the whole."""
    Scripted.sent = 0.0
    began = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(command[0], list(command), variables)
    shown, seen = b"", 0.0
    deadline = began + SECONDS
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        if not ready:
            continue
        try:
            read = os.read(terminal, 65_536)
        except OSError:
            break
        if not read:
            break
        shown += read
        if b"\x1b[6n" in read:  # a question for the cursor's place
            os.write(terminal, b"\x1b[1;1R")
        if not seen and Scripted.sent and FIRST.encode() in shown:
            seen = time.monotonic()
    else:
        os.kill(pid, signal.SIGKILL)
    _, _, used = os.wait4(pid, 0)
    os.close(terminal)
    if not seen:
        raise NotMeasuredError(f"the word was never shown: {shown[-300:]!r}")
    return seen - Scripted.sent, seen - began, used.ru_utime + used.ru_stime


def help_of(
    command: Sequence[str], variables: dict[str, str], folder: Path
) -> tuple[str, list[str]]:
    """The help page of a command, and the names of its subcommands."""
    done = subprocess.run(
        [*command, "--help"],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    page = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    commands = ""
    if re.search(r"Usage:.*COMMAND|^subcommands:", page, re.MULTILINE):
        commands = re.split(r"(?:Sub|sub)?[Cc]ommands\b", page, maxsplit=1)[-1]
        commands = re.split(r"^\w[\w ]+:$|╰", commands, maxsplit=1, flags=re.MULTILINE)[
            0
        ]
    return page, re.findall(
        r"^[ │|]{1,4}([a-z][a-z0-9-]+)\*?(?: |$)", commands, re.MULTILINE
    )


def flags_of(
    command: Sequence[str], variables: dict[str, str], folder: Path, depth: int = 2
) -> set[str]:
    """The long flags in the help pages of a command and its subcommands."""
    page, names = help_of(command, variables, folder)
    found = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", page))
    for name in names if depth else []:
        found |= flags_of([*command, name], variables, folder, depth - 1)
    return found


def own_flags(variables: dict[str, str], folder: Path, program: str) -> set[str]:
    """Those of mcpagent: `--help all` lists all of them."""
    done = subprocess.run(
        [program, "--help", "all"],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    listed = done.stdout.partition("\nFlags:\n")[2].partition("\nSettings")[0]
    heads = re.findall(r"^  ((?:-\w, |--[\w-]+[ ,/]*)+)", listed, re.MULTILINE)
    return set(re.findall(r"--[a-z][\w-]*", " ".join(heads))) | {"--help"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each")
    parser.add_argument(
        "--home", type=Path, default=ROOT / ".demo" / "startup", help="where to install"
    )
    options = parser.parse_args()
    home: Path = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    contenders = {item.package: item for item in CONTENDERS if item.package in NAMES}
    bins = {name: install(contenders[name], home) for name in NAMES}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/v1"
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in NAMES}
    helps: dict[str, list[float]] = {name: [] for name in NAMES}
    lines: dict[str, int] = {}
    flags: dict[str, int] = {}
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        asked = questions(address, work)
        for run in range(options.runs + 1):
            for name in NAMES:
                variables = environment(home, bins[name]) | asked[name].variables
                program, *rest = asked[name].command
                whole = [str(bins[name] / program), *rest]
                try:
                    spent = cpu_of_command([whole[0], "--help"], variables, work)
                    measured = first_word(whole, variables, work)
                except NotMeasuredError as problem:
                    problems[name] = str(problem)
                    continue
                if run:
                    helps[name].append(spent)
                    found[name].append(measured)
        for name in NAMES:
            variables = environment(home, bins[name])
            program = str(bins[name] / asked[name].command[0])
            lines[name] = len(help_of([program], variables, work)[0].splitlines())
            if name == "mcpagent":
                flags[name] = len(own_flags(variables, work, program))
            else:
                flags[name] = len(flags_of([program], variables, work))
    server.shutdown()
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {options.runs} runs, interleaved"
    )
    print(
        f"{'':<24}{'delta to screen':>16}{'start to word':>15}{'CPU help':>10}"
        f"{'CPU answer':>12}{'help lines':>12}{'flags':>7}"
    )
    for name in NAMES:
        label = f"{name} {version(contenders[name], bins[name])}"
        if found[name]:
            delta, start, cpu = (
                statistics.median(values) for values in zip(*found[name], strict=True)
            )
            measures = f"{delta * 1000:>13.0f} ms{start:>13.2f} s{statistics.median(helps[name]):>8.2f} s{cpu:>10.2f} s"
        else:
            measures = f"{'-':>16}{'-':>15}{'-':>10}{'-':>12}"
        print(f"{label:<24}{measures}{lines[name]:>12}{flags[name]:>7}")
    for name, reason in problems.items():
        print(f"not measured: {name}: {reason}")


if __name__ == "__main__":
    main()
