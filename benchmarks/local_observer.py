"""What happens between an agent, its MCP server and its model, seen from beside them: JSON lines, in a file.

    python local_observer.py [--loose] LOG COMMAND...    an MCP server over stdio, with its tool calls written down

With `--loose` its tools' schemas have no `pattern`, which makes llama.cpp refuse requests.

`observed(address, log)` is the same for a server of models: the requests it was sent, with the tokens that it counted.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

_TIMINGS = re.compile(rb'"(cache_n|prompt_n|predicted_n)":\s*(\d+)')
_LINE_LIMIT = 32 * 1024 * 1024


async def pass_on(log: Path, command: Sequence[str], *, is_loose: bool) -> int:
    """Runs the server between our own stdin and stdout."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_LIMIT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    called: dict[Any, str] = {}
    ours = asyncio.StreamReader(limit=_LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(ours), sys.stdin
    )

    async def to_server() -> None:
        assert process.stdin is not None
        async for line in ours:
            message = json.loads(line)
            if isinstance(message, dict) and message.get("method") == "tools/call":
                called[message["id"]] = message["params"]["name"]
            process.stdin.write(line)
            await process.stdin.drain()
        process.stdin.close()

    reading = asyncio.create_task(to_server())
    async for line in process.stdout:
        message = json.loads(line)
        if (
            isinstance(message, dict)
            and (name := called.pop(message.get("id"), None)) is not None
        ):
            failed = "error" in message or bool(message["result"].get("isError"))
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"tool": name, "failed": failed}) + "\n")
        if is_loose and '"inputSchema"' in line.decode():
            line = json.dumps(without_patterns(message)).encode() + b"\n"
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    reading.cancel()
    return await process.wait()


def without_patterns(value: Any) -> Any:
    """The same JSON, with no `pattern` that is a text: a property of that name is an object."""
    if isinstance(value, list):
        return [without_patterns(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_patterns(item)
        for key, item in value.items()
        if key != "pattern" or not isinstance(item, str)
    }


@contextmanager
def observed(address: str, log: Path) -> Iterator[str]:
    """The address of a server that passes everything on to the one at `address`, which is llama.cpp's."""
    there = urlsplit(address)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on(b"")

        def do_POST(self) -> None:
            self._pass_on(self.rfile.read(int(self.headers.get("content-length", 0))))

        def _pass_on(self, body: bytes) -> None:
            connection = http.client.HTTPConnection(
                there.hostname or "", there.port, timeout=900
            )
            try:
                connection.request(
                    self.command, self.path, body, {"content-type": "application/json"}
                )
                answer = connection.getresponse()
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers.get("content-type", ""))
                self.end_headers()
                said = b""
                while chunk := answer.read1(65_536):
                    said += chunk
                    self.wfile.write(chunk)
                    self.wfile.flush()
            finally:
                connection.close()
            if self.command == "POST":
                counted = {
                    name.decode(): int(number)
                    for name, number in _TIMINGS.findall(said)
                }
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"request": answer.status, **counted}) + "\n")

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{there.path}"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    loose = sys.argv[1] == "--loose"
    log_file, *server_command = sys.argv[1 + loose :]
    sys.exit(asyncio.run(pass_on(Path(log_file), server_command, is_loose=loose)))
