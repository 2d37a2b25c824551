"""A secret shows nothing of itself; what is known for one is replaced in text for people, and hardly for models."""

from __future__ import annotations

import base64
import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.utilities.text.json_texts import texts_in, with_texts
from mcpagent.utilities.text.secrets import (
    Secret,
    as_written,
    data_without_random_secrets,
    hide,
    hide_environment,
    is_random,
    is_secret,
    known_values,
    names_a_credential,
    revealed,
    secrets_under,
    without_random_secrets,
    without_secrets,
)
from tests.tables import each_row

RANDOM = "q7Zk2mX9Lw4Tn8Rb6Vc1"
CANARY = "canary-of-this-test-1"


def test_a_secret_shows_its_origin_and_nothing_else() -> None:
    for secret, shown in (
        (Secret(f"Bearer {CANARY}", "Bearer ${TOKEN}"), "Bearer ${TOKEN}"),
        (Secret(CANARY), "[redacted]"),
    ):
        assert str(secret) == f"{secret}" == shown
        assert repr([secret]) == f"[Secret({shown!r})]"
        assert CANARY.encode() not in pickle.dumps(secret)
        assert CANARY not in json.dumps({"a": secret}, default=str)
        with pytest.raises(TypeError, match="not JSON serializable"):
            json.dumps(secret)
        assert CANARY in revealed(copy.deepcopy(secret))
        with pytest.raises(TypeError, match="read the configuration again"):
            pickle.loads(pickle.dumps(secret)).revealed()
    assert as_written(Secret("a", "${A}")) == "${A}"
    assert as_written(Secret(CANARY)) == as_written(CANARY) == CANARY
    assert not Secret("")


@each_row(
    "name, is_one",
    [
        *(
            (name, True)
            for name in ("API_KEY", "GITHUB_TOKEN", "X-Api-Key", "apiKey", "--api-key", "DB_PASSWORD", "PGPASSWORD")
        ),
        *(
            (name, True)
            for name in ("NEO4J_AUTH", "clientSecret", "MYSQL_PWD", "Authorization", "Cookie", "AWS_SECRET_ACCESS_KEY")
        ),
        *(
            (name, False)
            for name in ("PWD", "HOME", "KEYSPACE", "TOKENIZER", "TOKEN_FILE", "KEY_LIMIT", "SSH_AUTH_SOCK", "monkey")
        ),
        *((name, False) for name in ("AUTH_TYPE", "AWS_ACCESS_KEY_ID", "COMPASS", "1", "")),
    ],
)
def test_the_last_word_of_a_name_says_whether_it_is_a_credential(name: str, is_one: bool) -> None:
    assert names_a_credential(name) is is_one


@each_row(
    "value, at_sinks, for_models",
    [
        ("postgres", False, False),
        ("Customers", False, False),
        ("POSTGRESQL", False, False),
        ("12345678", False, False),
        ("2026-07-28", False, False),
        ("short1", False, False),
        ("customer_id", False, False),
        ("correct-horse-battery", True, False),
        ("hunter2secret99", True, False),
        ("text-embedding-3-large-v20240125preview", True, False),
        ("MyVeryLongServiceName2024", True, False),
        ("2024Q1toQ4r2final3b", True, False),
        ("q1q2q3q4_2024_sums", True, False),
        ("a" * 5_000 + "bcd1", True, False),
        ("2024-q1-to-q4-r2-final-3b", True, False),
        (RANDOM, True, True),
        ("0a1b2c3d4e5f60718293a4b5c6d7e8f9", True, True),
        ("ghp_" + "a1B2" * 9, True, True),
    ],
)
def test_words_and_numbers_stay_and_models_lose_random_values_alone(
    value: str, at_sinks: bool, for_models: bool
) -> None:
    assert is_secret(value) is at_sinks
    assert (is_secret(value) and is_random(value)) is for_models
    hide(value)
    assert (value in known_values()) is at_sinks
    said = f'rows of "{value}": 2'
    assert without_random_secrets(said) == ('rows of "[redacted]": 2' if for_models else said)


