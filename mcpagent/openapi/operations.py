"""The operations of a document of Swagger 2.0 or OpenAPI 3.x, in one format."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import urljoin

from mcpagent.openapi.api_documents import (
    ApiDocument,
    DocumentError,
    Node,
    Origin,
    is_url,
    origin,
)
from mcpagent.utilities.text.safe_text import safe_line

MAX_OPERATIONS = 10_000
"""Maximum number of operations, equal to the number of tools that a server may list."""

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
Position: TypeAlias = Literal["path", "query", "header", "cookie"]

_NO_PARAMETERS = frozenset(
    {
        "accept",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "proxy-authorization",
        "transfer-encoding",
    }
)
"""Headers that a parameter cannot set: other parts of the document describe them, or they belong to HTTP itself."""

_COLLECTIONS: Mapping[str, tuple[str, bool]] = {
    "csv": ("", False),
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}
"""`collectionFormat` of Swagger 2.0 -> style and explode ("": the usual style of the position)."""

_STYLES: Mapping[Position, str] = {
    "path": "simple",
    "header": "simple",
    "query": "form",
    "cookie": "form",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operation. With a `media_type`, its value is written in that type, otherwise in `style`."""

    name: str
    position: Position
    schema: Node
    required: bool
    description: str = ""
    style: str = "simple"
    explode: bool = False
    allow_reserved: bool = False
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request; for forms, `encoding` has the encoding of each property."""

    media_type: str
    schema: Node
    required: bool
    description: str = ""
    encoding: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation. `security` lists alternatives, each with the names of the schemes that it needs together; None:
    unknown.

    `accepts` are the media types of successful responses; `response` is the schema of the JSON response, or None.
    """

    method: str
    path: str
    server: str
    operation_id: str = ""
    summary: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    deprecated: bool = False
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    accepts: tuple[str, ...] = ()
    response: Node | None = None
    security: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Api:
    """The operations of a document. `left_out` has a line for each unusable operation."""

    title: str
    description: str
    base_url: str
    operations: tuple[Operation, ...]
    schemes: Mapping[str, Mapping[str, Any]]
    left_out: tuple[str, ...] = ()


def read_api(
    document: ApiDocument, base_url: str = "", origins: Collection[str] = ()
) -> Api:
    """Return the operations of a document; requests go to `base_url`, or else to the server that the document names.

    Operations that name a server at one of the further `origins` use that server. Raises `DocumentError` for an unknown
    version, or if no server is known.
    """
    root = document.root
    is_old = str(root.get("swagger", "")).startswith("2")
    if not is_old and not str(root.get("openapi", "")).startswith("3."):
        version = safe_line(str(root.get("openapi") or root.get("swagger")), 20)
        raise DocumentError(
            f"has the version {version}; Swagger 2.0 and OpenAPI 3.0 to 3.2 can be read"
        )
    base = base_url or _named_server(document, is_old=is_old)
    allowed = frozenset(map(origin, (base, *origins)))
    reader = _OperationReader(document, base.rstrip("/"), is_old, allowed)
    operations: list[Operation] = []
    left_out: list[str] = []
    for path, method, place, shared in _listed(document, left_out):
        if len(operations) == MAX_OPERATIONS:
            left_out.append(f"only the first {MAX_OPERATIONS:,} operations are used")
            break
        try:
            operations.append(reader.operation(path, method, place, shared))
        except DocumentError as error:
            left_out.append(f"{method.upper()} {safe_line(path, 80)}: {error}")
    info = _mapping(root.get("info"))
    return Api(
        _text(info.get("title")),
        _text(info.get("description")),
        reader.base,
        tuple(operations),
        _schemes(document, is_old=is_old),
        tuple(left_out),
    )


def _listed(
    document: ApiDocument, left_out: list[str]
) -> Iterator[tuple[str, str, Node, Node]]:
    """Yield path, method and place of each operation, and the place of the path's common parameters."""
    for path, item in document.root["paths"].items():
        if not str(path).startswith("/"):
            continue
        try:
            place = document.resolved(Node(item, document.address))
        except DocumentError as error:
            left_out.append(f"{safe_line(str(path), 80)}: {error}")
            continue
        for method in METHODS:
            operation = place.part(method)
            if isinstance(operation.value, Mapping):
                yield str(path), method, operation, place


def _named_server(document: ApiDocument, *, is_old: bool) -> str:
    """Return the server address that the document names. Raises `DocumentError` if it names no safe one."""
    servers = document.root.get("servers")
    found = ""
    if is_old:
        found = _old_server(document)
    elif isinstance(servers, list) and servers:
        found = _address(servers[0])
    elif is_url(document.address):
        found = "/"
    if is_url(document.address):
        found = urljoin(document.address, found)
        if origin(found) != origin(document.address):
            raise DocumentError(
                f'sends requests elsewhere, to {safe_line(found, 120)}; set "url" to that if you trust it'
            )
    if not is_url(found):
        raise DocumentError(
            'names no server with an address; set "url" to the address of the API'
        )
    return found


