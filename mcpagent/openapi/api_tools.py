"""Operations as tools: a unique name, a short description, one flat schema, and the place of each argument in the
request.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcpagent.openapi.api_documents import ApiDocument, DocumentError, Node
from mcpagent.openapi.api_schemas import SchemaConverter, cut_at_sentence
from mcpagent.openapi.operations import (
    Api,
    Body,
    Operation,
    Parameter,
    is_json,
    path_names,
)

MAX_NAME = 64
_DESCRIPTION_CHARACTERS = 800
_SHARED_BY = 10
"""Number of operations that share a sentence from which it counts as uninformative and is omitted."""

_OUTPUT_CHARACTERS, _OUTPUT_NODES = 2_000, 100
"""Limits of the schema of results. Larger ones are omitted: the result schemas of GitHub would be most of its tool
list.
"""

_MOST_FLAT = 120
"""Maximum number of properties of a body that become separate arguments; a body with more becomes a single argument."""

_DEEPEST_ALL_OF = 8
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})
"""Methods without side effects (RFC 9110, 9.2.1)."""

REPEATABLE = SAFE | {"PUT", "DELETE"}
"""Methods that can be repeated without a further effect (RFC 9110, 9.2.2)."""

_FILE_HINT = "The text of the file, a data: URI with Base64, or file:PATH for a file in the working folder."
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_LINK = re.compile(r"!?\[([^\[\]]{0,200})\]\([^()\s]{0,500}\)")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: a parameter, or the property `field` of the body, or, if both are None, the whole body."""

    name: str
    parameter: Parameter | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True)
class ApiTool:
    """An operation as a tool. `words` are additional search words: its tags, and the words of its path.

    `wraps` is True if the API returns a list, which the tool returns as an object with the list under "items".
    """

    name: str
    operation: Operation
    title: str
    description: str
    schema: dict[str, Any]
    arguments: tuple[Argument, ...]
    output_schema: dict[str, Any] | None = None
    wraps: bool = False
    category: str = ""
    words: tuple[str, ...] = ()

    def listed(self) -> dict[str, Any]:
        """Return the tool as an MCP server lists it."""
        method = self.operation.method
        annotations = {
            "readOnlyHint": method in SAFE,
            "destructiveHint": method == "DELETE",
            "idempotentHint": method in REPEATABLE,
        }
        found = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": annotations,
            "_meta": {
                "mcpagent/category": self.category,
                "mcpagent/tags": list(self.words),
            },
        }
        if self.output_schema is not None:
            found["outputSchema"] = self.output_schema
        return found


def all_api_tools(document: ApiDocument, api: Api) -> list[ApiTool]:
    """Return the operations of a document as tools, in its order."""
    maker = _ToolMaker(
        document,
        SchemaConverter(document, "request"),
        SchemaConverter(document, "response", most_nodes=_OUTPUT_NODES),
        shared_sentences(api.operations),
    )
    names = unique_names(api.operations)
    return [
        maker.tool(name, operation)
        for name, operation in zip(names, api.operations, strict=True)
    ]


def unique_names(operations: Sequence[Operation]) -> list[str]:
    """Return a unique name for each operation, which depends only on its ID, method and path, and on duplicate IDs."""
    ids = [_legal(operation.operation_id) for operation in operations]
    counts = Counter(name.lower() for name in ids)
    names = [
        name if name and counts[name.lower()] == 1 else name_of_path(operation)
        for name, operation in zip(ids, operations, strict=True)
    ]
    counts = Counter(name.lower() for name in names)
    return [
        _fitting(name, operation, is_unique=counts[name.lower()] == 1)
        for name, operation in zip(names, operations, strict=True)
    ]


def name_of_path(operation: Operation) -> str:
    """Return a name from method and path, such as `get_repos_owner_repo`."""
    return _legal(f"{operation.method.lower()}_{operation.path}")


def _legal(text: str) -> str:
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", text)).strip("_-")


def _fitting(name: str, operation: Operation, *, is_unique: bool) -> str:
    if is_unique and len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(
        f"{operation.method} {operation.path}".encode("utf-8", "surrogatepass")
    ).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9].rstrip('_-')}_{digest}"


