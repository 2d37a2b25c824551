"""What each search finds of GitHub's REST API: 40 requests of everyday words over its 1,222 operations.

    npm pack @octokit/openapi && tar xzf octokit-openapi-*.tgz
    python benchmarks/search_github.py package/generated/api.github.com.json
    python benchmarks/search_github.py FILE --misses

The requests of `data/github_requests.json` were written before any search saw them; each names the operations that do
what it asks. The operations are the tools that `openapi_toolset` makes of them. Prints for each search how many
requests have one of their operations among the first five, and first. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_data import Row
from benchmarks.search_systems import OURS, PEER_MODULES, PEERS
from mcpagent.openapi.api_documents import load_document
from mcpagent.openapi.api_tools import all_api_tools
from mcpagent.openapi.operations import read_api

REQUESTS = Path(__file__).parent / "data" / "github_requests.json"
SERVER = "github"


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, Row]]:
    """Yield the ID of each operation, and the operation as a tool."""
    loaded = load_document(document)
    for tool in all_api_tools(loaded, read_api(loaded)):
        yield (
            tool.operation.operation_id,
            {
                "name": f"{SERVER}__{tool.name}",
                "server": SERVER,
                "title": tool.title,
                "description": tool.description,
                "input_schema": tool.schema,
                "category": tool.category,
                "tags": tool.words,
            },
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("document", type=Path)
    parser.add_argument("--misses", action="store_true")
    arguments = parser.parse_args()
    document = json.loads(arguments.document.read_text("utf-8"))
    by_id = dict(operations(document))
    catalog = list(by_id.values())
    requests = json.loads(REQUESTS.read_text("utf-8"))
    print(f"{len(catalog)} operations, {len(requests)} requests")
    print("| search | among five | first |\n| --- | --- | --- |")
    for name, factory in {**OURS, **PEERS}.items():
        module = next(
            (one for one in PEER_MODULES if one in name.replace("-", "_")), ""
        )
        if module and find_spec(module) is None:
            continue
        search = factory(catalog)
        among, first, missed = 0, 0, list[str]()
        for request in requests:
            wanted = {
                by_id[one]["name"] for one in request["operations"] if one in by_id
            }
            found = search(request["request"], 5)
            among += not wanted.isdisjoint(found)
            first += found[:1] != [] and found[0] in wanted
            if wanted.isdisjoint(found):
                missed.append(f"  {request['request']}: {', '.join(found)}")
        print(f"| {name} | {among} | {first} |", flush=True)
        if arguments.misses:
            print("\n".join(missed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