def _old_server(document: ApiDocument) -> str:
    root = document.root
    host, path = _text(root.get("host")), _text(root.get("basePath"))
    schemes = root.get("schemes")
    named = (
        [scheme for scheme in schemes if scheme in ("https", "http")]
        if isinstance(schemes, list)
        else []
    )
    if not host:
        return path or "/"
    if "https" in named or not named:
        return f"https://{host}{path}"
    return f"http://{host}{path}"


def _address(server: Any) -> str:
    """Return the address of a server, with its variables replaced by their defaults."""
    url = _text(_mapping(server).get("url"))
    for name, variable in _mapping(_mapping(server).get("variables")).items():
        url = url.replace(f"{{{name}}}", str(_mapping(variable).get("default", "")))
    return url


def _schemes(document: ApiDocument, *, is_old: bool) -> dict[str, Mapping[str, Any]]:
    if is_old:
        place = Node(document.root.get("securityDefinitions"), document.address)
    else:
        place = Node(document.root.get("components"), document.address).part(
            "securitySchemes"
        )
    found: dict[str, Mapping[str, Any]] = {}
    for name in _mapping(place.value):
        try:
            found[str(name)] = _mapping(document.resolved(place.part(name)).value)
        except DocumentError:
            continue
    return found


@dataclass(frozen=True, slots=True)
class _OperationReader:
    document: ApiDocument
    base: str
    is_old: bool
    allowed: frozenset[Origin]

    def operation(self, path: str, method: str, place: Node, item: Node) -> Operation:
        """Return one operation. Raises `DocumentError` if it cannot be called."""
        value = place.value
        given = [*self._listed(item), *self._listed(place)]
        parameters = {
            (one.name, one.position): one
            for one in filter(None, map(self._parameter, given))
        }
        body = self._old_body(given, value) if self.is_old else self._body(place)
        accepts, response = self._response(place)
        return Operation(
            method.upper(),
            path,
            self._server(place, item),
            operation_id=_text(value.get("operationId")),
            summary=_text(value.get("summary")),
            description=_text(value.get("description")),
            tags=tuple(_texts(value.get("tags"))),
            deprecated=value.get("deprecated") is True,
            parameters=tuple(self._with_path(path, parameters)),
            body=body,
            accepts=accepts,
            response=response,
            security=self._security(value),
        )

    def _server(self, *places: Node) -> str:
        for place in places:
            servers = _mapping(place.value).get("servers")
            if isinstance(servers, list) and servers:
                address = urljoin(f"{self.base}/", _address(servers[0]))
                if origin(address) not in self.allowed:
                    raise DocumentError(
                        f"its requests go elsewhere, to {safe_line(address, 120)}"
                    )
                return address.rstrip("/")
        return self.base

    def _listed(self, place: Node) -> list[Node]:
        parameters = _mapping(place.value).get("parameters")
        if not isinstance(parameters, list):
            return []
        return [self.document.resolved(Node(one, place.file)) for one in parameters]

    def _parameter(self, place: Node) -> Parameter | None:
        value = _mapping(place.value)
        name, position = value.get("name"), _position(value.get("in"))
        if not isinstance(name, str) or position is None:
            return None
        if position == "header" and name.lower() in _NO_PARAMETERS:
            return None
        style, media_type = _STYLES[position], ""
        schema = place.part("schema")
        if self.is_old:
            schema = place
            named, explode = _COLLECTIONS.get(
                _text(value.get("collectionFormat")), ("", False)
            )
            style = named or style
        else:
            style = _text(value.get("style")) or style
            explode = value.get("explode", style == "form") is True
            content = _mapping(value.get("content"))
            if content and schema.value is None:
                media_type = str(next(iter(content)))
                schema = place.part("content").part(media_type).part("schema")
        return Parameter(
            name,
            position,
            schema,
            position == "path" or value.get("required") is True,
            description=_text(value.get("description")),
            style=style,
            explode=explode,
            allow_reserved=(position == "query" and value.get("allowReserved") is True)
            or (position == "path" and value.get("x-multi-segment") is True),
            media_type=media_type,
        )

    def _with_path(
        self, path: str, parameters: Mapping[tuple[str, Position], Parameter]
    ) -> Iterator[Parameter]:
        """Yield the parameters, with exactly those path parameters that occur in the path."""
        names = path_names(path)
        for name in names:
            unknown = Parameter(
                name, "path", Node({"type": "string"}, self.document.address), True
            )
            yield parameters.get((name, "path"), unknown)
        for (_, position), parameter in parameters.items():
            if position != "path":
                yield parameter

    def _body(self, place: Node) -> Body | None:
        body = self.document.resolved(place.part("requestBody"))
        content = _mapping(_mapping(body.value).get("content"))
        if not content:
            return None
        name = chosen_type([str(name) for name in content])
        media = self.document.resolved(body.part("content").part(name))
        return Body(
            name,
            media.part("schema"),
            body.value.get("required") is True,
            _text(body.value.get("description")),
            _mapping(_mapping(media.value).get("encoding")),
        )

    def _old_body(self, given: list[Node], value: Mapping[str, Any]) -> Body | None:
        """Return the body of an operation of Swagger 2.0, which consists of its parameters in "body" or "formData"."""
        consumes = _texts(value.get("consumes")) or _texts(
            self.document.root.get("consumes")
        )
        fields: dict[str, Any] = {}
        file = self.document.address
        for place in given:
            one = _mapping(place.value)
            if one.get("in") == "body":
                media_type = chosen_type(consumes or ["application/json"])
                return Body(
                    media_type,
                    place.part("schema"),
                    one.get("required") is True,
                    _text(one.get("description")),
                )
            if one.get("in") == "formData" and isinstance(one.get("name"), str):
                fields[one["name"]], file = one, place.file
        if not fields:
            return None
        has_file = any(one.get("type") == "file" for one in fields.values())
        is_form = not has_file and "multipart/form-data" not in consumes
        required = [name for name, one in fields.items() if one.get("required") is True]
        bare = {
            name: {key: rule for key, rule in one.items() if key != "required"}
            for name, one in fields.items()
        }
        encoding = {
            name: _old_encoding(one)
            for name, one in fields.items()
            if one.get("type") == "array"
        }
        schema = {"type": "object", "properties": bare, "required": required}
        media_type = (
            "application/x-www-form-urlencoded" if is_form else "multipart/form-data"
        )
        return Body(media_type, Node(schema, file), bool(required), encoding=encoding)

    def _response(self, place: Node) -> tuple[tuple[str, ...], Node | None]:
        """Return the media types of the first successful response, and the schema of its JSON, or None."""
        responses = _mapping(place.value.get("responses"))
        for status in sorted(
            str(key) for key in responses if str(key).startswith("2")
        ) or ["default"]:
            try:
                found = self.document.resolved(place.part("responses").part(status))
            except DocumentError:
                continue
            if self.is_old:
                produces = _texts(place.value.get("produces")) or _texts(
                    self.document.root.get("produces")
                )
                return tuple(produces), found.part("schema") if _mapping(
                    found.value
                ).get("schema") else None
            content = found.part("content")
            types = tuple(str(name) for name in _mapping(content.value))
            schema = next(
                (content.part(name).part("schema") for name in types if is_json(name)),
                None,
            )
            if types:
                return types, schema
        return (), None

    def _security(self, value: Mapping[str, Any]) -> tuple[tuple[str, ...], ...] | None:
        given = value.get("security", self.document.root.get("security"))
        if not isinstance(given, list):
            return None
        return tuple(tuple(map(str, one)) for one in given if isinstance(one, Mapping))