def plain_text(text: str) -> str:
    """Return a description without HTML tags and without the addresses of links."""
    return _LINK.sub(r"\1", _TAG.sub("", text)).strip()


@dataclass(frozen=True, slots=True)
class _ToolMaker:
    document: ApiDocument
    requests: SchemaConverter
    responses: SchemaConverter
    shared: frozenset[str]

    def tool(self, name: str, operation: Operation) -> ApiTool:
        schema, arguments = self._arguments(operation)
        output, wraps = self._output(operation)
        # The user agrees to the address, too: the document may name another one at the next start.
        summary = cut_at_sentence(plain_text(operation.summary), 200)
        title = f"{summary} ({operation.server[:200]})".strip()
        category = operation.tags[0] if operation.tags else ""
        return ApiTool(
            name,
            operation,
            title,
            _description(operation, self.shared),
            schema,
            arguments,
            output_schema=output,
            wraps=wraps,
            category=category,
            words=_words(operation),
        )

    def _arguments(
        self, operation: Operation
    ) -> tuple[dict[str, Any], tuple[Argument, ...]]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        arguments: list[Argument] = []

        def add(argument: Argument, schema: dict[str, Any], *, needed: bool) -> None:
            properties[argument.name] = schema
            arguments.append(argument)
            if needed:
                required.append(argument.name)

        for parameter in operation.parameters:
            add(
                Argument(_free_name(parameter, properties), parameter),
                self._of_parameter(parameter),
                needed=parameter.required,
            )
        body = operation.body
        if body is not None:
            flat = self._flat(body, properties)
            if flat is None:
                name = "body" if "body" not in properties else "request_body"
                add(Argument(name), self._of_body(body), needed=body.required)
            else:
                # A required field makes the body required, even if the document calls the body optional.
                for name, (place, needed) in flat.items():
                    add(
                        Argument(_legal_argument(name), field=name),
                        self._of_field(body, place),
                        needed=needed,
                    )
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return self.requests.whole(schema), tuple(arguments)

    def _of_parameter(self, parameter: Parameter) -> dict[str, Any]:
        schema = self.requests.converted(parameter.schema)
        schema.pop("required", None)
        return _described(schema, parameter.description)

    def _of_body(self, body: Body) -> dict[str, Any]:
        schema = self.requests.converted(body.schema)
        if not is_json(body.media_type) and not _is_form(body):
            hint = f"The content, as {body.media_type}. {'' if body.media_type.startswith('text/') else _FILE_HINT}"
            return _described({"type": "string"}, f"{body.description} {hint}".strip())
        if _is_form(body) and schema.get("type") != "object":
            # The schema's properties become form fields, even if the document declares no object.
            is_open = "type" not in schema
            schema = {**(schema if is_open else {}), "type": "object"}
        return _described(schema, body.description)

    def _of_field(self, body: Body, place: Node) -> dict[str, Any]:
        schema = self.requests.converted(place)
        if _is_form(body) and schema.get("format") == "binary":
            schema["description"] = (
                f"{schema.get('description', '')} {_FILE_HINT}".strip()
            )
        return schema

    def _flat(
        self, body: Body, taken: Mapping[str, Any]
    ) -> dict[str, tuple[Node, bool]] | None:
        """Return the properties of a body, each with True if it is required; None if they cannot be arguments.

        They cannot if the body is not a plain object, or if a name collides with a parameter or another property.
        """
        if not is_json(body.media_type) and not _is_form(body):
            return None
        found = self._properties(body.schema, 0)
        if not found or len(found) > _MOST_FLAT:
            return None
        names = [_legal_argument(name) for name in found]
        if len(set(names)) < len(names) or not taken.keys().isdisjoint(names):
            return None
        return {
            name: one
            for name, one in found.items()
            if not self.requests.is_hidden(one[0])
        }

    def _properties(
        self, place: Node, depth: int
    ) -> dict[str, tuple[Node, bool]] | None:
        """Return the properties of a plain object, including those in its `allOf`; None for other schemas."""
        try:
            place = self.document.resolved(place)
        except DocumentError:
            return None
        value = place.value
        if (
            not isinstance(value, Mapping)
            or depth > _DEEPEST_ALL_OF
            or _has_choices(value)
        ):
            return None
        if value.get("type", "object") not in ("object", ["object"]) or isinstance(
            value.get("additionalProperties"), Mapping
        ):
            return None
        found: dict[str, tuple[Node, bool]] = {}
        for part in value.get("allOf") or ():
            inner = self._properties(Node(part, place.file), depth + 1)
            if inner is None:
                return None
            found |= inner
        properties = value.get("properties")
        if isinstance(properties, Mapping):
            found |= {
                str(name): (Node(one, place.file), False)
                for name, one in properties.items()
            }
        needed = value.get("required")
        for name in needed if isinstance(needed, list) else ():
            if isinstance(name, str) and name in found:
                found[name] = (found[name][0], True)
        return found

    def _output(self, operation: Operation) -> tuple[dict[str, Any] | None, bool]:
        """Return the schema of results if it describes an object or a list (None otherwise), and True for a list."""
        if operation.response is None:
            return None, False
        try:
            place = self.document.resolved(operation.response)
        except DocumentError:
            return None, False
        schema = self.responses.converted(place)
        wraps = schema.get("type") == "array"
        if wraps:
            schema = {
                "type": "object",
                "properties": {"items": schema},
                "required": ["items"],
            }
        if schema.get("type") != "object" or len(str(schema)) > _OUTPUT_CHARACTERS:
            return None, False
        return self.responses.whole(schema, _OUTPUT_CHARACTERS), wraps


