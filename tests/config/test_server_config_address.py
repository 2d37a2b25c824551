"""The address of an MCP server may be its key: a random part of its path or query is a secret, and names are none."""

from __future__ import annotations

from dataclasses import asdict

from mcpagent import McpServer
from mcpagent.config.literals import literal_warnings
from mcpagent.utilities.text.secrets import known_values, without_random_secrets, without_secrets
from tests.tables import each_row

RANDOM = "NzE2ZjQ4YmEtOWQyZi00MGQ1LWE5YzEtOGQ0ZjE5"


@each_row(
    "address, shown",
    [
        (f"https://mcp.example/api/s/{RANDOM}/mcp", "https://mcp.example/api/s/[redacted]/mcp"),
        (f"https://mcp.example/{RANDOM}", "https://mcp.example/[redacted]"),
        (f"https://mcp.example/mcp?s={RANDOM}&x=1", "https://mcp.example/mcp?s=[redacted]&x=1"),
        ("https://mcp.example/s/q7Zk2m%2BX9Lw4Tn8Rb6Vc1", "https://mcp.example/s/[redacted]"),
    ],
)
def test_a_random_part_of_an_address_is_a_secret(address: str, shown: str) -> None:
    server = McpServer("it", url=address)
    assert server.address == address
    assert RANDOM not in f"{asdict(server)}"
    assert without_secrets(f"401 of {address}") == f"401 of {shown}"
    if RANDOM in address:
        assert without_random_secrets(f"your key is {RANDOM}.") == "your key is [redacted]."
    assert literal_warnings("it", {"url": address}) == [
        "it: a secret is written out in url; keep it in the keyring: mcpagent keys move it"
    ]


@each_row(
    "address",
    [
        "https://api.example.com/mcp/x/pull_requests/readonly?toolsets=issues,pull_requests&version=2025-11-25",
        "https://mcp.example/123e4567-e89b-12d3-a456-426614174000/slack",
        "https://mcp.example/0a1b2c3d4e5f60718293a4b5c6d7e8f9/mcp",
        "https://q7Zk2mX9Lw4Tn8Rb6Vc1.example/mcp",
        "https://mcp.example/v1/models/Gpt4oMini2024PreviewLatest/mcp",
        "https://mcp.example/Team2/Project3/ServiceV2Api/mcp#Section4Of2026",
        "http://localhost:8080/AbC1DeF2",
        "https://mcp.example/${KEY_OF_MINE}/mcp",
    ],
)
def test_names_and_identifiers_in_an_address_are_none(address: str) -> None:
    before = known_values()
    server = McpServer("it", url=address)
    assert asdict(server)["url"] == address
    assert known_values() == before
    assert literal_warnings("it", {"url": address}) == []
