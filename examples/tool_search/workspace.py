"""What the example's requests are about: a folder of files, a Git repository, a small database and a web page."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

PRODUCTS = (("lamp", 39.5, 12), ("desk", 249.0, 3), ("chair", 89.9, 25))

COMMITS = (
    ("Start the shop", {"shop.py": "PRICES = {}\n"}),
    ("Lamps cost 39.50", {"shop.py": 'PRICES = {"lamp": 39.5}\n'}),
    ("Say how to run it", {"README.md": "Run `python shop.py`.\n"}),
)

FILES = {
    "todo.txt": "order lamps\npay the rent\n",
    "opening-hours.txt": "Monday to Friday, 9 to 17\n",
}

MEMORY = {
    "type": "entity",
    "name": "the shop",
    "entityType": "business",
    "observations": ["sells lamps and desks"],
}

PAGE = """<!doctype html><html><head><title>Opening hours</title></head><body><article>
<h1>Opening hours</h1><p>The shop is open from Monday to Friday, 9 to 17 o'clock.</p>
<p>It is closed on public holidays, and in the last week of December while everything is counted.</p>
</article></body></html>
"""


def make_workspace(folder: Path) -> None:
    """Makes the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "files").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / "files" / name).write_text(text, "utf-8")
    (folder / "memory.jsonl").write_text(json.dumps(MEMORY) + "\n", "utf-8")
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute(
            "CREATE TABLE products (name TEXT PRIMARY KEY, price REAL, stock INTEGER)"
        )
        database.executemany("INSERT INTO products VALUES (?, ?, ?)", PRODUCTS)
    if shutil.which("git"):
        _make_repository(folder / "repository")
    (folder / "web").mkdir()
    (folder / "web" / "hours.html").write_text(PAGE, "utf-8")


def _make_repository(folder: Path) -> None:
    folder.mkdir()
    who = {
        "NAME": "Example",
        "EMAIL": "example@example.invalid",
        "DATE": "2026-01-05T09:00:00+00:00",
    }
    environment = {
        **os.environ,
        **{
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in who.items()
        },
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }

    def git(*arguments: str) -> None:
        command = ["git", "-C", str(folder), *arguments]
        subprocess.run(
            command, env=environment, check=True, capture_output=True, timeout=60
        )

    git("init", "--quiet", "--initial-branch", "main")
    for message, files in COMMITS:
        for name, text in files.items():
            (folder / name).write_text(text, "utf-8")
        git("add", ".")
        git("commit", "--quiet", "--message", message)


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextlib.contextmanager
def web_page(folder: Path) -> Iterator[str]:
    """Serves the folder's page on this machine; its address."""
    handler = functools.partial(_QuietHandler, directory=str(folder / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hours.html"
        finally:
            server.shutdown()
