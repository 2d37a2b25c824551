"""What the process's exit code says."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from mcpagent.errors import (
    ConfigError,
    CredentialsError,
    InputError,
    LimitError,
    ServerError,
)
from mcpagent.events import StopReason


class ExitCode(IntEnum):
    """Codes up to 7 are ours; 124 is timeout(1)'s, those above are the shell's: 128 and the signal's number."""

    OK = 0
    ERROR = 1
    USAGE = 2
    CONFIG = 3
    CREDENTIALS = 4
    SERVERS = 5
    DENIED = 6
    LIMIT = 7
    TIMEOUT = 124
    HUNG_UP = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.OK: "answered, nothing denied, no limit hit",
    ExitCode.ERROR: "the model or the runtime failed, or the answer is empty; `tools search`: nothing found",
    ExitCode.USAGE: "wrong usage: an unknown command, flag, tool or server, or nothing to ask",
    ExitCode.CONFIG: "a configuration is wrong: a file, its syntax, a model's name",
    ExitCode.CREDENTIALS: "a key is missing or was refused",
    ExitCode.SERVERS: "a required server, or every server, failed; `mcp test`: one failed",
    ExitCode.DENIED: "answered, but a tool call was denied; `--denied-ok` makes it 0",
    ExitCode.LIMIT: "a limit ended it: turns, the length of the answer, repeated calls",
    ExitCode.TIMEOUT: "`--timeout` ended it",
    ExitCode.HUNG_UP: "the terminal was closed",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.BROKEN_PIPE: "whoever read stdout went away",
    ExitCode.TERMINATED: "SIGTERM; everything was closed first",
}


def code_of_error(error: BaseException) -> ExitCode:
    """The code with which the process ends when this error reaches the top."""
    match error:
        case CredentialsError():
            return ExitCode.CREDENTIALS
        case ConfigError():
            return ExitCode.CONFIG
        case InputError():
            return ExitCode.USAGE
        case ServerError():
            return ExitCode.SERVERS
        case LimitError():
            return ExitCode.LIMIT
        case TimeoutError():
            return ExitCode.TIMEOUT
        case KeyboardInterrupt():
            return ExitCode.INTERRUPTED
        case SystemExit(code=ExitCode.HUNG_UP | ExitCode.TERMINATED as code):
            return ExitCode(code)
        case BrokenPipeError():
            return ExitCode.BROKEN_PIPE
        case _:
            return ExitCode.ERROR


def code_of_stop(stop: StopReason) -> ExitCode:
    """The code for a run that ended with an answer; one that a limit cut short is not a success."""
    match stop:
        case "answered":
            return ExitCode.OK
        case "max_turns" | "repeated_calls" | "truncated":
            return ExitCode.LIMIT
        case _:
            return ExitCode.ERROR
