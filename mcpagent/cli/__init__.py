"""The `mcpagent` command. Importing this package loads almost nothing: `main` decides which modules are needed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from mcpagent.cli.help import top_level_help


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit the process with one of `ExitCode`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        from mcpagent.utilities.version import __version__

        _print_and_exit(f"mcpagent {__version__}\n")
    if arguments in (["--help"], ["-h"], ["help"]):
        _print_and_exit(top_level_help())
    # Imported modules create many lasting objects and little garbage: collecting it meanwhile takes a tenth of the
    # start.
    gc.set_threshold(100_000, 20, 20)
    try:
        from mcpagent.cli.app import run

        code = run(arguments)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _print_and_exit(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        import os

        # The interpreter cannot write buffered text at exit, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            sys.exit(f"error: the output cannot be written: {error.strerror}")
    sys.exit(0)
