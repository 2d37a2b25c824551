"""The index of a large catalogue on disk: read back the same, never trusted when damaged."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent.search import ToolIndex
from mcpagent.tool_search.catalog import Catalog, Listing
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.tables import each_row

VERBS = ("get", "list", "create", "delete", "search", "send", "update", "convert", "move", "copy")
THINGS = ("file", "issue", "message", "event", "user", "invoice", "image", "table", "forecast", "branch", "ticket")
QUERIES = (
    "move the image",
    "createIssue",
    "lst the brnches",
    "invoice|ticket",
    "update user 2 and then send a message",
)


def tools_of(server: str) -> list[ToolDefinition]:
    return [
        ToolDefinition(f"{server}_{verb}_{thing}", f"{verb} one {thing}", {}, server, f"{verb}_{thing}")
        for verb in VERBS
        for thing in THINGS
    ]


SERVERS = ("red", "green", "blue")


def index_in(folder: Path | None, servers: tuple[str, ...] = SERVERS) -> ToolIndex:
    index = ToolIndex("bm25", cache_folder=folder)
    for server in servers:
        index.replace(server, tools_of(server))
    return index


def answers(index: ToolIndex) -> list[list[tuple[str, float]]]:
    return [[(match.tool.name, match.score) for match in index.search(query).matches] for query in QUERIES]


def test_an_index_from_disk_answers_as_a_fresh_one(tmp_path: Path) -> None:
    fresh = answers(index_in(None))
    assert answers(index_in(tmp_path)) == fresh
    assert len(list(tmp_path.glob("index-*.bin"))) == 1
    assert answers(index_in(tmp_path, ("blue", "green", "red"))) == fresh
    assert len(list(tmp_path.glob("index-*.bin"))) == 1


def test_an_index_from_disk_can_change(tmp_path: Path) -> None:
    index_in(tmp_path).search("file")
    index, fresh = index_in(tmp_path), index_in(None)
    for one in (index, fresh):
        one.search("file")
        one.replace("red", [replace(tool, description="something else") for tool in tools_of("red")[:5]])
        one.replace("green", [])
    assert len(index) == len(fresh) == 115
    assert answers(index) == answers(fresh)


@each_row("damage", [b"", b"\xff" * 100, None])
def test_a_damaged_file_is_built_again(tmp_path: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    expected = answers(index_in(tmp_path))
    (path,) = tmp_path.glob("index-*.bin")
    path.write_bytes(path.read_bytes()[:-50] if damage is None else damage)
    with caplog.at_level(logging.DEBUG, logger="mcpagent"):
        assert answers(index_in(tmp_path)) == expected
    assert any(path.name in record.getMessage() for record in caplog.records)


def test_a_catalogue_with_a_cache_folder_keeps_its_index_there(tmp_path: Path) -> None:
    async def run(_arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text("done")

    tools = [Tool(replace(tool, name=tool.original_name), run) for server in SERVERS for tool in tools_of(server)]
    search = ToolSearch(strategy="bm25", cache_folder=tmp_path)
    first = Catalog(Listing(tuple(tools)), search).index.search("move the image").names
    (path,) = tmp_path.glob("index-*.bin")
    written = path.stat().st_mtime_ns
    assert Catalog(Listing(tuple(tools)), search).index.search("move the image").names == first
    assert path.stat().st_mtime_ns == written


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert answers(index_in(tmp_path / "file")) == answers(index_in(None))


@pytest.mark.slow
def test_old_files_go(tmp_path: Path) -> None:
    for number in range(12):
        index = index_in(tmp_path)
        index.replace("extra", [ToolDefinition(f"extra_{number}", "", {}, "extra")])
        index.search("file")
    assert len(list(tmp_path.glob("*"))) == 8
