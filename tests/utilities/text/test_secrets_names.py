"""Which names make a literal value a secret, and which parts of a value have names of their own."""

from __future__ import annotations

import json

from mcpagent.utilities.text.secrets import (
    is_secret_under,
    names_a_credential,
    secrets_in_address,
    secrets_in_data,
    secrets_under,
)
from tests.tables import each_row

RANDOM = "q7Zk2mX9Lw4Tn8Rb6Vc1"
CHOSEN = "correct-horse-battery-7"
CREDENTIALS = """
    ANTHROPIC_API_KEY APIKEY ATLASSIAN_API_TOKEN AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN BRAVE_API_KEY CLIENT_SECRET
    CONFLUENCE_PASSWORD DB_PASSWORD DISCORD_TOKEN EXA_API_KEY FIGMA_API_KEY GITHUB_PERSONAL_ACCESS_TOKEN GITLAB_TOKEN
    GOOGLE_CLIENT_SECRET GRAFANA_SERVICE_ACCOUNT_TOKEN HEROKU_API_KEY INFLUXDB_TOKEN JIRA_PAT KAGI_API_KEY
    MONGODB_PASSWORD MYSQL_PWD NEO4J_AUTH NEO4J_PASSWORD NOTION_TOKEN OPENAPI_MCP_BEARER PGPASSWORD QDRANT_API_KEY
    REDIS_PWD SECRETKEY SECRET_KEY SENTRY_AUTH_TOKEN SLACK_BOT_TOKEN SMTP_PASS SNOWFLAKE_PASSWORD STRIPE_SECRET_KEY
    SUPABASE_ACCESS_TOKEN TWILIO_AUTH_TOKEN apiKey clientSecret --api-key X-Api-Key Authorization Cookie
    API_TOKEN_PROD DB_PASSWORD_PROD DB_PASSWORD_STAGING ApiTokenDev API_KEY_2 API_KEY_PRIMARY dbPasswordOld
"""
"""Of published servers: a value that a person chose is a secret too."""

RANDOM_ONLY = """
    SECRET_KEY_BASE DJANGO_SECRET_KEY_FALLBACKS SLACK_TOKEN_B64 SESSION_ID
    JSESSIONID PHPSESSID ENCRYPTION_KEY_HEX GITHUB_TOKEN_ORG
"""
SETTINGS = """
    TOKEN_LIMIT MAX_TOKEN_COUNT PASSWORD_FILE KEY_COUNT TOKEN_URL TOKEN_TYPE SECRET_NAME KEY_VAULT_NAME PASSWORD_POLICY
    COOKIE_DOMAIN SORT_KEY PRIMARY_KEYS PARTITION_KEY CACHE_KEY FOREIGN_KEY AWS_ACCESS_KEY_ID AUTH_TYPE AUTH_MODE
    KEYSPACE TOKENIZER COMPASS MONKEY PWD OLDPWD HOME LOGIN_URL TOKEN_LIMIT_PROD SORT_KEY_DEV
"""
PUBLIC = (
    "PUBLIC_KEY publicKey LANGFUSE_PUBLIC_KEY STRIPE_PUBLISHABLE_KEY VAPID_PUB_KEY --public-key JWT_PUBLIC_KEY_PROD"
)
READABLE = ("100000", "created_at", "customer-region-id", "bearer", "https://host/oauth/token", "/run/secrets/token")


@each_row("name", CREDENTIALS.split())
def test_what_is_under_the_name_of_a_credential_is_a_secret_unless_it_is_a_word_or_place(name: str) -> None:
    for value, is_one in ((RANDOM, True), (CHOSEN, True), ("postgres", False), ("12345678", False), ("short", False)):
        assert is_secret_under(name, value) is is_one, value
    assert not is_secret_under(name, "/run/secrets/token")


