"""Another server, held back until a test lets it go: `gated.py PORT SCRIPT ARGUMENTS`.

It waits until whoever listens on the port of 127.0.0.1 has closed it, and becomes the script then.
"""

from __future__ import annotations

import contextlib
import runpy
import socket
import sys

with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as waiting:
    waiting.recv(1)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
