"""The client scenarios of the MCP project's conformance suites, by the way of every user, one at a time.

It is a configuration, `mcpagent mcp login` where that is said, and an `Agent` (`tests/servers/conformance_client.py`).

`.ci/conformance` installs the suites and Node, and prints the variables read here: `MCP_CONFORMANCE_SUITES`, the paths
of their `dist/index.js` with the system's path separator between, and `MCP_CONFORMANCE_NODE`. Skipped without.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SUITES = [path for path in os.environ.get("MCP_CONFORMANCE_SUITES", "").split(os.pathsep) if path]
NODE = os.environ.get("MCP_CONFORMANCE_NODE") or shutil.which("node") or ""

KNOWN_FAILURES = {
    ("0.1.16", "auth/2025-03-26-oauth-metadata-backcompat"): (
        "this version's stand-in names another issuer than its address, which RFC 8414 3.3 has a client refuse"
    ),
}
"""(version of the suite, scenario) -> why we do not pass it."""

MOST_FAILURES = {"0.1.16": 1, "0.2.0-alpha.12": 0}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.conformance,
    pytest.mark.skipif(
        not SUITES or not NODE, reason='no suite is installed; eval "$(.ci/conformance FOLDER)" does it'
    ),
]


def run_suite(entry: str, *arguments: str) -> str:
    return subprocess.run([NODE, entry, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def scenarios() -> list[tuple[str, str, str]]:
    """(path of the suite, its version, scenario) of all client scenarios of all suites."""
    if not NODE:
        return []
    found: list[tuple[str, str, str]] = []
    for entry in SUITES:
        version = run_suite(entry, "--version").strip()
        _, _, names = run_suite(entry, "list", "--client").rpartition("Client scenarios")
        found += [(entry, version, name) for name in re.findall(r"^  - (\S+)", names, re.MULTILINE)]
    return found


SCENARIOS = scenarios()


@pytest.mark.parametrize(
    ("entry", "version", "scenario"), SCENARIOS, ids=[f"{version}-{name}" for _, version, name in SCENARIOS]
)
def test_scenario(entry: str, version: str, scenario: str, tmp_path: Path) -> None:
    client = f"{sys.executable} -m tests.servers.conformance_client"
    options = ["--command", client, "--scenario", scenario, "--timeout", "60000", "-o", str(tmp_path)]
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [NODE, entry, "client", *options], capture_output=True, text=True, timeout=120, cwd=root, check=False
    )
    if (version, scenario) in KNOWN_FAILURES:
        assert run.returncode != 0, f"{scenario} passes now: take it off the list"
        pytest.skip(KNOWN_FAILURES[version, scenario])
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"


def test_as_many_scenarios_pass_as_promised() -> None:
    """Each scenario either passes above or is listed; this holds the length of the list."""
    for version, most in MOST_FAILURES.items():
        names = {name for _, found, name in SCENARIOS if found == version}
        listed = {name for found, name in KNOWN_FAILURES if found == version}
        assert listed <= names
        assert len(listed) <= most
        assert len(names) >= {"0.1.16": 26, "0.2.0-alpha.12": 48}[version]