@each_row(
    "name, value, found",
    [
        ("SORT_KEY", "customer-id", []),
        ("PRIMARY_KEY", "orders.order_id", []),
        ("PARTITION_KEYS", "public.orders:Order/id", []),
        ("SORT_KEY", "customer-id-7f3k", ["customer-id-7f3k"]),
        ("API_KEY", "short-but-named", ["short-but-named"]),
        ("DB_PASSWORD", "correct-horse-battery-staple", ["correct-horse-battery-staple"]),
        ("SESSION_SECRET", "our.little_secret", ["our.little_secret"]),
        ("NEO4J_AUTH", "neo4j/pass12345word", ["neo4j/pass12345word", "pass12345word"]),
        ("HTTP_AUTH", "me:pass12345word", ["me:pass12345word", "pass12345word"]),
        ("NEO4J_AUTH", "neo4j/password", ["neo4j/password"]),
        ("MODE", "neo4j/pass12345word", []),
    ],
)
def test_joined_words_under_the_key_of_something_are_no_secret(name: str, value: str, found: list[str]) -> None:
    assert list(secrets_under(name, value)) == found


def test_models_lose_whole_tokens_only() -> None:
    hide(RANDOM)
    assert without_random_secrets(f"{RANDOM}, x{RANDOM} {RANDOM}-2 ({RANDOM})") == (
        f"[redacted], x{RANDOM} {RANDOM}-2 ([redacted])"
    )
    data = {RANDOM: 1, "[redacted]": 2, "a": [RANDOM, 3, None, {"b": f"x {RANDOM}"}]}
    shown = data_without_random_secrets(data)
    assert list(shown.values()) == [1, 2, ["[redacted]", 3, None, {"b": "x [redacted]"}]]
    assert RANDOM not in json.dumps(shown)


def test_nothing_is_copied_where_no_random_secret_is_known() -> None:
    data = {"a": ["postgres"]}
    assert data_without_random_secrets(data) is data


KEYS = [
    "sk-" + "a1B2" * 8,
    "sk-ant-api03-" + "Ab1_" * 8,
    "ghp_" + "a" * 36,
    "github_pat_" + "A1" * 20,
    "glpat-" + "a" * 20,
    "xoxb-123456789012",
    "AKIA" + "A" * 16,
    "AIza" + "b" * 35,
    "sk_live_" + "c" * 20,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "hf_" + "d" * 34,
    "1234567890:AA" + "e" * 33,
    "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----",
]


@each_row("key", KEYS)
def test_keys_are_known_by_the_shape_that_their_issuer_gives_them(key: str) -> None:
    assert without_secrets(f"token {key}, said the server") == "token [redacted], said the server"


def test_shapes_within_addresses_and_settings() -> None:
    assert without_secrets("postgres://user:pass@host/x") == "postgres://[redacted]@host/x"
    key = "a" * 86 + "=="
    assert without_secrets(f"AccountName=x;AccountKey={key};") == "AccountName=x;AccountKey=[redacted];"
    assert without_secrets("https://hooks.slack.com/services/T0/B0/" + "x" * 24).endswith("/services/[redacted]")


@each_row(
    "text",
    [
        "the task-based sketch of package-lock.json at https://host/path, npm_config_cache",
        "sk-learn-pipeline-estimator",
        "Bearer authentication-required",
        "secret_manager_of_the_project_2024",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ],
)
def test_what_only_resembles_a_key_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_values_go_in_each_spelling_the_longer_first() -> None:
    hide("secret/with space", "secret/with", "a\"b\\cé'd1")
    assert without_secrets("secret/with space") == "[redacted]"
    assert without_secrets("x secret%2Fwith%20space y secret%2Fwith+space") == "x [redacted] y [redacted]"
    for ensure_ascii in (True, False):
        assert without_secrets(json.dumps({"k": "a\"b\\cé'd1"}, ensure_ascii=ensure_ascii)) == '{"k": "[redacted]"}'
    assert without_secrets(base64.b64encode(b"secret/with space").decode()).startswith("[redacted]")


