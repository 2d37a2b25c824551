"""Secrets written out in a server's entry are found, by their place and the variable that fits them; others are not."""

from __future__ import annotations

from typing import Any

from mcpagent.config.literals import holds_a_reference, literal_secrets, literal_warnings, variable_name
from tests.tables import each_row

GITHUB = "ghp_" + "a1B2" * 9
RANDOM = "q7Zk2mX9Lw4Tn8Rb6Vc1"


@each_row(
    "entry, found",
    [
        ({"env": {"GITHUB_TOKEN": GITHUB}}, [("env.GITHUB_TOKEN", "GITHUB_TOKEN", "")]),
        ({"env": {"ANYTHING": GITHUB}}, [("env.ANYTHING", "ANYTHING", "")]),
        ({"envs": {"API_KEY": "short-but-named"}}, [("envs.API_KEY", "API_KEY", "")]),
        ({"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "HOME": "/root", "TOKEN_FILE": "/run/token"}}, []),
        ({"env": {"POSTGRES_PASSWORD": "postgres", "KEY_LIMIT": "1000000", "KEY_URL": "https://keys.example"}}, []),
        ({"env": {"CONNECTION": "Server=db;Uid=me;Pwd=abc-def-1"}}, [("env.CONNECTION", "CONNECTION", "")]),
        ({"env": {"API_TOKEN_PROD": RANDOM, "TOKEN_LIMIT": "100000"}}, [("env.API_TOKEN_PROD", "API_TOKEN_PROD", "")]),
        ({"env": {"DATABASE_URL": "postgres://me:open-sesame@db/x"}}, [("env.DATABASE_URL", "DATABASE_URL", "")]),
        ({"headers": {"Authorization": f"Bearer {RANDOM}"}}, [("headers.Authorization", "AUTHORIZATION", "Bearer ")]),
        ({"headers": {"Authorization": "Bearer ${TOKEN}", "Accept": RANDOM, "X-Toolset": "all"}}, []),
        ({"requestOptions": {"X-Api-Key": "abcdefg1"}}, [("requestOptions.X-Api-Key", "X_API_KEY", "")]),
        ({"sign_in": {"client_secret": "abcdefg1"}}, [("sign_in.client_secret", "CLIENT_SECRET", "")]),
        ({"args": ["run", f"--token={RANDOM}"]}, [("args.1", "TOKEN", "--token=")]),
        ({"args": ["--api-key", "abcdefg1", "--verbose"]}, [("args.1", "API_KEY", "")]),
        (
            {"args": [f"--header=Authorization: Bearer {GITHUB}"]},
            [("args.0", "AUTHORIZATION", "--header=Authorization: Bearer ")],
        ),
        ({"args": ["--header=X-Api-Key: abcdefg1"]}, [("args.0", "X_API_KEY", "--header=X-Api-Key: ")]),
        ({"args": ["--env=A_TOKEN=abcdefg1"]}, [("args.0", "A_TOKEN", "--env=A_TOKEN=")]),
        ({"args": [GITHUB]}, [("args.0", "TOKEN", "")]),
        ({"args": ["--keyspace=orders_1", "--no-auth", "folder", "--key-type=rsa-2048", "--token", "--verbose"]}, []),
        ({"env": {"KEY_COLUMN": "order_id", "AUTH_TYPE": "oauth2-pkce", "COMPASS_REGION": "central-1"}}, []),
        ({"args": [f"SLACK_TOKEN={RANDOM}", 7]}, [("args.0", "SLACK_TOKEN", "SLACK_TOKEN=")]),
        ({"args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]}, []),
        ({"args": "not a list"}, []),
        ({"url": f"https://host/mcp?api_key={RANDOM}"}, [("url", "TOKEN", "https://host/mcp?api_key=")]),
        ({"serverUrl": "https://user:password-1@host/mcp"}, [("serverUrl", "TOKEN", "https://user:")]),
        ({"url": "https://host/mcp?region=eu", "httpUrl": "http://[broken"}, []),
        ({"env": "text", "headers": ["X"], "command": "npx"}, []),
    ],
)
def test_what_is_a_secret_is_found_with_its_place(entry: dict[str, Any], found: list[tuple[str, str, str]]) -> None:
    assert [(str(secret), secret.variable, secret.before) for secret in literal_secrets(entry)] == found
    assert len(literal_warnings("a b", entry)) == bool(found)


def test_the_warning_is_one_line_with_every_place_and_the_command() -> None:
    entry = {"env": {"A_TOKEN": RANDOM, "B_KEY": RANDOM}, "args": [GITHUB]}
    assert literal_warnings("a b", entry) == [
        "a b: a secret is written out in env.A_TOKEN, env.B_KEY, args.0; keep it in the keyring: "
        "mcpagent keys move 'a b'"
    ]


def test_names_and_references() -> None:
    assert variable_name("X-Api Key") == "X_API_KEY"
    assert variable_name("--token") == "TOKEN"
    assert variable_name("1password") == "KEY_1PASSWORD"
    assert variable_name("--") == "KEY"
    assert [holds_a_reference(text) for text in ("${A}", "x$A", "a", "5$")] == [True, True, False, False]
