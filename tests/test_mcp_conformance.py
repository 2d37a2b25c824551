"""The client scenarios of the MCP project's conformance suite, through our own toolset.

Needs Node 22 or newer and `MCP_CONFORMANCE_CLI`, the path of the suite's `dist/index.js`; `MCP_CONFORMANCE_NODE` may
name the node to use. Skipped without.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLI = os.environ.get("MCP_CONFORMANCE_CLI", "")
NODE = os.environ.get("MCP_CONFORMANCE_NODE") or shutil.which("node") or ""

_DPOP = "the SDK's OAuth client has no DPoP (RFC 9449)"
KNOWN_FAILURES = {
    ("0.1.16", "auth/2025-03-26-oauth-metadata-backcompat"): (
        "this version's stand-in names another issuer than its address, which RFC 8414 3.3 has a client refuse"
    ),
    ("0.2.0-alpha.12", "auth/dpop"): _DPOP,
    ("0.2.0-alpha.12", "auth/dpop-nonce"): _DPOP,
    ("0.2.0-alpha.12", "auth/wif-jwt-bearer"): "the SDK has no jwt-bearer grant for clients without a secret",
}
"""(version of the suite, scenario) -> why we do not pass it."""

pytestmark = pytest.mark.slow


def suite(*arguments: str) -> str:
    if not CLI or not NODE:
        return ""
    return subprocess.run([NODE, CLI, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


VERSION = suite("--version").strip()


def scenarios() -> list[str]:
    _, _, names = suite("list", "--client").rpartition("Client scenarios")
    return re.findall(r"^  - (\S+)", names, re.MULTILINE)


@pytest.mark.skipif(not CLI or not NODE, reason="set MCP_CONFORMANCE_CLI to the suite's dist/index.js (Node 22+)")
@pytest.mark.parametrize("scenario", scenarios())
def test_scenario(scenario: str, tmp_path: Path) -> None:
    client = f"{sys.executable} -m tests.servers.conformance_client"
    command = [
        NODE,
        CLI,
        "client",
        "--command",
        client,
        "--scenario",
        scenario,
        "--timeout",
        "30000",
        "-o",
        str(tmp_path),
    ]
    root = Path(__file__).parent.parent
    run = subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=root, check=False)
    if (VERSION, scenario) in KNOWN_FAILURES:
        assert run.returncode != 0, f"{scenario} passes now: take it off the list"
        pytest.skip(KNOWN_FAILURES[VERSION, scenario])
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
