"""A process that has loaded the command line's modules and forks itself for each start: see `tests/terminal/warm.py`.

    python -m tests.terminal.warm_process DESCRIPTOR

The descriptor is a socket of whole messages. Each message is a `Start` in JSON: the command line's arguments, or a
script's file and its arguments. With it come the writing end of a pipe for the state of the new process, and either one
terminal or stdin, stdout and stderr. The pipe gets the process id, a line, and at the end the wait status, another
line. The process ends when the socket is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import warnings
from datetime import UTC, datetime
from typing import Any

LOADED_LATE = (
    "anyio._backends._asyncio",
    "ctypes",
    "dbos",
    "importlib.resources",
    "importlib.readers",
    "mcp.client.stdio",
    "mcpagent.agents.agent",
    "mcpagent.agents.agent_runtime",
    "mcpagent.agents.building",
    "mcpagent.journal.recording.recorder",
    "mcpagent.journal.recording.replay",
    "mcpagent.mcp.lists.listing",
    "mcpagent.models.local.offline_model",
    "mcpagent.permissions.trust.own_edits",
    "mcpagent.toolsets.agent_tools",
    "mcpagent.mcp.connection",
    "mcpagent.mcp.transports.stdio",
    "mcpagent.models.answer_size",
    "mcpagent.offline.turn",
    "mcpagent.models.openai",
    "mcpagent.search.shared_index",
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
    from mcpagent.offline.pieces import find_pieces

    own = [item.name for item in pkgutil.walk_packages(mcpagent.cli.__path__, "mcpagent.cli.")]
    for name in (*LOADED_LATE, *own):
        try:
            importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            continue
    # The libraries of dates compile their patterns at their first use.
    find_pieces("in 3 days, at noon", datetime.now(UTC))
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each start that is asked for; return the start in the new process, None where the socket ends."""
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
                start: dict[str, Any] = json.loads(message)
                _become(start, streams)
                return start
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


def _become(start: dict[str, Any], streams: list[int]) -> None:
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
    if start["environment"].get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")


def _stream(number: int, like: io.TextIOWrapper) -> io.TextIOWrapper:
    """A standard stream as Python opens it at its start; encodings are those of this process's own."""
    raw = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115 - for the life of the process
    at_once = number == 2 or (number == 1 and os.isatty(1))
    return io.TextIOWrapper(raw, like.encoding, like.errors, line_buffering=at_once)


def run(start: dict[str, Any]) -> None:
    """Run the command, or the script."""
    if start["is_script"]:
        sys.argv = start["arguments"]
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        from mcpagent.cli import main

        main(start["arguments"])


def end(code: int) -> None:
    """End the process as Python does, but leave the modules, whose removal took two thirds of a short command's time.

    What the command itself left behind is still collected, so that a forgotten coroutine is reported. Where a stream
    cannot be written any more, this returns, and Python ends the process in its own way.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as at Python's own end
    atexit._run_exitfuncs()
    gc.collect()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code & 0xFF)


if __name__ == "__main__":
    load()
    with socket.socket(fileno=int(sys.argv[1])) as socket_of_tests:
        started = serve(socket_of_tests)
        if started is not None:
            socket_of_tests.detach()
    if started is not None:
        try:
            run(started)
            end(0)
        except SystemExit as ended:
            if ended.code is None or isinstance(ended.code, int):
                end(ended.code or 0)
            raise
