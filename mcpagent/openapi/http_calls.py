"""Write the arguments of a call as an HTTP request: parameters in their styles, bodies, forms and files.

Format: OpenAPI 3.1, 4.8.12 to 4.8.15.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes

from mcpagent.history.intake.files import MOST_READ
from mcpagent.openapi.api_documents import origin
from mcpagent.openapi.api_tools import ApiTool, Argument
from mcpagent.openapi.operations import Body, Parameter, is_json
from mcpagent.utilities.filesystem.bounded_files import FileTooLargeError, read_bounded
from mcpagent.utilities.text.safe_text import safe_line

_UNRESERVED = "-._~"
_RESERVED = ":/?@!$'()*,;"
"""Reserved characters that `allowReserved` leaves unescaped; `&`, `=`, `+`, `#` and brackets would end a value."""

_SEPARATORS: Mapping[str, str] = {
    "spaceDelimited": "%20",
    "pipeDelimited": "%7C",
    "tabDelimited": "%09",
}
_MOST_ESCAPES = 4
"""How often a text is unescaped when searching for dot segments of a path: each proxy and server may unescape once."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MEDIA_TYPE = re.compile(r"[\w.+*-]+/[\w.+*-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")


class ArgumentError(Exception):
    """Raised for a value that cannot be written into a request; the message is the reason for the model."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a multipart body; `filename` is None unless the part is a file."""

    name: str
    content: bytes
    media_type: str
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request without credentials; query and cookies are encoded. `parts` form a multipart body."""

    method: str
    url: str
    query: tuple[str, ...]
    headers: Mapping[str, str]
    cookies: tuple[str, ...] = ()
    content: bytes | None = None
    parts: tuple[Part, ...] = ()


def http_call(tool: ApiTool, arguments: Mapping[str, Any]) -> HttpCall:
    """Return the request of a call. Raises `ArgumentError` for an argument that cannot be written into a request."""
    operation = tool.operation
    given = {
        one.name: (one, arguments[one.name])
        for one in tool.arguments
        if one.name in arguments
    }
    path = operation.path
    query: list[str] = []
    headers: dict[str, str] = {"Accept": _accept(operation.accepts)}
    cookies: list[str] = []
    for argument, value in given.values():
        parameter = argument.parameter
        if parameter is None or (value is None and not parameter.required):
            continue
        if parameter.position == "path":
            path = path.replace(f"{{{parameter.name}}}", _in_path(parameter, value))
        elif parameter.position == "query":
            query += _in_query(parameter, value)
        elif parameter.position == "header":
            headers[parameter.name] = _in_header(parameter, value)
        else:
            cookies += _in_query(parameter, value)
    if missing := re.search(r"\{([^{}]+)\}", path):
        raise ArgumentError(f'"{safe_line(missing[1], 60)}" is required')
    path, _, fixed = path.partition("#")[0].partition("?")
    url = operation.server + quote(path, safe="/%:@!$&'()*+,;=-._~")
    if origin(url) != origin(operation.server):
        raise ArgumentError("the path leads elsewhere")
    content, media_type = None, ""
    parts: tuple[Part, ...] = ()
    if operation.body is not None:
        content, media_type, parts = _body(operation.body, given, tool.arguments)
    if media_type:
        headers["Content-Type"] = media_type
    return HttpCall(
        operation.method,
        url,
        tuple(filter(None, [fixed, *query])),
        headers,
        cookies=tuple(cookies),
        content=content,
        parts=parts,
    )


def legal_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers unchanged. Raises `ArgumentError` for an invalid name or value, since both come from
    documents.
    """
    for name, value in headers.items():
        if not (_TOKEN.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise ArgumentError(
                f'"{safe_line(name, 60)}" cannot be a header with this value'
            )
    return headers


def _accept(types: tuple[str, ...]) -> str:
    known = [name for name in types if is_json(name)] or list(types[:3])
    if known:
        return f"{', '.join(known)}, */*;q=0.1"
    return "application/json, */*;q=0.1"


# --- values ---


def _text(value: Any) -> str:
    """Return one value as text; lists and objects as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value)


def _quoted(text: str, *, reserved: bool = False) -> str:
    try:
        return quote(text, safe=_UNRESERVED + _RESERVED if reserved else _UNRESERVED)
    except UnicodeEncodeError:
        raise ArgumentError("a text is not valid Unicode") from None


def _flat(value: Any) -> list[str]:
    """Return a value as texts: the items of a list, the alternating names and values of an object, or a single text."""
    if isinstance(value, Mapping):
        return [text for key, one in value.items() for text in (str(key), _text(one))]
    if isinstance(value, list):
        return list(map(_text, value))
    return [_text(value)]


def _in_path(parameter: Parameter, value: Any) -> str:
    def write(text: str) -> str:
        return _quoted(text, reserved=parameter.allow_reserved).replace("?", "%3F")

    if parameter.media_type:
        value = json.dumps(value)
    mark, named = "", ""
    if parameter.style == "label":
        mark = "."
    elif parameter.style == "matrix":
        mark, named = ";", f"{_quoted(parameter.name)}="
    if parameter.explode and isinstance(value, Mapping):
        parts = [f"{write(str(key))}={write(_text(one))}" for key, one in value.items()]
        text = (mark or ",").join(parts)
    elif parameter.explode and isinstance(value, list):
        text = (mark or ",").join(named + write(one) for one in _flat(value))
    else:
        text = named + ",".join(map(write, _flat(value)))
    # Servers resolve a segment of dots against the path before it, some even after an escaped slash.
    decoded = text
    for _ in range(_MOST_ESCAPES):
        decoded = unquote(decoded)
    segments = re.split(r"[/\\]", decoded)
    if not text or not {".", ".."}.isdisjoint(segments):
        raise ArgumentError(
            f'"{safe_line(parameter.name, 60)}" must not be empty, nor have "." or ".." as a step of a path'
        )
    return (mark + text).replace("{", "%7B").replace("}", "%7D")


def _in_query(parameter: Parameter, value: Any) -> Iterator[str]:
    """Yield the `name=value` pairs of a parameter in a query, or in cookies."""

    def write(text: str) -> str:
        return _quoted(text, reserved=parameter.allow_reserved)

    is_joined = isinstance(value, Mapping | list) and not parameter.explode
    if is_joined and not parameter.media_type and parameter.style != "deepObject":
        joint = _SEPARATORS.get(parameter.style, ",")
        yield f"{_quoted(parameter.name)}={joint.join(map(write, _flat(value)))}"
        return
    for name, text in _pairs(parameter, value):
        yield f"{_quoted(name)}={write(text)}"


def _pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    name = parameter.name
    if parameter.media_type:
        return [(name, json.dumps(value))]
    if parameter.style == "deepObject":
        return list(_deep(name, value))
    if isinstance(value, Mapping):
        return [(str(key), _text(one)) for key, one in value.items() if one is not None]
    return [(name, text) for text in _flat(value)]


def _deep(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _deep(f"{name}[{key}]", one)
    elif isinstance(value, list):
        for one in value:
            yield from _deep(name, one)
    elif value is not None:
        yield name, _text(value)


def _in_header(parameter: Parameter, value: Any) -> str:
    if parameter.media_type:
        value = json.dumps(value)
    texts = _flat(value)
    if parameter.explode and isinstance(value, Mapping):
        texts = [f"{key}={_text(one)}" for key, one in value.items()]
    text = ",".join(texts)
    if not _HEADER_VALUE.fullmatch(text):
        raise ArgumentError(
            f'"{safe_line(parameter.name, 60)}" has characters that a header cannot have'
        )
    return text


# --- bodies ---


def _body(
    body: Body,
    given: Mapping[str, tuple[Argument, Any]],
    arguments: tuple[Argument, ...],
) -> tuple[bytes | None, str, tuple[Part, ...]]:
    """Return content, media type and parts of a body; content is None for an optional body without arguments."""
    fields = {
        one.field: value for one, value in given.values() if one.field is not None
    }
    whole = [
        value
        for one, value in given.values()
        if one.parameter is None and one.field is None
    ]
    is_flat = any(one.field is not None for one in arguments)
    if not fields and not whole and not (body.required and is_flat):
        return None, "", ()
    value = whole[0] if whole else fields
    if is_json(body.media_type):
        return json.dumps(value).encode(), _sent_type(body.media_type), ()
    if body.media_type.startswith("application/x-www-form-urlencoded"):
        return "&".join(_form(body, _object(value))).encode(), body.media_type, ()
    if body.media_type.startswith("multipart/"):
        return None, "", tuple(_parts(body, _object(value)))
    text = value if isinstance(value, str) else json.dumps(value)
    if body.media_type.startswith("text/"):
        content = text.encode("utf-8", "replace")
    else:
        content, _ = file_content(text)
    return content, _sent_type(body.media_type), ()


def _sent_type(media_type: str) -> str:
    """Return the media type to send for one that may be a range, such as `text/*`."""
    if "*" in media_type and is_json(media_type):
        return "application/json"
    if "*" in media_type:
        return (
            "text/plain; charset=utf-8"
            if media_type.startswith("text/")
            else "application/octet-stream"
        )
    return media_type


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(
            "the body must be an object, for its fields become those of a form"
        )
    return value


def _form(body: Body, fields: Mapping[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        encoding = body.encoding.get(name)
        encoding = encoding if isinstance(encoding, Mapping) else {}
        style = str(encoding.get("style") or "form")
        is_nested = isinstance(value, Mapping) and "style" not in encoding
        parameter = Parameter(
            name,
            "query",
            body.schema,
            False,
            style=style,
            explode=encoding.get("explode", style in ("form", "deepObject")) is True,
            media_type="application/json" if is_nested else "",
        )
        yield from _in_query(parameter, value)


def _parts(body: Body, fields: Mapping[str, Any]) -> Iterator[Part]:
    properties = (
        body.schema.value.get("properties")
        if isinstance(body.schema.value, Mapping)
        else None
    )
    for name, value in fields.items():
        encoding = body.encoding.get(name)
        named = (
            str(encoding.get("contentType") or "")
            if isinstance(encoding, Mapping)
            else ""
        )
        if not _HEADER_VALUE.fullmatch(named):
            raise ArgumentError(f'"{safe_line(name, 60)}" has no usable content type')
        schema = properties.get(name) if isinstance(properties, Mapping) else None
        for one in value if isinstance(value, list) else [value]:
            yield _part(name, one, named.partition(",")[0], schema)


def _part(name: str, value: Any, named: str, schema: Any) -> Part:
    items = schema.get("items") if isinstance(schema, Mapping) else None
    kinds = [one for one in (schema, items) if isinstance(one, Mapping)]
    is_file = any(
        one.get("format") == "binary" or one.get("type") == "file" for one in kinds
    )
    if isinstance(value, str) and (is_file or value.startswith("data:")):
        content, media_type = file_content(value)
        media_type = (
            media_type or ("" if "*" in named else named) or "application/octet-stream"
        )
        filename = f"{name}{mimetypes.guess_extension(media_type) or ''}"
        if value.startswith("file:"):
            filename = Path(value.removeprefix("file:")).name
        return Part(name, content, media_type, filename)
    if isinstance(value, Mapping):
        return Part(name, json.dumps(value).encode(), named or "application/json")
    return Part(name, _text(value).encode("utf-8", "replace"), named or "text/plain")


def file_content(text: str) -> tuple[bytes, str]:
    """Return the bytes and the media type of a `data:` URI or a `file:` path; otherwise of the text itself, with type
    "".
    """
    if text.startswith("file:"):
        return _working_file(text.removeprefix("file:"))
    head, comma, data = text.partition(",")
    if not comma or not head.startswith("data:"):
        return text.encode("utf-8", "replace"), ""
    media_type = head.removeprefix("data:").partition(";")[0]
    if not _MEDIA_TYPE.fullmatch(media_type):
        media_type = ""
    if not head.endswith(";base64"):
        return unquote_to_bytes(data), media_type
    try:
        return base64.b64decode(data, validate=True), media_type
    except binascii.Error:
        raise ArgumentError("a data: URI is not valid Base64") from None


def _working_file(path: str) -> tuple[bytes, str]:
    """Return a file of the working folder, within the size limits of attachments. Hidden files are refused, because
    they may contain keys.
    """
    shown = safe_line(path, 100)
    folder = Path.cwd().resolve()
    try:
        real = (folder / path).resolve()
        within = real.relative_to(folder).parts
        if any(step.startswith(".") for step in within):
            raise ArgumentError(f'"{shown}" is a hidden file, which is not sent')
        content = read_bounded(real, MOST_READ)
    except FileTooLargeError as error:
        raise ArgumentError(f'"{shown}" is {error.strerror}') from None
    except (OSError, ValueError, RuntimeError):
        raise ArgumentError(
            f'there is no file "{shown}" in the working folder'
        ) from None
    return content, mimetypes.guess_type(real.name)[0] or ""
