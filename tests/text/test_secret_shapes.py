"""Secrets are taken out of text by their value, in every spelling, and by the shapes of keys."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mcpagent.text.secret_shapes import names_a_secret, redacted, redactor, secrets_in, without_shapes
from tests.tables import each_row

KEYS = [
    "sk-" + "a1B2" * 8,
    "ghp_" + "a" * 36,
    "github_pat_" + "A1" * 20,
    "glpat-" + "a" * 20,
    "xoxb-123456789012",
    "AKIA" + "A" * 16,
    "AIza" + "b" * 35,
    "sk_live_" + "c" * 20,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "hf_" + "d" * 24,
]


@each_row("key", KEYS)
def test_keys_are_known_by_their_shape(key: str) -> None:
    assert without_shapes(f"token {key}, said the server") == "token [redacted], said the server"


def test_shapes_that_need_what_stands_around_them() -> None:
    assert without_shapes("Authorization: Bearer abcdefghijklmnop") == "Authorization: Bearer [redacted]"
    assert without_shapes("https://user:pass@host/x") == "https://[redacted]@host/x"
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----"
    assert without_shapes(f"a {pem} b") == "a [redacted] b"
    plain = "the task-based sketch of package-lock.json at https://host/path, npm_config_cache"
    assert without_shapes(plain) == plain


def test_values_go_in_each_spelling_the_longer_first() -> None:
    redact = redactor(["secret/with space", "secret/with", "a\"b\\cé'", "short"])
    assert redact("secret/with space") == "[redacted]"
    assert redact("x secret%2Fwith%20space y") == "x [redacted] y"
    assert redact(json.dumps({"k": "a\"b\\cé'"})) == '{"k": "[redacted]"}'
    assert redact(json.dumps({"k": "a\"b\\cé'"}, ensure_ascii=False)) == '{"k": "[redacted]"}'
    assert redact("short") == "short"
    assert redactor([])(f"a {KEYS[1]}") == "a [redacted]"


@given(st.text(min_size=6, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_known_value_is_never_left(value: str, before: str, after: str) -> None:
    assert all(value not in piece for piece in redactor([value])(before + value + after).split("[redacted]"))


def test_data_is_redacted_all_through() -> None:
    redact = redactor(["topsecret"])
    data = {"a": ["topsecret!", ("x", 1, None)], "b": {"c": "topsecret"}}
    assert redacted(data, redact) == {"a": ["[redacted]!", ["x", 1, None]], "b": {"c": "[redacted]"}}


def test_names_and_environments() -> None:
    assert [names_a_secret(name) for name in ("API_KEY", "X-Auth", "PWD", "HOME", "PATH")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert secrets_in({"API_KEY": "abcdef", "TOKEN": "short", "HOME": "/home/me"}) == ["abcdef"]


def test_where_something_is_is_no_secret() -> None:
    environ = {"PWD": "/home/ann/shop", "SSH_AUTH_SOCK": "/tmp/agent.1", "DB_PWD": "/hush/hush", "PASSWORD": "/a+b/c=="}
    assert secrets_in(environ) == ["/hush/hush", "/a+b/c=="]