@each_row("name", RANDOM_ONLY.split())
def test_under_a_name_that_mentions_a_credential_only_random_values_are_secrets(name: str) -> None:
    assert is_secret_under(name, RANDOM)
    assert [value for value in READABLE if is_secret_under(name, value)] == []


@each_row("name", SETTINGS.split())
def test_settings_and_keys_of_tables_are_no_secrets(name: str) -> None:
    assert [value for value in READABLE if is_secret_under(name, value)] == []


@each_row("name", PUBLIC.split())
def test_a_public_key_is_no_secret(name: str) -> None:
    assert not is_secret_under(name, RANDOM)
    assert not names_a_credential(name)
    assert list(secrets_under("SETTINGS", json.dumps({name: RANDOM, "private_key": CHOSEN}))) == [CHOSEN]


@each_row(
    "address, found",
    [
        (f"https://{RANDOM}@host/x", [RANDOM, RANDOM]),
        (f"https://{RANDOM}:@host/x", [RANDOM, RANDOM]),
        (f"https://{RANDOM}:x-oauth-basic@host", ["x-oauth-basic", "x-oauth-basic", RANDOM, RANDOM]),
        ("https://winter%2Dcanary-7@host", ["winter%2Dcanary-7", "winter-canary-7"]),
        (f"postgres://{RANDOM}@db/x", [RANDOM, RANDOM]),
        ("postgres://app_user2@db/x", []),
        ("https://alice.smith@host", []),
        ("https://user@host/", []),
        ("https://host/a@b", []),
        ("https://[::1/", []),
    ],
)
def test_a_token_in_place_of_a_user_is_a_secret(address: str, found: list[str]) -> None:
    assert list(secrets_in_address(address)) == found


@each_row(
    "value, found",
    [
        ("Server=db;User Id=sa;Password=My pass-1;Encrypt=true", ["My pass-1"]),
        ("Server=db;Uid=sa;Pwd=abc-def-1", ["abc-def-1"]),
        ("AccountName=x;AccountKey=q7Zk2mX9Lw4Tn8Rb6Vc1==;EndpointSuffix=core.net", ["q7Zk2mX9Lw4Tn8Rb6Vc1=="]),
        ("host=db user=me password=abc-def-1 port=5432", ["abc-def-1"]),
        ("host=db password='abc def-1' port=5432", ["abc def-1"]),
        ("host=db user=postgres password=postgres", []),
        ("-Xmx1g -Ddb.password=abc-def-1", ["abc-def-1"]),
        ("SORT_KEY=created_at;TOKEN_LIMIT=100000", []),
        ("a sentence without any pair; and another", []),
        ("x " * 50_000, []),
        ("x" * 100_000 + "=", []),
        ("password='" + "a=' " * 10_000, []),
        ('a="' * 30_001, []),
    ],
)
def test_each_part_of_a_connection_string_has_a_name_of_its_own(value: str, found: list[str]) -> None:
    assert list(secrets_under("DATABASE", value)) == found


def test_texts_of_data_are_judged_by_the_nearest_name() -> None:
    data = {
        "mcp_servers": [{"name": "crm", "authorization_token": CHOSEN, "tools": [{"headers": {"X-Api-Key": RANDOM}}]}],
        "max_tokens": 100_000,
        "prompt_cache_key": "customer-region",
        "passwords": ["abc-def-1", "postgres"],
    }
    assert sorted(secrets_in_data(data)) == sorted([CHOSEN, RANDOM, "abc-def-1"])


def test_texts_in_json_are_judged_by_their_own_names() -> None:
    headers = json.dumps({"Authorization": f"Bearer {RANDOM}", "Accept": "application/json"})
    assert set(secrets_under("OPENAPI_MCP_HEADERS", headers)) == {RANDOM}
    assert list(secrets_under("--config", json.dumps({"apiKey": CHOSEN, "limit": 5}))) == [CHOSEN]
    assert list(secrets_under("--config", "{not json at all")) == []
