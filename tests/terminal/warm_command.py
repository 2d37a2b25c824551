"""The `mcpagent` of a shell in tests: it has the process that has loaded the modules start the command.

    python -I -S warm_command.py ARGUMENTS...

It gets the socket's descriptor from `MCPAGENT_TESTS_STARTER`, hands its own streams, folder and variables on, and ends
as the command did. See `tests/terminal/warm.py`.
"""

import json
import os
import socket
import sys

VARIABLE = "MCPAGENT_TESTS_STARTER"


def main() -> None:
    """Start the command, wait for its end, and exit with its status."""
    variables = {name: value for name, value in os.environ.items() if name != VARIABLE}
    start = {"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": variables, "is_script": False}
    ours, theirs = os.pipe()
    with socket.socket(fileno=int(os.environ[VARIABLE])) as starter:
        socket.send_fds(starter, [json.dumps(start).encode()], [theirs, 0, 1, 2])
    os.close(theirs)
    with open(ours, encoding="ascii") as state:
        _, status = state.read().split()
    sys.exit(os.waitstatus_to_exitcode(int(status)) % 256)


if __name__ == "__main__":
    main()
