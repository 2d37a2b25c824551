"""An HTTP API as a value, as an entry of a file, and as an option of the command line: the same server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagent import openapi_toolset
from mcpagent.cli.common.configuration import load_configuration
from mcpagent.cli.common.options import Options
from mcpagent.config import ServerConfig, load_servers
from mcpagent.config.server_config import SignInConfig
from mcpagent.errors import ConfigError, InputError
from mcpagent.permissions.trust.descriptions import describe
from mcpagent.utilities.text.secrets import revealed

SIGN_IN = SignInConfig(client_id="agent")


def entry(found: dict[str, Any], **environ: str) -> ServerConfig:
    [server] = load_servers({"mcpServers": {"api": found}}, environ=environ).servers
    return server


def credentials_of(config: ServerConfig) -> dict[str, str]:
    return {name: revealed(text) for name, text in config.credentials.items()}


def test_credentials_are_given_as_one_value_a_pair_or_by_scheme() -> None:
    given: list[tuple[Any, dict[str, str]]] = [
        ("key-1", {"*": "key-1"}),
        (("user", "pass-word"), {"*": "user:pass-word"}),
        ({"a": "first-key", "b": "other-key"}, {"a": "first-key", "b": "other-key"}),
        (None, {}),
    ]
    for auth, expected in given:
        config = openapi_toolset("a.json", auth=auth)
        assert credentials_of(config) == expected
        assert not any(text in repr(config) for text in expected.values())
    assert openapi_toolset("a.json", base_url="https://a.example", auth=SIGN_IN).sign_in == SIGN_IN


def test_names_come_from_title_host_or_file() -> None:
    cases: list[tuple[Any, str]] = [
        ("/tmp/Pet Store.yaml", "pet-store"),
        ("https://api.example.com:8080/openapi.json?x=1", "api-example-com"),
        ({"info": {"title": "My Shop (v2)"}}, "my-shop-v2"),
    ]
    assert [openapi_toolset(source).name for source, _ in cases] == [name for _, name in cases]
    with pytest.raises(ConfigError, match="give name="):
        openapi_toolset({})
    with pytest.raises(ConfigError, match="needs base_url"):
        openapi_toolset("a.json", auth=SIGN_IN)


def test_an_entry_of_a_file_is_the_same_server(tmp_path: Path) -> None:
    file = tmp_path / "mcp_servers.json"
    about = {"openapi": "docs/a.yaml", "url": "https://a.example", "credentials": {"key": "${SHOP_KEY}"}}
    file.write_text(json.dumps({"mcpServers": {"api": about}}))
    [server] = load_servers(file, environ={"SHOP_KEY": "value-of-key"}).servers
    assert (server.openapi, server.url) == (str(tmp_path / "docs/a.yaml"), "https://a.example")
    assert credentials_of(server) == {"key": "value-of-key"}
    facts = [(fact.what, fact.text) for fact in describe(server).facts]
    assert ("reads the API description", str(tmp_path / "docs/a.yaml")) in facts
    assert ("credential", "key=${SHOP_KEY}") in facts
    assert not any("value-of-key" in text for _, text in facts)
    assert credentials_of(entry({"openapi": "https://a.example/x.json", "credentials": "v"})) == {"*": "v"}


def test_an_entry_that_cannot_work_is_refused_in_one_line() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"openapi": "a.json", "command": "x"}, 'both "command" and "openapi"'),
        ({"url": "https://a.example", "credentials": "x"}, 'is for an entry with "openapi"'),
        ({"openapi": "a.json", "sign_in": {"client_id": "x"}}, 'needs "url"'),
        ({"openapi": 3}, "expected a string"),
        ({"openapi": "a.json", "credentials": [1]}, "expected a string, or an object of strings"),
    ]
    for found, expected in cases:
        with pytest.raises(ConfigError, match=expected) as caught:
            entry(found)
        assert "\n" not in str(caught.value)


def test_the_option_names_a_document(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MCPAGENT_HOME": str(tmp_path / "home")}
    (tmp_path / "shop.json").write_text("{}")
    options = Options(openapi=("shop.json", "https://a.example/b.json"), folder=tmp_path, environ=environ)
    servers = load_configuration(options).servers.servers
    assert [(server.name, server.openapi) for server in servers] == [
        ("shop", str(tmp_path / "shop.json")),
        ("a-example", "https://a.example/b.json"),
    ]
    with pytest.raises(InputError, match="no name can be made"):
        load_configuration(Options(openapi=("/",), folder=tmp_path, environ=environ))