def test_an_invisible_character_hides_no_secret_and_other_texts_keep_theirs() -> None:
    hide("Qm4q9Wd7Lm2xTT0uVw", "Qm4\u200bq9Wd7Lm2xTT0uVz")
    for char in ("\u00ad", "\u200b", "\0", "\x1b", "\x7f", "\u202e", "\U000e0041", "\r"):
        text = f"soft Qm4q9{char}Wd7Lm2xTT0uVw end"
        assert without_secrets(text) == "soft [redacted] end", repr(char)
    assert without_secrets("soft Qm4q9Wd7Lm2xTT0uVz end") == "soft [redacted] end"
    family = "\U0001f469\u200d\U0001f4bb of Qm4q9\u200dother\r\n"
    assert without_secrets(family) == family


def test_values_go_however_addresses_and_json_escape_them() -> None:
    odd, path = "p@ss/w\u00f6rd7<x>", "Zk4/q9+Wd7 Lm2=="
    hide(odd, path, "\\" * 40 + "x7")
    for text in (
        "http://h/p@ss/w%C3%B6rd7%3Cx%3E/mcp",
        "http://h/p%40ss%2Fw%c3%b6rd7%3cx%3e/mcp",
        '"http:\\/\\/h/p@ss\\/w\\u00f6rd7<x>/mcp"',
        '"http://h/p@ss/w\\u00F6rd7\\u003cx\\u003E/mcp"',
        "http://h/Zk4%2fq9%2BWd7%20Lm2%3d%3D/mcp",
        "http://h/Zk4/q9+Wd7+Lm2==%/mcp",
    ):
        clean = without_secrets(text)
        assert "[redacted]" in clean, text
        assert "rd7" not in clean, text
        assert "Wd7" not in clean, text
        assert clean.startswith(text[:5])
        assert "mcp" in clean
    other = 'http://h/p@ss/w%C3%B6rd8%3Cx%3E "\\/" %'
    assert without_secrets(other) == other
    assert without_secrets("\\" * 60 + "y7") == "\\" * 60 + "y7"  # and does not run for ever


def test_a_value_that_was_cut_is_known_by_its_beginning() -> None:
    hide(RANDOM, "correct-horse-battery")
    assert (
        without_secrets(f"bad {RANDOM[:9]}… during a call with correct-h")
        == "bad [redacted]… during a call with [redacted]"
    )
    assert without_secrets(f"bad {RANDOM[:7]}… of correct-horses in {RANDOM[:9]}x") == (
        f"bad {RANDOM[:7]}… of correct-horses in {RANDOM[:9]}x"
    )


@given(st.text(min_size=8, max_size=20).filter(is_secret), st.text(max_size=20), st.text(max_size=20))
def test_a_known_value_is_never_left(value: str, before: str, after: str) -> None:
    hide(value)
    assert all(value not in piece for piece in without_secrets(before + value + after).split("[redacted]"))


def test_an_environment_is_known_by_its_names_and_folders_are_no_secrets() -> None:
    before = known_values()
    hide_environment({"API_KEY": "abc-def-1", "PWD": "/home/ann/shop", "KEY_STORE_PASSWORD": "/a1b2/c1d2e3f4g5=="})
    hide_environment({"APP_CREDENTIALS": "/home/ann/key.json", "SSH_AUTH_SOCK": "/tmp/agent.1", "LOGIN": "someone-1"})
    assert known_values() - before == {"abc-def-1", "/a1b2/c1d2e3f4g5=="}


def test_texts_in_data() -> None:
    data = {"a": ["x", ("y", 1, None)], "b": {"c": "x"}}
    assert with_texts(data, str.upper) == {"A": ["X", ["Y", 1, None]], "B": {"C": "X"}}
    assert list(texts_in({"a": ["x"], "b": 1})) == ["a", "x", "b"]
