"""What `mcpagent doctor` says of a model at a server on this computer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.common.options import Options
from mcpagent.cli.setup.doctor import Finding, model_findings
from mcpagent.models.endpoints.learned import LearnedStore, learned_of
from mcpagent.models.local.local_servers import listed_models
from tests.tables import each_row

LISTED: dict[str, Any] = {
    "object": "list",
    "data": [{"id": "tiny:latest"}, {"id": "small", "meta": {"n_ctx": 4096}}, {"id": "big", "max_model_len": 32768}],
}


class _Lists(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(LISTED if self.path == "/v1/models" else []).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Lists)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(10)
    server.server_close()


def found(spec: str, folder: Path) -> Finding:
    [finding] = all_found(spec, folder)
    return finding


def all_found(spec: str, folder: Path) -> list[Finding]:
    environ = {"XDG_CACHE_HOME": str(folder), "HOME": str(folder)}
    return model_findings(Options(model=spec, environ=environ, folder=folder))


@each_row(
    "name, level, said",
    [
        ("small", "ok", ", 4,096 tokens, worked with as a small model (--set profile=large takes that back)"),
        ("big", "ok", ", 32,768 tokens"),
        ("tiny", "ok", "/v1"),
        ("other", "warning", ": tiny:latest, small, big"),
    ],
)
def test_the_server_says_what_it_has(name: str, level: str, said: str, address: str, tmp_path: Path) -> None:
    finding = found(f"llamacpp:{name}?base_url={address}/v1", tmp_path)
    assert finding.level == level
    assert finding.text.endswith(said)


def test_what_was_found_out_is_said_too(address: str, tmp_path: Path) -> None:
    url = f"{address}/v1"
    LearnedStore(tmp_path / "mcpagent" / "models").save(url, "big", learned_of(takes_tools=False, takes_schemas=False))
    said = found(f"llamacpp:big?base_url={url}", tmp_path).text
    assert said.endswith(
        ", 32,768 tokens, takes no tools: they are described in the prompt, "
        "takes tools' schemas without patterns and limits"
    )


def test_each_model_of_a_chain_is_looked_at(address: str, tmp_path: Path) -> None:
    chain = f"openai:gpt-5.5?header.X-Key=canary-1,llamacpp:big?base_url={address}/v1"
    missing, there = all_found(chain, tmp_path)
    assert (missing.level, missing.code) == ("warning", 0)
    assert "OPENAI_API_KEY is not set" in missing.text
    assert "canary" not in missing.text
    assert (there.level, "32,768 tokens" in there.text) == ("ok", True)


def test_a_chain_of_which_none_can_answer_is_an_error(tmp_path: Path) -> None:
    assert [finding.level for finding in all_found("openai:gpt-5.5,groq:m", tmp_path)] == ["error", "error"]


def test_what_is_no_such_server(address: str, tmp_path: Path) -> None:
    finding = found(f"llamacpp:small?base_url={address}/elsewhere", tmp_path)
    assert (finding.level, "llama-server" in finding.fix) == ("warning", True)
    assert listed_models("http://192.0.2.1/v1") is None
