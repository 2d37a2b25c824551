"""What a long task takes in tokens, with and without keeping its conversation short, beside other agent frameworks.

    python -m benchmarks.context --beside [--home DIR] [--only mcpagent ...]

The task: sixty questions in one conversation, each of which makes the model read one document of 6,000 characters; five
of them have 120,000, about 30,000 tokens. The model is a loopback server that speaks Chat Completions, counts what it
is sent, caches prefixes as OpenAI does and refuses what is longer than its window (`benchmarks/context_server.py`): of
64,000 tokens, but for those who do nothing about the length, whose window has no end. mcpagent (this repository) keeps
large results beside the conversation, compacts it, or both; pydantic-ai is measured with the tiers of compaction that
pydantic-ai-harness recommends, fast-agent with its own. Each is installed, newest release, into an environment of its
own in the home folder. fast-agent needs Python 3.12 or later: run `python3.13 -m benchmarks.context --beside`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.context_systems import SYSTEMS, WAYS
from benchmarks.loop import NEEDS_PYTHON, ROOT, installed, version

STEPS, WINDOW, ENDLESS = 60, 64_000, 10_000_000
LEAST_CACHED = 0.85
PACKAGES = {
    "mcpagent": ["-e", str(ROOT)],
    "pydantic-ai-slim": ["pydantic-ai-slim[openai]", "pydantic-ai-harness"],
    "fast-agent-mcp": ["fast-agent-mcp"],
}
TITLES = {
    "without": "nothing done about it",
    "large": "large results set aside",
    "compacted": "compacted",
    "both": "large results set aside, and compacted",
}


async def done(system: str, way: str, address: str) -> int:
    """How many steps of the task came to their answer."""
    async with SYSTEMS[system](address, way, WINDOW) as ask:
        for step in range(1, STEPS + 1):
            try:
                await ask(
                    f"Step {step}: read document {step} and note down what matters for the report."
                )
            except Exception as error:  # noqa: BLE001 - whatever a framework raises ends its task
                print(
                    f"{system}, {way}, step {step}: {type(error).__name__}: {str(error)[:200]}",
                    file=sys.stderr,
                )
                return step - 1
    return STEPS


@contextmanager
def provider(window: int) -> Iterator[str]:
    """The address of a server of its own."""
    command = [sys.executable, "-m", "benchmarks.context_server", str(window)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.communicate(timeout=30)


def run_one(python: Path, system: str, way: str) -> dict[str, Any]:
    with (
        provider(ENDLESS if way == "without" or way == "large" else WINDOW) as address,
        tempfile.TemporaryDirectory() as folder,
    ):
        command = [
            str(python),
            "-m",
            "benchmarks.context_beside",
            "--one",
            system,
            way,
            f"{address}/v1",
        ]
        variables = {
            "PATH": "/usr/bin:/bin",
            "HOME": folder,
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
        }
        apart: dict[str, Any] = {
            "cwd": folder,
            "env": variables,
            "timeout": 900,
            "check": False,
        }
        ended = subprocess.run(command, capture_output=True, text=True, **apart)
        print(ended.stderr[-1_000:], file=sys.stderr, end="", flush=True)
        steps = (
            int((ended.stdout.splitlines() or ["0"])[-1])
            if ended.returncode == 0
            else 0
        )
        with urllib.request.urlopen(f"{address}/figures", timeout=10) as answer:
            return {**json.load(answer), "steps": steps}


def row(title: str, figures: dict[str, Any]) -> str:
    share = f"{figures['cached'] / figures['sent']:.1%}" if figures["sent"] else "-"
    fresh = figures["sent"] - figures["cached"]
    numbers = (
        figures["steps"],
        figures["requests"],
        figures["sent"],
        fresh,
        figures["largest"],
    )
    counts = "".join(f"{number:>13,}" for number in numbers)
    return f"    {title:<42}{counts}{share:>10}{figures['summaries']:>11}{figures['refused']:>9}"


def table(
    found: Sequence[tuple[str, str, dict[str, Any]]], versions: dict[str, str]
) -> str:
    heads = "".join(
        f"{head:>13}"
        for head in ("steps done", "requests", "sent", "not cached", "largest")
    )
    lines = [f"{'tokens':<46}{heads}{'cached':>10}{'summaries':>11}{'refused':>9}"]
    for package, number in versions.items():
        lines.append(f"{package} {number}")
        lines += [
            row(TITLES[way], figures)
            for system, way, figures in found
            if system == package
        ]
    return "\n".join(lines)


def main() -> int:
    """Prints the table; gives 1 if too little of ours is cached."""
    if sys.argv[1:2] == ["--one"]:
        print(asyncio.run(done(*sys.argv[2:])))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", action="store_true", help="this comparison")
    parser.add_argument(
        "--home", type=Path, default=ROOT / ".demo" / "context", help="where to install"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PACKAGES,
        default=[*PACKAGES],
        help="measure only these",
    )
    options = parser.parse_args()
    home: Path = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    wanted = [
        one
        for one in options.only
        if sys.version_info[:2] >= NEEDS_PYTHON.get(one, (3, 11))
    ]
    pythons = {one: installed(home, one, PACKAGES[one]) for one in wanted}
    versions = {one: version(python, one) for one, python in pythons.items()}
    found = [
        (one, way, run_one(pythons[one], one, way))
        for one in wanted
        for way in WAYS[one]
    ]
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores; window {WINDOW:,}, {STEPS} steps"
    )
    print(table(found, versions))
    share = 1.0
    own = next(
        (figures for one, way, figures in found if (one, way) == ("mcpagent", "both")),
        None,
    )
    if own is not None and own["sent"]:
        share = own["cached"] / own["sent"]
        print(
            f"cached share of mcpagent at least {LEAST_CACHED:.0%}: {'yes' if share >= LEAST_CACHED else 'no'}"
        )
    for one in options.only:
        if one not in wanted:
            print(
                f"left out: {one} needs Python {'.'.join(map(str, NEEDS_PYTHON[one]))} or later"
            )
    return 0 if share >= LEAST_CACHED else 1


if __name__ == "__main__":
    sys.exit(main())
