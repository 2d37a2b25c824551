"""Tool search over real MCP servers, with one command, on a machine that has only Python 3.11 or newer.

    python3 examples/tool_search/run.py

The first run installs mcpagent and the servers into `.demo/` of the repository, which takes a minute or two; later
runs start at once and install nothing; what could not be had is tried again with `--retry`. Without `--model` an
offline stand-in answers, so no key and no network are needed then.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 whoever runs this may have an older one
    sys.exit(f"mcpagent needs Python 3.11 or newer; this is {sys.version.split()[0]}")

import argparse
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent
ROOT = EXAMPLE.parents[1]
sys.path.insert(0, str(ROOT))

from examples.tool_search.environments import (  # noqa: E402
    BIN,
    MCPAGENT,
    Environment,
    InstallError,
    prepare,
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="a real model, e.g. anthropic:claude-sonnet-4-6 (needs its key)",
    )
    parser.add_argument(
        "--ask",
        metavar="PROMPT",
        action="append",
        help="ask this instead; may be repeated",
    )
    parser.add_argument(
        "--home",
        metavar="DIR",
        type=Path,
        default=ROOT / ".demo",
        help="where to install (.demo/)",
    )
    parser.add_argument(
        "--mcpagent",
        metavar="WHEEL",
        help="install mcpagent from this, instead of this repository",
    )
    parser.add_argument(
        "--retry",
        action="store_true",
        help="try again what an earlier run could not install",
    )
    parser.add_argument("--fresh", action="store_true", help="install everything anew")
    options = parser.parse_args()
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            "this Python has no ensurepip, so it cannot make environments; on Debian: apt install python3-venv"
        )
    home: Path = options.home.resolve()
    if options.fresh:
        shutil.rmtree(home, ignore_errors=True)
    print(
        f"Environments in {home} (a first run installs them, one or two minutes):",
        flush=True,
    )
    mcpagent = (
        Environment("mcpagent", (options.mcpagent,)) if options.mcpagent else MCPAGENT
    )
    try:
        servers = prepare(
            home, lambda line: print(line, flush=True), mcpagent, options.retry
        )
    except (InstallError, OSError) as problem:
        sys.exit(f"mcpagent could not be installed: {problem}")
    command = [
        str(home / "mcpagent" / BIN / "python"),
        "-P",
        "-m",
        "examples.tool_search.conversation",
        "--servers",
    ]
    command += [*sorted(servers), "--workspace", str(home / "workspace")]
    command += ["--model", options.model] if options.model else []
    for prompt in options.ask or ():
        command += ["--ask", prompt]
    places = {
        "PYTHONPATH": str(ROOT),
        "DEMO_HOME": str(home),
        "DEMO_BIN": BIN,
        "DEMO_EXAMPLE": str(EXAMPLE),
    }
    return subprocess.run(command, env={**os.environ, **places}, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