def _position(value: Any) -> Position | None:
    for position in get_args(Position):
        if value == position:
            found: Position = position
            return found
    return None


def _old_encoding(parameter: Mapping[str, Any]) -> dict[str, Any]:
    style, explode = _COLLECTIONS.get(
        _text(parameter.get("collectionFormat")), ("", False)
    )
    return {"style": style or "form", "explode": explode}


def path_names(path: str) -> list[str]:
    """Return the names between braces in a path, each once."""
    pieces = path.split("{")[1:]
    return list(
        dict.fromkeys(piece.partition("}")[0] for piece in pieces if "}" in piece)
    )


def is_json(media_type: str) -> bool:
    """Return whether the media type is JSON, or a range that includes JSON."""
    name = media_type.partition(";")[0].strip().lower()
    return name in (
        "application/json",
        "*/*",
        "application/*",
        "text/json",
    ) or name.endswith("+json")


def chosen_type(types: list[str]) -> str:
    """Return the media type to send: JSON, else a form, else text, else the first; a range only if all are ranges."""
    concrete = [name for name in types if "*" not in name] or types
    kinds = (is_json, _is_form, _is_multipart, _is_text)
    fitting = [name for fits in kinds for name in concrete if fits(name)]
    return [*fitting, *concrete][0]


def _is_form(media_type: str) -> bool:
    return media_type.startswith("application/x-www-form-urlencoded")


def _is_multipart(media_type: str) -> bool:
    return media_type.startswith("multipart/")


def _is_text(media_type: str) -> bool:
    return media_type.startswith("text/")


def _mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return {}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [one for one in value if isinstance(one, str)]
    return []
