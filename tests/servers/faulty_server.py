"""A stdio server that goes wrong on purpose: `faulty_server.py MODE [--log FILE] [--port PORT]`.

Standard library only, and what takes long to import is imported where it is used: the tests start this hundreds of
times. Tools: `echo` (gives `text` back) and `trouble` (does what MODE says on a call, or
with the mode "any" what its `text` says). The log file
gets a line for each life ("life"), list ("list"), call ("call NAME") and cancellation ("cancelled").
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

Request = dict[str, Any]

OUT = sys.stdout.buffer
HEAVY = 50 * 1024 * 1024


def write(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def send(message: Request) -> None:
    write(json.dumps(message).encode() + b"\n")


def reply(request: Request, result: Any) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request: Request, code: int, message: str) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})


def text(value: str) -> Request:
    return {"content": [{"type": "text", "text": value}]}


def die(line: str, code: int) -> NoReturn:
    print(line, file=sys.stderr, flush=True)
    os._exit(code)


SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": "echo", "description": "Give the text back", "inputSchema": SCHEMA},
    {"name": "trouble", "description": "Goes wrong", "inputSchema": SCHEMA},
]


# --- at start ---


def hang() -> None:
    time.sleep(600)


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def leave_a_grandchild() -> None:
    import subprocess

    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def leave_a_daemon() -> None:
    import subprocess

    command = [sys.executable, "-c", f"import time; time.sleep(600) # {OPTIONS.log}"]
    subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def leave_a_stubborn_daemon() -> None:
    leave_a_daemon()
    ignore_sigterm()


def tell_secrets() -> None:
    write(f"token is {os.environ['API_TOKEN']}\n".encode())
    die(f"cannot sign in with {os.environ['API_TOKEN']}", 5)


def flaky_start() -> None:
    if lives() == 1:
        die("not yet", 1)


AT_START: dict[str, Callable[[], object]] = {
    "exit-at-start": lambda: die("KeyError: GITHUB_TOKEN is required", 3),
    "exit0-at-start": lambda: os._exit(0),
    "hang-at-start": hang,
    "flaky-start": flaky_start,
    "slow-start": lambda: time.sleep(1.0),
    "init-banner": lambda: write(b"Welcome to \x1b[31mserver\x1b[0m 1.0\nlistening...\n"),
    "init-bom": lambda: write(b"\xef\xbb\xbf"),
    "ignore-eof": ignore_sigterm,
    "tell-secrets": tell_secrets,
    "grandchild": leave_a_grandchild,
    "daemon-child": leave_a_daemon,
    "stubborn-daemon-child": leave_a_stubborn_daemon,
    "stderr-ansi": lambda: die("\x1b]0;owned\x07\x1b[2Jcannot start", 4),
}


# --- handshake and lists ---


def initialize(mode: str, request: Request) -> None:
    result: Request = {
        "protocolVersion": request["params"].get("protocolVersion"),
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "faulty", "version": "1"},
    }
    if mode == "die-on-init":
        die("fatal: no database", 7)
    elif mode == "init-error":
        refuse(request, -32603, "the license expired")
        return
    elif mode == "init-bad-version":
        result["protocolVersion"] = "1999-01-01"
    elif mode == "init-missing-fields":
        del result["serverInfo"]
    elif mode == "no-tools-capability":
        result["capabilities"] = {}
    if mode != "hang-init":
        reply(request, result)


def discover(mode: str, request: Request) -> None:
    if mode == "fatal-discover":
        os._exit(1)
    if mode != "silent-discover":
        refuse(request, -32601, "Method not found")


BAD_TOOLS: list[Any] = [
    {"name": 5, "inputSchema": SCHEMA},
    {"name": "no_schema"},
    "not a tool",
    {"name": "odd_title", "inputSchema": SCHEMA, "title": 7, "annotations": "none"},
    {"name": "string_schema", "inputSchema": "object"},
]


def remote_ref() -> Request:
    schema = {"type": "object", "properties": {"a": {"$ref": f"http://127.0.0.1:{OPTIONS.port}/schema"}}}
    return {"name": "remote", "inputSchema": schema, "outputSchema": schema}


def hostile_schemas() -> list[Any]:
    """A pattern that only a reference makes one, and references that multiply."""
    map_called_defs = {"pattern": "^(a|a)*$"}
    levels = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
    properties = {"$defs": map_called_defs, "text": {"$ref": "#/properties/$defs"}}
    bomb = {
        "type": "object",
        "properties": {"text": {"$ref": "#/$defs/a0"}},
        "$defs": {**levels, "a60": {"minLength": 9}},
    }
    return [
        {"name": "maps", "inputSchema": {"type": "object", "properties": properties}},
        {"name": "bomb", "inputSchema": bomb},
        remote_ref(),
    ]


def changed_tools() -> list[Any]:
    has_changed = os.access(OPTIONS.log + ".changed", os.F_OK)
    return [*TOOLS, {**TOOLS[0], "name": "new_one"}] if has_changed else TOOLS


LISTS: dict[str, Callable[[str | None], Request]] = {
    "list-endless-cursor": lambda cursor: {"tools": [] if cursor else TOOLS, "nextCursor": "again"},
    "list-fresh-cursor": lambda cursor: {
        "tools": [{"name": f"tool_{cursor}", "inputSchema": SCHEMA}] if cursor else TOOLS,
        "nextCursor": str(int(cursor or 0) + 1),
    },
    "list-one-bad": lambda _: {"tools": TOOLS + BAD_TOOLS},
    "list-dup-names": lambda _: {"tools": [*TOOLS, {**TOOLS[0], "description": "the second"}]},
    "list-huge": lambda _: {"tools": TOOLS + [{"name": f"t{n}", "inputSchema": SCHEMA} for n in range(12_000)]},
    "list-remote-ref": lambda _: {"tools": [*TOOLS, remote_ref()]},
    "list-hostile-schemas": lambda _: {"tools": hostile_schemas()},
    "structured-mismatch": lambda _: {
        "tools": [TOOLS[0], {**TOOLS[1], "outputSchema": {"type": "object", "required": ["n"]}}]
    },
    "list-changes": lambda _: {"tools": changed_tools()},
    "crash-once-hinted": lambda _: {"tools": [TOOLS[0], {**TOOLS[1], "annotations": {"idempotentHint": True}}]},
    "list-not-a-list": lambda _: {"tools": "echo"},
}


def list_tools(mode: str, request: Request) -> None:
    log("list")
    cursor = (request.get("params") or {}).get("cursor")
    if mode == "list-error" or (mode == "list-second-error" and cursor):
        refuse(request, -32000, "the backend is down")
    elif mode in ("list-second-error", "list-second-hangs", "list-second-odd") and not cursor:
        reply(request, {"tools": TOOLS, "nextCursor": "second"})
    elif mode == "list-second-odd":
        reply(request, {"tools": "none"})
    elif mode in LISTS:
        reply(request, LISTS[mode]((request.get("params") or {}).get("cursor")))
    elif mode not in ("hang-list", "list-second-hangs"):
        reply(request, {"tools": TOOLS})


# --- a call of `trouble` ---


def answer(request: Request, rest: str) -> bytes:
    """The start of an answer to `request` and then `rest`, as it is."""
    return f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])}'.encode() + rest.encode() + b"\n"


def whole(request: Request, value: str, indent: int | None = None) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": text(value)}, indent=indent)


RAW_ANSWERS: dict[str, Callable[[Request], bytes]] = {
    "truncated-json": lambda r: answer(r, ',"result":{"content":[{"type":"te'),
    "not-jsonrpc": lambda r: json.dumps({"id": r["id"], "hello": "world"}).encode() + b"\n",
    "no-version": lambda r: json.dumps({"id": r["id"], "result": text("unversioned")}).encode() + b"\n",
    "no-result": lambda r: answer(r, "}"),
    "result-null": lambda r: answer(r, ',"result":null}'),
    "result-array": lambda r: answer(r, ',"result":[1]}'),
    "batch": lambda r: f"[{whole(r, 'batched')}]\n".encode(),
    "huge-int": lambda r: answer(r, ',"result":{"content":[],"structuredContent":{"n":' + "9" * 9000 + "}}}"),
    "deep-json": lambda r: answer(r, ',"result":{"content":' + "[" * 100_000 + "]" * 100_000 + "}}"),
    "lone-surrogate": lambda r: answer(r, ',"result":{"content":[{"type":"text","text":"a\\ud800b"}]}}'),
    "nul-bytes": lambda r: answer(r, ',"result":{"content":[{"type":"text","text":"a\0b"}]}}'),
    "error-string-code": lambda r: answer(r, ',"error":{"code":"E1","message":"no such table"}}'),
    "string-id": lambda r: whole({"id": str(r["id"])}, "ok").encode() + b"\n",
    "garbage-then-answer": lambda r: b"DEBUG about to answer\n{}\n[]\n" + whole(r, "answered").encode() + b"\n",
    "crlf": lambda r: whole(r, "crlf").encode() + b"\r\n",
    "invalid-utf8": lambda r: answer(r, ',"result":{"content":[{"type":"text","text":"aXb"}]}}').replace(
        b"X", b"\xff\xfe"
    ),
    "half-line": lambda r: answer(r, ',"result":{"cont')[:-1],
    "pretty-json": lambda r: whole(r, "pretty", indent=2).encode() + b"\n",
    "wrong-id": lambda r: f"{whole({'id': 999_999}, 'whose?')}\n{whole(r, 'mine')}\n".encode(),
    "dup-answer": lambda r: f"{whole(r, 'first')}\n{whole(r, 'second')}\n".encode(),
    "null-id-error": lambda r: b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cannot parse that"}}\n',
}

RESULTS: dict[str, Request] = {
    "content-string": {"content": "just text"},
    "content-missing": {},
    "content-unknown-type": {"content": [{"type": "hologram", "depth": 3}, {"type": "text", "text": "beside it"}]},
    "bad-base64-image": {
        "content": [{"type": "image", "data": "@@@", "mimeType": "image/png"}, {"type": "text", "text": "beside it"}]
    },
    "image-without-data": {"content": [{"type": "image"}, {"type": "text", "text": "beside it"}]},
    "structured-mismatch": {"content": [{"type": "text", "text": "plain"}], "structuredContent": {"m": 1}},
    "structured-only": {"content": [], "structuredContent": {"n": 1}},
    "tool-error": {"content": [{"type": "text", "text": "no such file"}], "isError": True},
}


def progress(request: Request, step: int) -> None:
    token = (request["params"].get("_meta") or {}).get("progressToken")
    if token is not None:
        params = {"progressToken": token, "progress": step, "message": f"step {step}"}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def progress_for(request: Request, steps: int, seconds: float) -> None:
    for step in range(steps):
        progress(request, step)
        time.sleep(seconds)


def flood(count: int, message: Callable[[int], Request]) -> None:
    for number in range(count):
        send({"jsonrpc": "2.0", **message(number)})


def flood_notifications(_: Request) -> None:
    flood(OPTIONS.count, lambda n: {"method": "notifications/message", "params": {"level": "info", "data": n}})


def announce_change(_: Request) -> None:
    os.close(os.open(OPTIONS.log + ".changed", os.O_CREAT))
    send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


def flood_stderr(_: Request) -> None:
    sys.stderr.write("noise " * (HEAVY // 60))
    sys.stderr.flush()


def flood_stderr_lines(_: Request) -> None:
    for number in range(100_000):
        sys.stderr.write(f"line {number} of very many lines that nobody wants to read one by one\n")


ASKED: dict[str, tuple[str, Request]] = {
    "ask-sampling": ("sampling/createMessage", {"messages": [], "maxTokens": 5}),
    "ask-elicit": (
        "elicitation/create",
        {"message": "Password?", "requestedSchema": {"type": "object", "properties": {}}},
    ),
    "ask-roots": ("roots/list", {}),
    "ask-unknown": ("made/up", {}),
}


def ask(mode: str) -> None:
    method, params = ASKED[mode]
    send({"jsonrpc": "2.0", "id": "q1", "method": method, "params": params})
    answer = json.loads(sys.stdin.buffer.readline())
    log(f"answered {answer.get('error', {}).get('code')}")


def kill_self(_: Request) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_mid_line(request: Request) -> None:
    write(answer(request, ',"result":{"content":[')[:-1])
    kill_self(request)


def close_stdout(_: Request) -> None:
    os.close(1)
    hang()


def crash_once(_: Request) -> None:
    if lives() == 1:
        die("first life ends", 1)


def answer_and_exit(request: Request) -> None:
    reply(request, text("bye"))
    os._exit(0)


DEEDS: dict[str, Callable[[Request], object]] = {
    "progress-forever": lambda r: progress_for(r, 10_000, 0.05),
    "progress-then-answer": lambda r: progress_for(r, 6, 0.15),
    "flood-stderr": flood_stderr,
    "flood-stderr-lines": flood_stderr_lines,
    "flood-notifications": flood_notifications,
    "list-changed-storm": lambda _: flood(10_000, lambda n: {"method": "notifications/tools/list_changed"}),
    "flood-requests": lambda _: flood(10_000, lambda n: {"method": "ping", "id": f"server-{n}"}),
    "list-changes": announce_change,
    "freeze-on-call": lambda _: hang(),
    "stop-on-call": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "slow-call": lambda _: time.sleep(0.5),
    "kill-on-call": kill_self,
    "segv-on-call": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "exit-on-call": lambda _: die("panic: out of cheese", 9),
    "kill-mid-line": kill_mid_line,
    "close-stdout": close_stdout,
    "crash-once": crash_once,
    "crash-once-hinted": crash_once,
    "exit-after-answer": answer_and_exit,
}
"""What is done before the plain answer."""


def trouble(mode: str, request: Request) -> None:
    if mode == "any":
        mode = request["params"]["arguments"]["text"]
    if mode in RAW_ANSWERS:
        write(RAW_ANSWERS[mode](request))
    elif mode in RESULTS:
        reply(request, RESULTS[mode])
    elif mode == "big-output":
        reply(request, text("x" * OPTIONS.size))
    elif mode == "big-many-blocks":
        count = OPTIONS.size // 140  # with what JSON adds to each
        reply(request, {"content": [{"type": "text", "text": "x" * 100}] * count})
    elif mode == "env-dump":
        reply(request, text(json.dumps(dict(os.environ))))
    elif mode != "hang-on-call":
        if mode in ASKED:
            ask(mode)
        if mode in DEEDS:
            DEEDS[mode](request)
        reply(request, text("no trouble"))


# --- main ---


def log(line: str) -> None:
    if OPTIONS.log:
        with open(OPTIONS.log, "a") as file:
            file.write(f"{line}\n")


def lives() -> int:
    """How often the server was started, this time included."""
    with open(OPTIONS.log) as file:
        return file.read().count("life")


WAITING: list[Request] = []


def answer_in_any_order() -> None:
    """Answers what has come in the last moment, shuffled; runs in a thread of its own."""
    import random

    while True:
        time.sleep(0.02)
        batch = [WAITING.pop() for _ in range(len(WAITING))]
        random.shuffle(batch)
        for request in batch:
            reply(request, text(str(request["params"]["arguments"].get("text"))))


def call(mode: str, request: Request) -> None:
    name = request["params"]["name"]
    log(f"call {name}")
    if mode == "any-order":
        WAITING.append(request)
    elif name == "echo":
        reply(request, text(str((request["params"].get("arguments") or {}).get("text"))))
    elif name == "trouble":
        trouble(mode, request)
    else:
        refuse(request, -32602, f"unknown tool {name}")


def ping(mode: str, request: Request) -> None:
    reply(request, {})


def serve_until_trouble(mode: str) -> None:
    """Reads byte for byte, so that nothing but the call is read; dies of the first one, whole or half. Then serves."""
    if lives() > 1:
        return
    while True:
        line = bytearray()
        while not line.endswith(b"\n"):
            line += os.read(0, 1)
            if mode == "read-half-and-die" and len(line) > 1_000:
                os._exit(1)
        request = json.loads(line)
        if request.get("params", {}).get("name") == "trouble":
            log("call trouble")
            os._exit(1)
        handle(mode, request)


METHODS = {
    "initialize": initialize,
    "server/discover": discover,
    "tools/list": list_tools,
    "tools/call": call,
    "ping": ping,
}


def handle(mode: str, request: Request) -> None:
    method = request.get("method")
    if method == "notifications/cancelled":
        log("cancelled")
    elif "id" in request and method is not None:
        if method in METHODS:
            METHODS[method](mode, request)
        else:
            refuse(request, -32601, f"no method {method}")


def main() -> None:
    mode = OPTIONS.mode
    log("life")
    if mode in AT_START:
        AT_START[mode]()
    if mode == "any-order":
        import threading

        threading.Thread(target=answer_in_any_order, daemon=True).start()
    if mode in ("read-and-die", "read-half-and-die"):
        serve_until_trouble(mode)
    for line in iter(sys.stdin.buffer.readline, b""):
        handle(mode, json.loads(line))
    if mode in ("ignore-eof", "stubborn-daemon-child"):
        hang()
    if mode == "flood-at-exit":
        with contextlib.suppress(OSError):
            while True:
                write(b"still talking\n" * 1000)


class Options:
    """The arguments; each option has a value."""

    def __init__(self, mode: str, *rest: str) -> None:
        given = dict(zip(rest[::2], rest[1::2], strict=True))
        self.mode = mode
        self.log = given.pop("--log", "")
        self.port = given.pop("--port", "0")
        self.size = int(given.pop("--size", HEAVY))
        self.count = int(given.pop("--count", 10_000))
        assert not given, f"no such options: {list(given)}"


OPTIONS = Options(*sys.argv[1:])

if __name__ == "__main__":
    main()
