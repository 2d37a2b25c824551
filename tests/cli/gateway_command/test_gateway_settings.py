"""The settings of the gateway's command line."""

from __future__ import annotations

from typing import Any

import pytest

from mcpagent.cli.gateway_command.gateway_settings import GatewaySettings, gateway_settings
from mcpagent.errors import InputError
from tests.tables import each_row


@each_row(
    "pairs, expected",
    [
        ([], {}),
        (["mode=add"], {"mode": "add"}),
        (["mode = code ", "mode.cursor=all"], {"mode": "code", "modes": {"cursor": "all"}}),
        (["idle=15m"], {"idle_seconds": 900.0}),
        (["idle=1.5h"], {"idle_seconds": 5400.0}),
        (["idle=90"], {"idle_seconds": 90.0}),
        (["pin=a,b", "pin=c"], {"pinned": ("a", "b", "c")}),
        (["prefix=off"], {"is_prefixed": False}),
        (
            ["http=0", "host=::1", "origin=https://a.example"],
            {"port": 0, "host": "::1", "origins": ("https://a.example",)},
        ),
        (
            ["issuer=https://a.example", "resource=https://b.example/mcp"],
            {"issuer": "https://a.example", "resource": "https://b.example/mcp"},
        ),
        (["ask=deny"], {"ask": "deny"}),
    ],
)
def test_settings_are_read_as_values(pairs: list[str], expected: dict[str, Any]) -> None:
    assert gateway_settings(pairs) == GatewaySettings(**{"modes": {}, **expected})


@each_row(
    "pair, message",
    [
        ("mode=fast", "--set mode=fast: write "),
        ("moed=add", "is no setting of the gateway"),
        ("mode", "is no setting of the gateway"),
        ("idle=soon", "write a time such as 15m"),
        ("idle=0s", "write a time such as 15m"),
        ("http=70000", "write a port"),
        ("http=x", "write a port"),
        ("prefix=maybe", "write on, off"),
        ("ask=everybody", "--set ask=everybody: write "),
    ],
)
def test_a_wrong_setting_is_one_line_that_says_what_to_write(pair: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        gateway_settings([pair])
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
