"""What a small local model gets done with the demo server's tools, through mcpagent and other frameworks.

    python -m benchmarks.local [--model qwen2.5-coder-1.5b] [--only SYSTEM ...] [--loose] [--home DIR]

Twenty everyday requests (`benchmarks/data/local_tasks.json`), each in a conversation of its own, over the bundled demo
server and llama.cpp with a model out of packages (`benchmarks/local_models.py`). A task is done through a tool if one
that serves it was called and gave no error: seen at the MCP server, whatever the framework says; what the answer should
hold is looked for in it. An answer that is JSON is a call that nobody ran. Requests and tokens are counted at
llama.cpp's. Each framework, newest release, has an environment of its own in the home folder, and the settings that it
has by itself. It takes an hour or more for all; with `--only` a system's share.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.local_models import MODELS, UnavailableError, running
from benchmarks.local_observer import observed
from benchmarks.local_systems import SYSTEMS
from benchmarks.loop import installed

ROOT = Path(__file__).resolve().parents[1]
TASKS = ROOT / "benchmarks" / "data" / "local_tasks.json"
PACKAGES = {
    "mcpagent": ["-e", str(ROOT)],
    "pydantic-ai": ["pydantic-ai-slim[openai,mcp]", "fastmcp"],
    "openai-agents": ["openai-agents"],
    "fast-agent": ["fast-agent-mcp"],
}
NEEDS_PYTHON = {"fast-agent": (3, 12)}
_JSON_ANSWER = re.compile(
    r'\s*(```\w*\s*)?[\[{]|\s*<tool_call>|[^{}]{0,40}\{+"(name|function)":'
)


@dataclass(slots=True)
class Outcome:
    """One task: whether a tool did it, whether the answer has what it should, what the model was asked."""

    by_tool: bool
    is_right: bool
    is_json: bool
    requests: int
    tokens: int
    cached: int
    answer: str


def run_system(
    home: Path,
    system: str,
    address: str,
    model: str,
    tasks: Sequence[dict[str, Any]],
    options: Sequence[str],
) -> list[Outcome]:
    """All tasks with one system, one process for each, so that one that hangs or falls takes no other with it."""
    ours, python = (
        installed(home, package, PACKAGES[package])
        for package in ("mcpagent", system.partition(",")[0])
    )
    with tempfile.TemporaryDirectory() as folder:
        return _run_all(
            ours, python, system, address, model, tasks, options, Path(folder)
        )


def _run_all(
    ours: Path,
    python: Path,
    system: str,
    address: str,
    model: str,
    tasks: Sequence[dict[str, Any]],
    options: Sequence[str],
    folder: Path,
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for place, task in enumerate(tasks):
        log = folder / f"{place}.jsonl"
        log.touch()
        server = [
            str(ours),
            str(ROOT / "benchmarks" / "local_observer.py"),
            *options,
            str(log),
        ]
        server += [str(ours), "-m", "mcpagent.demo.server"]
        with observed(address, log) as seen:
            command = [
                str(python),
                "-m",
                "benchmarks.local_systems",
                system,
                seen,
                model,
                *server,
            ]
            variables = {
                "PATH": "/usr/bin:/bin",
                "HOME": str(folder),
                "LANG": "C.UTF-8",
                "PYTHONPATH": str(ROOT),
            }
            started = time.monotonic()
            try:
                done = subprocess.run(
                    command,
                    input=json.dumps(task["request"]) + "\n",
                    capture_output=True,
                    text=True,
                    timeout=600,
                    check=False,
                    cwd=folder,
                    env=variables,
                )
                said = (
                    json.loads(done.stdout.splitlines()[-1])
                    if done.stdout.strip()
                    else {"error": done.stderr[-300:]}
                )
            except subprocess.TimeoutExpired:
                said = {"error": "no answer within ten minutes"}
        outcome = judged(
            task, said, [json.loads(line) for line in log.read_text().splitlines()]
        )
        outcomes.append(outcome)
        how = "tool" if outcome.by_tool else "JSON" if outcome.is_json else "-"
        shown = " ".join(outcome.answer.split())[:110]
        seconds = time.monotonic() - started
        print(
            f"  {place + 1:2} {how:5}{outcome.requests:3} requests{seconds:6.0f} s  {shown}",
            file=sys.stderr,
            flush=True,
        )
    return outcomes


def judged(
    task: dict[str, Any], said: dict[str, str], seen: Sequence[dict[str, Any]]
) -> Outcome:
    """What came of a task, by what was seen beside the framework and what it said."""
    answer = said.get("answer", "")
    called = {
        entry["tool"] for entry in seen if "tool" in entry and not entry["failed"]
    }
    asked = [entry for entry in seen if "request" in entry]
    return Outcome(
        by_tool=bool(called & set(task["tools"])),
        is_right=bool(answer.strip())
        and task["answer"].lower().replace(",", "") in answer.lower().replace(",", ""),
        is_json=bool(_JSON_ANSWER.match(answer)),
        requests=len(asked),
        tokens=sum(
            entry.get("prompt_n", 0) + entry.get("cache_n", 0) for entry in asked
        ),
        cached=sum(entry.get("cache_n", 0) for entry in asked),
        answer=answer or f"error: {said.get('error', '')}",
    )


def row(system: str, outcomes: Sequence[Outcome]) -> str:
    """One line of the table."""
    tasks = len(outcomes)
    by_tool, right = (
        sum(one.by_tool for one in outcomes),
        sum(one.by_tool and one.is_right for one in outcomes),
    )
    raw, failed = (
        sum(one.is_json for one in outcomes),
        sum(one.answer.startswith("error: ") for one in outcomes),
    )
    requests, tokens = (
        sum(one.requests for one in outcomes),
        sum(one.tokens for one in outcomes),
    )
    evaluated = tokens - sum(one.cached for one in outcomes)
    return (
        f"| {system} | {by_tool} of {tasks} | {right} | {raw} | {failed} | {requests / tasks:.1f} "
        f"| {tokens / tasks:,.0f} | {evaluated / tasks:,.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model",
        choices=MODELS,
        default="qwen2.5-coder-1.5b",
        help="(qwen2.5-coder-1.5b)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SYSTEMS,
        default=[*SYSTEMS],
        help="measure only these",
    )
    parser.add_argument(
        "--home", type=Path, default=ROOT / ".demo" / "local", help="where to install"
    )
    parser.add_argument(
        "--window",
        type=int,
        default=16_384,
        help="tokens of the model's window (16384)",
    )
    parser.add_argument("--tasks", type=int, default=100, help="only the first so many")
    parser.add_argument(
        "--loose",
        action="store_true",
        help="leave patterns out of the tools' schemas, which llama.cpp refuses",
    )
    options = parser.parse_args()
    home: Path = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    tasks = json.loads(TASKS.read_text(encoding="utf-8"))[: options.tasks]
    schemas = ", schemas without patterns" * options.loose
    print(
        f"{MODELS[options.model].title}, window {options.window:,}, {len(tasks)} tasks over the demo server{schemas}"
    )
    print(
        "| | through a tool | and answered right | JSON as answer | no answer | requests | tokens | not cached |"
    )
    print("| --- " * 8 + "|", flush=True)
    try:
        with running(home / "models", options.model, window=options.window) as address:
            for system in options.only:
                package = system.partition(",")[0]
                if sys.version_info[:2] < NEEDS_PYTHON.get(package, (3, 11)):
                    print(f"| {system} | its releases need another Python |")
                    continue
                print(system, file=sys.stderr)
                found = run_system(
                    home,
                    system,
                    address,
                    options.model,
                    tasks,
                    ["--loose"] * options.loose,
                )
                print(row(system, found), flush=True)
    except UnavailableError as error:
        sys.exit(f"local: {error}")


if __name__ == "__main__":
    main()
