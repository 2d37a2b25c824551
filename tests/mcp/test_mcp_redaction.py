"""Secret values of a configuration never show, ordinary ones stay readable."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.link import ServerLink
from mcpagent.mcp.lists.pins import PinStore
from mcpagent.mcp.redaction import Redactor
from mcpagent.text.known_secrets import without_secrets


@pytest.mark.parametrize(
    ("settings", "text", "expected"),
    [
        ({"headers": {"Authorization": "Bearer abcdef123"}}, "got abcdef123", "got [redacted]"),
        ({"headers": {"X-Tenant": "acme-corporation"}}, "no acme-corporation", "no [redacted]"),
        ({"env": {"GITHUB_TOKEN": "ghp_1234"}}, "bad ghp_1234!", "bad [redacted]!"),
        ({"env": {"DSN": "a1b2c3d4e5f6a7b8c9d0e1f2"}}, "a1b2c3d4e5f6a7b8c9d0e1f2", "[redacted]"),
        ({"env": {"ROOT": "/home/me/project"}}, "no /home/me/project", "no /home/me/project"),
        ({"env": {"API_KEY": "x"}}, "exit", "exit"),
        (
            {"url": "https://h/mcp?api_key=sesame-open&page=12"},
            "GET ?api_key=sesame-open&page=12",
            "GET ?api_key=[redacted]&page=12",
        ),
        ({"env": {"A_KEY": "secret1", "B_KEY": "secret1-longer"}}, "secret1-longer secret1", "[redacted] [redacted]"),
        ({"env": {"AUTH_MODE": "required", "KEY_FILE": "/home/me/key"}}, "required /home/me/key", None),
        ({"env": {"AUTH_URL": "https://login.example", "MAX_TOKENS": "100000"}}, "https://login.example 100000", None),
        ({"env": {"DB_PASSWORD": "sunshine"}}, "sunshine", "[redacted]"),
        ({"env": {"API_KEY": 'a"b\nc1d2'}}, json.dumps('a"b\nc1d2'), '"[redacted]"'),
        ({"env": {"API_KEY": "a/b+c=d e"}}, "?k=a%2Fb%2Bc%3Dd%20e", "?k=[redacted]"),
        ({"env": {"API_KEY": "k1k2k3k4k5"}}, base64.b64encode(b"k1k2k3k4k5").decode(), "[redacted]=="),
        ({"headers": {"Authorization": "Basic bWU6c3dvcmRmaXNo"}}, "as me with swordfish", "as me with [redacted]"),
        ({"env": {"DATABASE": "postgres://me:sword%20fish@db/x"}}, "me: sword fish", "me: [redacted]"),
        ({"env": {"DATABASE": "postgres://me@db/x"}}, "postgres://me@db/x", None),
        ({"args": ["--token", "sesame-open"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["--api-key=sesame-open"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["run", "-e", "DB_PASSWORD=sunshine", "image"]}, "sunshine of image", "[redacted] of image"),
        ({"args": ["--header", "Authorization: Bearer sesame-open-1"]}, "sesame-open-1", "[redacted]"),
        ({"args": ["ghp_0123456789abcdefghijkl"]}, "ghp_0123456789abcdefghijkl", "[redacted]"),
        ({"args": ["postgres://me:sword%20fish@db/x"]}, "me: sword fish", "me: [redacted]"),
        ({"args": ["https://h/mcp?api_key=sesame-open&page=12"]}, "sesame-open 12", "[redacted] 12"),
        ({"args": ["-c", "exec server --api-key='sesame-open'"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["-c", "echo 'KeyError: A_TOKEN is unset' >&2"]}, "KeyError: A_TOKEN is unset", None),
        ({"args": ["-c", "curl -H 'X-Error-Key: sesame-open'"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["-c", "TOKEN=sesame-open exec server"]}, "server: sesame-open", "server: [redacted]"),
        ({"args": ["--config", '{"keys": {"apiKey": ["sesame-open"]}}']}, "no sesame-open", "no [redacted]"),
        ({"args": ["-token", "sesame-open"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["--token", "12345678"]}, "no 12345678", "no [redacted]"),
        ({"args": ["--to", "Server=db;Password=sunshine;User=somebody"]}, "somebody sunshine", "somebody [redacted]"),
        (
            {"env": {"HEADERS": '{"Authorization": "Bearer sesame-open"}'}},
            "a Bearer sesame-open sesame-open",
            "a [redacted] [redacted]",
        ),
        (
            {"env": {"GITHUB_PAT": "sesame-open", "PATTERN": "any-thing-1"}},
            "sesame-open any-thing-1",
            "[redacted] any-thing-1",
        ),
        ({"headers": {"Cookie": "session=sesame-open; theme=dark"}}, "a dark sesame-open", "a dark [redacted]"),
        ({"url": "https://me:sunshine@h/mcp"}, "me and sunshine", "me and [redacted]"),
        ({"env": {"API_KEY": "a/b+c=d e"}}, "?k=a%2fb%2bc%3dd+e", "?k=[redacted]"),
        ({"args": ["-y", "pkg@1.2.3", "--author", "John Smith"]}, "pkg@1.2.3 by John Smith", None),
        ({"args": ["--password-file", "/run/secrets/db"]}, "no /run/secrets/db", None),
        (
            {"args": ["/nix/store/7hq1jqz8w9v2k5x3a4b5c6d7e8f9-x/bin"]},
            "/nix/store/7hq1jqz8w9v2k5x3a4b5c6d7e8f9-x/bin",
            None,
        ),
        ({"args": ["--auth", "required", "--max-tokens", "100000"]}, "required 100000", None),
        ({"args": ["--to=acme-8"], "told": {"--to=acme-8": "--to=${ACME_KEY}"}}, "to acme-8", "to [redacted]"),
        (
            {"args": ["a-key-1:b-key-2@h"], "told": {"a-key-1:b-key-2@h": "${A_KEY}:${B_KEY}@h"}},
            "a-key-1 b-key-2 @h",
            "[redacted] [redacted] @h",
        ),
        ({"env": {"TLS_KEY": f"-----BEGIN-----\n{'ab1' * 10}\n-----"}}, "ab1" * 10, "[redacted]"),
    ],
)
def test_what_is_taken_out(settings: dict[str, Any], text: str, expected: str) -> None:
    redactor = Redactor(ServerConfig(**({"name": "a"} | settings)))
    assert redactor(text) == redactor.result(text) == (text if expected is None else expected)


def test_a_key_that_changes_makes_no_other_server_of_it(tmp_path: Path) -> None:
    pins = PinStore(tmp_path)
    one, two = (ServerConfig("a", command="x", args=("--token", value)) for value in ("sesame-1", "sesame-2"))
    assert pins.path(one) == pins.path(two) != pins.path(ServerConfig("a", command="x", args=("--other", "sesame-1")))
    far, new, other = (
        ServerConfig("a", url=f"https://h/mcp?{query}") for query in ("k_key=s%2Fame-1", "k_key=s-ame-2", "k=s")
    )
    assert pins.path(far) == pins.path(new) != pins.path(other)
    named = (
        ServerConfig("a", url=url, told={url: "https://h/${A_KEY}"}) for url in ("https://h/key-1", "https://h/key-2")
    )
    assert len({pins.path(config) for config in named}) == 1


def test_the_beginning_of_a_secret_is_not_shown_in_errors_but_left_in_results() -> None:
    redactor = Redactor(ServerConfig("a", env={"API_TOKEN": "github_pat_s3cr3t"}))
    assert redactor("token github_pat_s3cr… is bad, see github_pages") == "token [redacted]… is bad, see [redacted]ges"
    assert redactor.result("see github_pages") == "see github_pages"


def test_json_is_redacted_text_by_text() -> None:
    redactor = Redactor(ServerConfig("a", env={"API_TOKEN": '{"a": 1}', "PIN_SECRET": "123456"}))
    value = {"x": ['{"a": 1}', 123456, {"123456": None}], "a": 1}
    assert redactor.json(value) == {"x": ["[redacted]", 123456, {"[redacted]": None}], "a": 1}
    deep: Any = "text"
    for _ in range(5_000):
        deep = [deep]
    assert "[redacted]" in str(redactor.json(deep))
    harmless = {"a": ["b"]}
    assert Redactor(ServerConfig("b")).json(harmless) == harmless


@given(st.text(min_size=6, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_secret_is_never_left(secret: str, before: str, after: str) -> None:
    redactor = Redactor(ServerConfig(name="a", env={"PASSWORD": secret}))
    assert secret not in redactor(before + secret + after).replace("[redacted]", "")
    assert redactor.result(before + secret + after).replace("[redacted]", "").count(secret) == 0


async def test_a_secret_in_an_address_is_hidden_from_the_logs_of_libraries(caplog: pytest.LogCaptureFixture) -> None:
    config = ServerConfig("a", url="http://127.0.0.1:9/mcp?token=canary0123456789&page=two", connect_timeout_seconds=2)
    with pytest.raises(ServerError), caplog.at_level(logging.DEBUG):
        await ServerLink(config).__aenter__()
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "canary0123456789" in logged  # what a library writes
    assert "canary0123456789" not in without_secrets(logged)  # what `--debug` shows of it
    assert "page=two" in without_secrets(logged)
