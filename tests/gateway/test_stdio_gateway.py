"""The bytes on the gateway's standard input and output."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.tables import each_row
from tests.terminal.process import ROOT, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
LONG = {"_meta": {"text": "ä" * 1_000_000}}


def line(number: int, method: str, params: dict[str, Any]) -> bytes:
    asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(asked, ensure_ascii=False).encode() + b"\n"


@dataclass
class Ends:
    """The ends of what connects a client and the gateway."""

    write: BinaryIO
    read: BinaryIO
    gateways: tuple[int, int]
    end_input: Callable[[], None]

    def close_gateways(self) -> None:
        for end in set(self.gateways):
            os.close(end)


def pipes() -> Ends:
    (taken, write), (read, given) = os.pipe(), os.pipe()
    file = os.fdopen(write, "wb")
    return Ends(file, os.fdopen(read, "rb"), (taken, given), file.close)


def sockets() -> Ends:
    """Sockets in place of pipes, as Node's clients have them."""
    (write, taken), (read, given) = socket.socketpair(), socket.socketpair()
    ends = taken.detach(), given.detach()
    files = os.fdopen(write.detach(), "wb"), os.fdopen(read.detach(), "rb")
    return Ends(*files, ends, files[0].close)


def one_socket() -> Ends:
    """One socket for both directions, as inetd passes it."""
    ours, theirs = socket.socketpair()
    end = theirs.detach()
    read = os.fdopen(os.dup(ours.fileno()), "rb")
    write = os.fdopen(ours.detach(), "wb")

    def end_input() -> None:
        with socket.socket(fileno=os.dup(write.fileno())) as same:
            same.shutdown(socket.SHUT_WR)
        write.close()

    return Ends(write, read, (end, end), end_input)


@each_row("connected", [pipes, sockets, one_socket])
def test_each_line_is_a_message_and_lines_that_are_none_end_nothing(
    connected: Callable[[], Ends], tmp_path: Path
) -> None:
    config = tmp_path / "servers.json"
    config.write_text('{"mcpServers": {}}')
    words = [sys.executable, "-m", "mcpagent", "gateway", "--config", str(config)]
    environ = {**environment(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    ends = connected()
    taken, given = ends.gateways
    process = subprocess.Popen(words, env=environ, cwd=ROOT, stdin=taken, stdout=given)
    ends.close_gateways()
    try:
        ends.write.write(b"no JSON\n\n\xff\n[]\n" + line(1, "initialize", HELLO))
        ends.write.flush()
        assert json.loads(ends.read.readline())["result"]["serverInfo"]["name"] == "mcpagent-gateway"
        for number in (2, 3):
            ends.write.write(line(number, "ping", LONG))
            ends.write.flush()
            assert json.loads(ends.read.readline()) == {"jsonrpc": "2.0", "id": number, "result": {}}
        ends.end_input()
        assert process.wait(30) == 0
        assert ends.read.read() == b""
    finally:
        process.kill()
        process.wait(30)
        ends.read.close()
