"""A configured secret is in no `repr`, `str`, JSON or pickle of a server, and reaches its process and requests."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mcpagent import McpServer
from mcpagent.config import load_servers
from mcpagent.config.server_config import ServerConfig, SignInConfig
from mcpagent.errors import ConfigError
from mcpagent.permissions.trust.launches import launch_of
from mcpagent.utilities.text.secrets import (
    Secret,
    data_without_random_secrets,
    known_values,
    revealed,
    without_random_secrets,
    without_secrets,
)
from tests.tables import each_row

CANARY = "canary-of-mine-1"


@each_row(
    "settings",
    [
        {"command": "npx", "args": ["--token", CANARY]},
        {"command": "npx", "args": [f"--anything={CANARY}"]},
        {"command": "npx", "env": {"API_TOKEN": CANARY}},
        {"url": f"https://h/{CANARY}/mcp?x={CANARY}"},
        {"url": "https://h/", "headers": {"Authorization": f"Bearer {CANARY}"}},
        {"url": "https://h/", "headers": {"X-Anything": CANARY}},
        {"url": "https://h/", "sign_in": SignInConfig(client_id="me", client_secret=CANARY)},
    ],
)
def test_t7_a_repr_shows_no_secret(settings: dict[str, Any]) -> None:
    assert CANARY not in repr(McpServer("it", **settings))


@each_row("name", ["Authorization", "cookie", "X-API-Key", "Proxy-Authorization"])
def test_the_value_of_a_header_for_credentials_is_a_secret(name: str) -> None:
    value = ServerConfig("it", url="https://h/", headers={name: f"a={CANARY}"}).headers[name]
    assert isinstance(value, Secret)
    assert CANARY not in f"{value}{value!r}{pickle.dumps(value)!r}"
    assert revealed(value) == f"a={CANARY}"


def test_an_argument_for_a_credential_is_a_secret_and_reaches_the_process() -> None:
    for args, places in (
        (["--token", CANARY], {1}),
        (("run", f"API_KEY={CANARY}"), {1}),
        (["--header", f"X-Api-Key: {CANARY}", "--name", "canary-of-mine-2"], {1}),
        (["--sort-key", "customer-id", "--password", "postgres"], set()),
    ):
        server = McpServer("it", command="sh", args=args)
        assert {place for place, word in enumerate(server.args) if isinstance(word, Secret)} == places
        assert CANARY not in f"{asdict(server)}"
        assert launch_of(server, {"PATH": "/usr/bin:/bin"}).arguments == tuple(args)
        assert server == McpServer("it", command="sh", args=args)


ENTRY: dict[str, Any] = {
    "command": "sh",
    "args": ["--key=${MY_TOKEN}", "${PLACE}", "${PLACE:-x} of ${userHome}"],
    "env": {"API_KEY": "${PLACE}", "MODE": "${PLACE}", "PLAIN": "as it is"},
}


def test_a_reference_is_a_secret_with_its_origin_from_the_reader_to_the_process() -> None:
    environ = {"MY_TOKEN": CANARY, "PLACE": "/private/place-1", "HOME": "/home/me", "PATH": "/usr/bin:/bin"}
    (server,) = load_servers({"mcpServers": {"it": ENTRY}}, environ=environ).servers
    assert [str(word) for word in server.args] == ["--key=${MY_TOKEN}", "${PLACE}", "${PLACE:-x} of /home/me"]
    assert server.env["PLAIN"] == "as it is"
    assert CANARY.encode() not in pickle.dumps((server.args, dict(server.env)))
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps(server.args)
    launch = launch_of(server, environ)
    assert launch.arguments == (f"--key={CANARY}", "/private/place-1", "/private/place-1 of /home/me")
    assert launch.environment["API_KEY"] == launch.environment["MODE"] == "/private/place-1"
    assert without_secrets(f"{CANARY} at /private/place-1") == "[redacted] at [redacted]"  # it is in API_KEY too


def test_a_reference_without_a_name_for_credentials_is_private_and_no_known_secret() -> None:
    entry = {"command": "sh", "args": ["${PLACE}"], "env": {"MODE": "${PLACE}"}}
    (server,) = load_servers({"mcpServers": {"it": entry}}, environ={"PLACE": "/private/place-2"}).servers
    assert repr(server.args) == "(Secret('${PLACE}'),)"
    assert "/private/place-2" not in known_values()


def test_a_secret_is_refused_where_it_would_be_shown_and_other_variables_are_not(tmp_path: Path) -> None:
    environ = {"MY_TOKEN": CANARY, "PLACE": "/private/place-3"}
    for key, value, where in (
        ("description", "Talks to ${MY_TOKEN}", "description"),
        ("description", "${keyring:it.KEY}", "description"),
        ("cwd", "/srv/${MY_TOKEN:-x}", "cwd"),
        ("roots", [".", "${env:MY_TOKEN}"], "roots"),
        ("enabled_tools", ["${MY_TOKEN}"], "enabled_tools"),
    ):
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"it": {"command": "sh", key: value}}}))
        with pytest.raises(ConfigError, match=rf"mcp.json:1:\d+: mcpServers.it.{where}: .* is a secret, and") as caught:
            load_servers(file, environ=environ, secret=lambda name: CANARY)
        assert CANARY not in str(caught.value)
    entry = {"command": "sh", "description": "In ${PLACE}", "cwd": "${PLACE}", "roots": ["${PLACE}"]}
    (server,) = load_servers({"mcpServers": {"it": entry}}, environ=environ).servers
    assert (server.description, server.cwd, server.roots) == (
        "In /private/place-3",
        "/private/place-3",
        ("/private/place-3",),
    )


def test_a_password_of_letters_and_one_within_a_text_are_replaced() -> None:
    password = "abcdqrstxkwzmnvp"
    entry = {"command": "sh", "env": {"MAIL": "${keyring:mail}", "DB": "host=db password=${PLACE}"}}
    secrets = {"mail": password}
    load_servers({"mcpServers": {"it": entry}}, environ={"PLACE": "abc-def-1"}, secret=secrets.get)
    assert without_secrets("not abc-def-1") == "not [redacted]"
    assert without_secrets(f"as {password}") == without_random_secrets(f"as {password}") == "as [redacted]"


def test_the_password_of_a_connection_string_is_a_secret() -> None:
    for text in ("Server=db;Uid=me;Pwd=abc-def-1", "host=db user=me password='abc-def-1'"):
        server = ServerConfig("it", command="sh", env={"CONNECTION": text})
        assert isinstance(server.env["CONNECTION"], Secret)
        assert "abc-def-1" not in f"{asdict(server)}{pickle.dumps(server)!r}"
        assert revealed(server.env["CONNECTION"]) == text
        assert "abc-def-1" not in without_secrets(f"failed: {text}, abc-def-1")


HARMLESS: list[dict[str, Any]] = [
    {"env": {"POSTGRES_PASSWORD": "postgres", "POSTGRES_USER": "postgres", "POSTGRES_DB": "customers"}},
    {"env": {"REDIS_PASSWORD": "redis", "PORT": "6379"}},
    {"env": {"API_KEY": "dummy", "AUTH": "none", "TOKEN": "changeme"}},
    {"env": {"AUTH_TYPE": "oauth2", "KEYSPACE": "orders", "PRIMARY_KEY": "customer_id"}},
    {"env": {"MODEL": "text-embedding-3-large", "TOKEN_FILE": "/run/secrets/token", "MAX_TOKENS": "100000"}},
    {"args": ["--password", "postgres", "--primary-key", "customer_id", "--token-type=bearer"]},
    {"args": ["-e", "MYSQL_ROOT_PASSWORD=root-password", "mysql:8.4"]},
    {"args": ["postgresql://postgres:postgres@localhost:5432/customers"]},
    {"args": ["-y", "@modelcontextprotocol/server-filesystem@2026.1.14", "/home/me/project"]},
    {"env": {"DB_PASSWORD": "correct-horse-battery-staple"}},
    {"env": {"CACHE_KEY": "users-v2-2026-11", "SORT_KEYS": "created_at,updated_at", "PARTITION_KEY": "tenant_id#2026"}},
    {"env": {"OPENAI_API_KEY": "lm-studio", "OLLAMA_API_KEY": "not-needed", "AWS_SECRET_ACCESS_KEY": "minioadmin"}},
    {"env": {"JWT_SECRET": "super-secret-jwt-token-with-at-least-32-characters-long"}},
    {"env": {"SA_PASSWORD": "yourStrong(!)Password", "PASSWORD": "P@ssw0rd123456789", "AUTH": "admin:admin"}},
    {"env": {"NEO4J_AUTH": "neo4j/neo4j", "TOKEN": "00000000-0000-0000-0000-000000000000"}},
    {"env": {"KEY": "2026-11-28T06:00:00Z", "SIGNING_KEY": "RS256withECDSA", "API_TOKEN": "/run/secrets/api_token_v2"}},
    {"env": {"MODEL_KEY": "claude-3-5-sonnet-20241022", "API_KEY": "Llama3.2-3B-Instruct-Q4_K_M.gguf"}},
    {"env": {"TOKEN": "local-development-token-2026", "DB_PASSWORD": "example_password_123"}},
    {"env": {"TOKEN": "s3-eu-central-1-bucket-2", "KEY": "Q3FY2026EMEARevenueV2", "SECRET": "ISO27001SOC2HIPAA"}},
    {"env": {"KEY": "h264_1080p_60fps_aac", "TOKEN": "x86_64-linux-gnu-gcc12", "PASSWORD": "MyCompanyName2026"}},
    {"args": ["--key", "src/main/resources/key.pem", "--auth", "none", "--token", "MP3128kbps44100HzStereo"]},
    {"args": ["--api-key=demo-key-for-the-docs", "--connection", "sqlite:///data/app.db?mode=ro&cache=shared"]},
]


@each_row("entry", HARMLESS)
def test_no_word_of_a_harmless_entry_is_lost_in_a_result_for_a_model(entry: dict[str, Any], tmp_path: Path) -> None:
    load_servers({"mcpServers": {"it": {"command": "x", **entry}}}, environ={})
    words = json.dumps(entry).replace('"', " ")
    assert without_random_secrets(words) == words
    assert data_without_random_secrets(entry) == entry
