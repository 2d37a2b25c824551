"""Secrets written out in a server's entry are found, by their place and the variable that fits them; others are not."""

from __future__ import annotations

from typing import Any

from mcpagent.config.literals import holds_a_reference, is_literal_secret, literal_secrets, variable_name
from tests.tables import each_row

GITHUB = "ghp_" + "a1B2" * 9
RANDOM = "q7Zk2mX9Lw4Tn8Rb6Vc1"


@each_row(
    "entry, found",
    [
        ({"env": {"GITHUB_TOKEN": GITHUB}}, [("env.GITHUB_TOKEN", "GITHUB_TOKEN", "")]),
        ({"envs": {"API_KEY": "short-but-named"}}, [("envs.API_KEY", "API_KEY", "")]),
        ({"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "HOME": "/root", "TOKEN_FILE": "/run/token"}}, []),
        ({"env": {"PASSWORD": "12345", "KEY_LIMIT": "1000000", "KEY_URL": "https://keys.example"}}, []),
        ({"headers": {"Authorization": f"Bearer {RANDOM}"}}, [("headers.Authorization", "AUTHORIZATION", "Bearer ")]),
        ({"headers": {"Authorization": "Bearer ${TOKEN}", "Accept": RANDOM, "X-Toolset": "all"}}, []),
        ({"requestOptions": {"X-Api-Key": "abcdefgh"}}, [("requestOptions.X-Api-Key", "X_API_KEY", "")]),
        ({"args": ["run", f"--token={RANDOM}"]}, [("args.1", "TOKEN", "--token=")]),
        ({"args": ["--api-key", "abcdefgh", "--verbose"]}, [("args.1", "API_KEY", "")]),
        ({"args": [f"--header=Authorization: Bearer {GITHUB}"]}, [("args.0", "TOKEN", "--header=")]),
        ({"args": ["--header=X-Api-Key: abcdefgh"]}, [("args.0", "X_API_KEY", "--header=X-Api-Key: ")]),
        ({"args": ["--env=A_TOKEN=abcdefgh"]}, [("args.0", "A_TOKEN", "--env=A_TOKEN=")]),
        (
            {"args": ["--primary-key", "order_id", "--keyspace=orders", "--no-auth", "folder", "--key-type=rsa-2048"]},
            [],
        ),
        ({"env": {"KEY_COLUMN": "order_id", "AUTH_TYPE": "oauth2", "COMPASS_REGION": "central"}}, []),
        ({"args": [f"SLACK_TOKEN={RANDOM}", 7, "--token", "--verbose"]}, [("args.0", "SLACK_TOKEN", "SLACK_TOKEN=")]),
        ({"args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]}, []),
        ({"args": "not a list"}, []),
        ({"url": f"https://host/mcp?api_key={RANDOM}"}, [("url", "TOKEN", "")]),
        ({"serverUrl": "https://user:password@host/mcp"}, [("serverUrl", "TOKEN", "")]),
        ({"url": "https://host/mcp?region=eu", "httpUrl": "http://[broken"}, []),
        ({"env": "text", "headers": ["X"], "command": "npx"}, []),
    ],
)
def test_what_is_a_secret_is_found_with_its_place(entry: dict[str, Any], found: list[tuple[str, str, str]]) -> None:
    assert [(str(secret), secret.variable, secret.before) for secret in literal_secrets(entry)] == found


def test_a_value_by_itself() -> None:
    assert is_literal_secret("anything", GITHUB)
    assert is_literal_secret("password", "abcdef")
    assert not is_literal_secret("password", "abcde")
    assert not is_literal_secret("password", "Bearer ")
    assert not is_literal_secret("name", "abcdefghijklmnopqrstuvwxyz")


def test_names_and_references() -> None:
    assert variable_name("X-Api Key") == "X_API_KEY"
    assert variable_name("--token") == "TOKEN"
    assert variable_name("1password") == "KEY_1PASSWORD"
    assert variable_name("--") == "KEY"
    assert [holds_a_reference(text) for text in ("${A}", "x$A", "a", "5$")] == [True, True, False, False]
