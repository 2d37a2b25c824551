"""A process that has loaded the command line's modules and forks itself for each start: see `tests/terminal/warm.py`.

    python -m tests.terminal.warm_process DESCRIPTOR

The descriptor is a socket of whole messages. Each message is a `Start` in JSON; with it come the writing end of a pipe
for the state of the new process, and either one terminal or stdin, stdout and stderr. The pipe gets the process id, a
line, and at the end the wait status, another line. The process ends when the socket is closed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from typing import Any

LOADED_LATE = (
    "anyio._backends._asyncio",
    "mcp.client.stdio",
    "mcpagent.agents.agent",
    "mcpagent.mcp.connection",
    "mcpagent.mcp.transports.stdio",
    "mcpagent.models.answer_size",
    "mcpagent.offline.turn",
    "mcpagent.models.openai",
    "mcpagent.search.shared",
    "mcpagent.search.index_cache",
    "mcpagent.journal.sessions.sqlite",
    "mcpagent.utilities.json_schema.misfits",
    "prompt_toolkit",
    "rapidfuzz.process",
    "resource",
    "rich.markdown",
)
"""What functions import that a start reaches; what is not installed is left out."""


def load() -> None:
    """Import what a start of the command would."""
    import mcpagent.cli

    own = [item.name for item in pkgutil.walk_packages(mcpagent.cli.__path__, "mcpagent.cli.")]
    for name in (*LOADED_LATE, *own):
        try:
            importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            continue
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> list[str] | None:
    """Fork for each start that is asked for; return its arguments in the new process, None where the socket ends."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    states: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 65_536)
            _report_the_ended(states)
        if control.fileno() in ready:
            message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
            if not message:
                return None
            state, *streams = descriptors
            if (pid := os.fork()) == 0:
                return _become(json.loads(message), streams)
            for descriptor in streams:
                os.close(descriptor)
            os.write(state, b"%d\n" % pid)
            states[pid] = state


def _report_the_ended(states: dict[int, int]) -> None:
    while states:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        state = states.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # the test is over
            os.write(state, b"%d\n" % status)
        os.close(state)


def _become(start: dict[str, Any], streams: list[int]) -> list[str]:
    """Make this process the one that was asked for, as if it had been started anew."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if len(streams) == 1:
        os.login_tty(streams[0])
    else:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
    os.closerange(3, 256)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        stream = _stream(number, getattr(sys, f"__{name}__"))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(start["folder"])
    os.environ.clear()
    os.environ.update(start["environment"])
    sys.path[0] = start["folder"]
    return list(start["arguments"])


def _stream(number: int, like: io.TextIOWrapper) -> io.TextIOWrapper:
    """A standard stream as Python opens it at its start; encodings are those of this process's own."""
    raw = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115 - for the life of the process
    at_once = number == 2 or (number == 1 and os.isatty(1))
    return io.TextIOWrapper(raw, like.encoding, like.errors, line_buffering=at_once)


if __name__ == "__main__":
    load()
    with socket.socket(fileno=int(sys.argv[1])) as socket_of_tests:
        arguments = serve(socket_of_tests)
        if arguments is not None:
            socket_of_tests.detach()
    if arguments is not None:
        from mcpagent.cli import main

        main(arguments)
