"""Starts a server so that it dies with us: `launcher.py PARENT COMMAND [ARGUMENT ...]`, Linux only.

Runs as a script of its own, with the standard library alone. The signal is asked for here and not between fork and
exec of the parent, where running Python is unsafe; it survives exec. A server that reads its stdin ends without it
when we are killed; this is for one that is frozen or does not read.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Never returns: becomes the server, or exits with the reason."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)  # it died before the signal was asked for
    try:
        os.execv(command[0], command)  # noqa: S606  no shell is what we want
    except OSError as error:
        raise SystemExit(f"cannot be run: {error.strerror}") from None


if __name__ == "__main__":
    main()
