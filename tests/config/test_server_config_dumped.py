"""Whatever way a server's configuration is dumped, it shows no secret, and the process and requests still get it."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, astuple, replace
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest

from mcpagent import McpServer
from mcpagent.config import load_servers
from mcpagent.config.server_config import ServerConfig
from mcpagent.permissions.trust.descriptions import describe
from mcpagent.permissions.trust.launches import launch_of
from mcpagent.utilities.text.secrets import revealed
from tests.tables import each_row

CANARY = "canary-of-mine-1"
GITHUB = f"ghp_{'a1B2' * 9}"
DUMPS: dict[str, Callable[[ServerConfig], object]] = {
    "repr": repr,
    "str": str,
    "asdict": asdict,
    "astuple": astuple,
    "asdict of a copy": lambda config: asdict(copy.copy(config)),
    "asdict of a deep copy": lambda config: asdict(copy.deepcopy(config)),
    "asdict of a changed one": lambda config: asdict(replace(config, timeout_seconds=1.0)),
    "JSON": lambda config: json.dumps(asdict(config), default=str),
    "JSON by repr": lambda config: json.dumps([config, config.written, dict(config.env)], default=repr),
    "pickle": pickle.dumps,
    "pickle of its values": lambda config: pickle.dumps(asdict(config)),
    "pprint": lambda config: pformat(asdict(config)),
    "format": lambda config: f"{config.args} {config.env} {config.headers} {config.url} {config.written}",
    "its start": lambda config: (
        launch_of(replace(config, command="sh"), {"PATH": "/usr/bin:/bin"}) if not config.url else ""
    ),
}
ENTRIES: list[dict[str, Any]] = [
    {"command": "sh", "args": ["run"], "env": {"API_TOKEN": CANARY, "MODE": "fast"}},
    {"command": "sh", "args": ["run"], "env": {"DATABASE_URL": f"postgres://u:{CANARY}@h/x"}},
    {"command": "sh", "args": ["run"], "env": {"ANYTHING": GITHUB}},
    {"command": "sh", "args": ["--token", CANARY, f"--key={CANARY}", GITHUB]},
    {"url": "https://h/", "headers": {"Authorization": f"Bearer {CANARY}"}},
    {"url": "https://h/", "headers": {"X-Session-Token": CANARY, "X-Mode": "fast"}},
    {"url": f"https://h/mcp?api_key={CANARY}"},
    {"url": f"https://h/{GITHUB}/mcp"},
    {"url": f"https://u:{CANARY}@h/"},
    {"url": "https://h/", "sign_in": {"client_id": "me", "client_secret": CANARY}},
    {"url": "https://h/", "auth": CANARY},
]


@each_row("entry", ENTRIES)
def test_no_dump_of_an_entry_shows_a_secret(entry: dict[str, Any]) -> None:
    (config,) = load_servers({"mcpServers": {"it": entry}}).servers
    for way, dump in DUMPS.items():
        shown = f"{dump(config)}"
        assert CANARY not in shown, way
        assert GITHUB not in shown, way
    shown = " ".join(fact.text for fact in describe(config).facts)
    assert CANARY in shown or GITHUB in shown  # a person who is asked sees it in full


@each_row("entry", [entry for entry in ENTRIES if not {"sign_in", "auth"} & entry.keys()])
def test_nor_does_one_of_a_value_that_code_made(entry: dict[str, Any]) -> None:
    config = McpServer("it", **entry)
    for way, dump in DUMPS.items():
        shown = f"{dump(config)}"
        assert CANARY not in shown, way
        assert GITHUB not in shown, way
    with pytest.raises(TypeError):
        vars(config)


def test_the_process_and_the_requests_get_the_text() -> None:
    config = McpServer("it", "sh", args=["--token", CANARY], env={"API_TOKEN": CANARY, "MODE": "fast"})
    assert config.env == {"API_TOKEN": CANARY, "MODE": "fast"}
    assert config == McpServer("it", "sh", args=("--token", CANARY), env={"API_TOKEN": CANARY, "MODE": "fast"})
    launch = launch_of(config, {"PATH": "/usr/bin:/bin"})
    assert launch.arguments == ("--token", CANARY)
    assert launch.environment["API_TOKEN"] == CANARY
    remote = McpServer("it", url=f"https://h/mcp?api_key={CANARY}", headers={"X-Session-Token": CANARY})
    assert remote.address == f"https://h/mcp?api_key={CANARY}"
    assert revealed(remote.headers["X-Session-Token"]) == CANARY


def test_what_is_no_secret_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"it": {"command": "sh", "env": {"POSTGRES_PASSWORD": "postgres"}}}}))
    (config,) = load_servers(str(file)).servers
    assert asdict(config)["env"] == {"POSTGRES_PASSWORD": "postgres"}
    assert f"{config.written}" == "FileEntry(command, env)"
    again = pickle.loads(pickle.dumps(config))
    assert (again, set(again.written)) == (config, {"command", "env"})
    with pytest.raises(TypeError, match="pickling left the secret out"):
        revealed(again.written["env"])
