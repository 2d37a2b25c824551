"""Category lines of real servers: what they say, what they take, and whether they lead to the right server.

    python benchmarks/search_categories.py FOLDER ... [--lines]

FOLDER holds what MCP servers answer to `tools/list`, as for `search_probes.py`. The requests of
`data/category_requests.json` are searched by words over the lines alone, one document a server. Prints how many find a
right server among the first three, and the tokens of the lines; with `--lines` the lines.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_probes import load_tools
from mcpagent.prompt.builder import category_lines, line_tokens
from mcpagent.search import ToolIndex
from mcpagent.tool_search.category_words import characteristic_words, own_words
from mcpagent.values.messages import ToolDefinition

AMONG = 3
_REQUESTS = Path(__file__).parent / "data" / "category_requests.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--lines", action="store_true", help="print the lines")
    parser.add_argument(
        "--misses", action="store_true", help="print the requests that miss"
    )
    options = parser.parse_args()
    lines = lines_of(options.folders)
    if options.lines:
        print("\n".join(lines.values()), end="\n\n")
    requests = json.loads(_REQUESTS.read_text("utf-8"))["requests"]
    missed = [
        row
        for row in requests
        if not set(row["servers"]).intersection(found_by(lines, row["request"]))
    ]
    if options.misses:
        for row in missed:
            print(
                row["request"],
                "|",
                *row["servers"],
                "| found",
                *found_by(lines, row["request"]),
            )
    tokens = [line_tokens(line) for line in lines.values()]
    print(
        f"{len(lines)} servers, {max(tokens)} tokens a line at most, {sum(tokens)} in all; a right server among "
        f"{AMONG} for {len(requests) - len(missed)} of {len(requests)} requests"
    )


def lines_of(folders: list[Path]) -> dict[str, str]:
    """Return the category line of each server, by its name."""
    about: list[tuple[str, str, int]] = []
    for folder in folders:
        said = {
            data["server"]: data for data in map(_read, sorted(folder.glob("*.json")))
        }
        tools: dict[str | None, list[ToolDefinition]] = {}
        for tool in load_tools(folder):
            tools.setdefault(tool.server, []).append(tool)
        for server, theirs in tools.items():
            name = str(server)
            data = said.get(name, {})
            title = str(
                data.get("serverInfo", {}).get("title")
                or data.get("serverInfo", {}).get("name")
                or ""
            )
            own = own_words(name, theirs, title, str(data.get("instructions") or ""))
            about.append((name, own or characteristic_words(name, theirs), len(theirs)))
    about.sort()
    return dict(zip((name for name, _, _ in about), category_lines(about), strict=True))


def found_by(lines: dict[str, str], request: str) -> tuple[str, ...]:
    """Return the first three servers by the words of their lines."""
    index = ToolIndex("bm25", min_strength=0, examples=lambda _: ())
    index.replace(
        None, [ToolDefinition(name, line, {}) for name, line in lines.items()]
    )
    return index.search(request, AMONG).names


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_bytes())
    return data


if __name__ == "__main__":
    main()
