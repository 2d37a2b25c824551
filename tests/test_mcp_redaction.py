"""Secret values of a configuration never show, ordinary ones stay readable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.config import ServerConfig
from mcpagent.mcp.redaction import Redactor


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
        ({"env": {"A_KEY": "secret", "B_KEY": "secret-longer"}}, "secret-longer secret", "[redacted] [redacted]"),
    ],
)
def test_what_is_taken_out(settings: dict[str, Any], text: str, expected: str) -> None:
    assert Redactor(ServerConfig(**({"name": "a"} | settings)))(text) == expected


@given(st.text(min_size=6, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_secret_is_never_left(secret: str, before: str, after: str) -> None:
    redacted = Redactor(ServerConfig(name="a", env={"TOKEN": secret}))(before + secret + after)
    assert redacted == (before + secret + after).replace(secret, "[redacted]")