def _has_choices(schema: Mapping[str, Any]) -> bool:
    """Return whether the schema has alternatives. Alternatives that only require properties do not count, since the API
    checks them.
    """
    if "not" in schema:
        return True
    for key in ("oneOf", "anyOf"):
        for part in schema.get(key) or ():
            if not isinstance(part, Mapping) or not part.keys() <= {"required"}:
                return True
    return False


def _is_form(body: Body) -> bool:
    return body.media_type.startswith(
        ("application/x-www-form-urlencoded", "multipart/")
    )


def _described(schema: dict[str, Any], description: str) -> dict[str, Any]:
    text = cut_at_sentence(plain_text(description), 400)
    if text:
        return {**schema, "description": text}
    return schema


def _legal_argument(name: str) -> str:
    """Return the name with only characters that all model APIs accept in an argument's name."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        return name
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:MAX_NAME] or "argument"


def _free_name(parameter: Parameter, taken: Mapping[str, Any]) -> str:
    name = _legal_argument(parameter.name)
    if name not in taken:
        return name
    name = f"{name[:48]}_{parameter.position}"
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def shared_sentences(operations: Sequence[Operation]) -> frozenset[str]:
    """Return the sentences that many descriptions share, such as one about the token that every operation needs."""
    counts = Counter(
        sentence
        for operation in operations
        for sentence in set(_sentences(plain_text(operation.description)))
    )
    return frozenset(text for text, count in counts.items() if count >= _SHARED_BY)


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+|\n+", text)


def _description(operation: Operation, shared: frozenset[str]) -> str:
    summary, rest = plain_text(operation.summary), plain_text(operation.description)
    rest = " ".join(text for text in _sentences(rest) if text not in shared)
    if summary and rest.startswith(summary):
        summary = ""
    text = "\n".join(filter(None, (summary, rest)))
    request = f"{operation.method} {operation.path}"
    if operation.deprecated:
        request = f"Deprecated. {request}"
    return f"{cut_at_sentence(text, _DESCRIPTION_CHARACTERS)}\n{request[:300]}".strip()


def _words(operation: Operation) -> tuple[str, ...]:
    """Return the tags after the first, which is the category, and the fixed words of the path."""
    return tuple(dict.fromkeys([*operation.tags[1:6], *_path_words(operation.path)]))


def _path_words(path: str) -> Iterator[str]:
    for name in path_names(path):
        path = path.replace(f"{{{name}}}", " ")
    yield from re.findall(r"[A-Za-z][A-Za-z0-9-]{1,40}", path)[:20]
