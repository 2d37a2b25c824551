"""Read an OpenAPI or Swagger document, and the files next to it that it refers to, with limits."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, urljoin, urlsplit

from mcpagent.openapi.alternatives import with_alternatives
from mcpagent.utilities.filesystem.bounded_files import FileTooLargeError, read_bounded
from mcpagent.utilities.json_schema.parts import referred
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    import httpx2
    import yaml

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""Maximum size of a document, and of all files together that it refers to. GitHub's document has 12 MB."""

MAX_YAML_BYTES = 16 * 1024 * 1024
"""Maximum size of a YAML document. Parsing YAML takes a hundred times as long as JSON: about a second per MB."""

MAX_FILES = 100
_MOST_STEPS = 16
"""Maximum length of a chain of references."""

_SECONDS = 30.0
_MOST_REDIRECTS = 5


class DocumentError(Exception):
    """Raised for an unusable document, or an unusable operation in it; the message is the reason in one line."""


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value in a document. `file` is the document's address; `pointer` is the JSON pointer of the `$ref` that
    led to the value, or "".
    """

    value: Any
    file: str
    pointer: str = ""

    def part(self, key: str) -> Node:
        """Return the value of a key, with value None if there is no such key."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        return Node(value, self.file)


@dataclass(slots=True)
class ApiDocument:
    """A document and the files that its references have led to so far.

    `address` is an absolute path or a URL. References may only lead to files in the same folder (and below), or at the
    same origin. `load` returns the bytes at an address.
    """

    address: str
    root: dict[str, Any]
    load: Callable[[str, int], bytes]
    files: dict[str, Any] = field(default_factory=dict[str, Any])
    left: int = MAX_DOCUMENT_BYTES

    def resolved(self, place: Node) -> Node:
        """Return the target of a reference, after following further references; the same place without a reference.

        Raises `DocumentError` if the target is missing or outside, or if references form a circle.
        """
        for _ in range(_MOST_STEPS):
            reference = None
            if isinstance(place.value, dict):
                reference = place.value.get("$ref")
            if not isinstance(reference, str):
                return place
            place = self._target(reference, place.file)
        raise DocumentError("its references lead in a circle")

    def _target(self, reference: str, file: str) -> Node:
        address, _, pointer = reference.partition("#")
        if address:
            try:
                file = self._neighbour(address, file)
            except ValueError:  # invalid Unicode, or an invalid address
                raise DocumentError(
                    f'"{safe_line(reference, 80)}" is no address'
                ) from None
        value = referred(self._content(file), f"#{pointer}")
        if value is None:
            raise DocumentError(f'"{safe_line(reference, 80)}" leads nowhere')
        return Node(value, file, pointer)

    def _neighbour(self, reference: str, file: str) -> str:
        """Return the address of another file. Raises `DocumentError` if it is outside of the document's folder or
        origin.
        """
        if is_url(self.address):
            address = urljoin(file, reference)
            if origin(address) == origin(self.address):
                return address
        elif not urlsplit(reference).scheme and not reference.startswith("//"):
            path = os.path.realpath(
                os.path.join(os.path.dirname(file), unquote(reference))
            )
            if Path(path).is_relative_to(
                os.path.realpath(os.path.dirname(self.address))
            ):
                return path
        where = "origin" if is_url(self.address) else "folder"
        raise DocumentError(
            f'"{safe_line(reference, 80)}" is outside of the {where} of the document'
        )

    def _content(self, file: str) -> Any:
        if file == self.address:
            return self.root
        if file not in self.files:
            if len(self.files) >= MAX_FILES:
                raise DocumentError(f"it refers to more than {MAX_FILES} files")
            self.files[file] = None
            content = self.load(file, self.left)
            self.left -= len(content)
            self.files[file] = document_value(content, file)
        return self.files[file]


def load_document(
    source: str | Mapping[str, Any], client: httpx2.Client | None = None
) -> ApiDocument:
    """Read the document at a path or URL, or use the passed mapping. Raises `DocumentError`.

    `client` requests documents at URLs; by default a client without credentials.
    """
    root: Any
    load: Callable[[str, int], bytes] = _no_files
    if isinstance(source, Mapping):
        address, root = os.path.join(os.getcwd(), "given"), dict(source)
    else:
        if is_url(source):
            address, load = source, _loader(client)
        else:
            address, load = os.path.abspath(os.path.expanduser(source)), _file
        root = document_value(load(address, MAX_DOCUMENT_BYTES), address)
    if not isinstance(root, dict) or not isinstance(root.get("paths"), dict):
        raise DocumentError('is no OpenAPI document: it has no "paths"')
    return ApiDocument(address, with_alternatives(root), load)


def is_url(address: str) -> bool:
    """Return whether this is a URL rather than a path."""
    return address.lower().startswith(("http://", "https://"))


Origin: TypeAlias = tuple[str, str, int | None]
"""Scheme, host and port."""


def origin(url: str) -> Origin:
    """Return scheme, host and port of a URL; equal for URLs of the same origin."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ("", url, None)
    return parts.scheme, parts.hostname or "", port


def _no_files(_address: str, _limit: int) -> bytes:
    raise DocumentError("a document given as a value cannot refer to files")


def _file(path: str, limit: int) -> bytes:
    try:
        return read_bounded(path, limit)
    except FileTooLargeError:
        raise DocumentError(_too_large(limit)) from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise DocumentError(f"{safe_line(path, 120)}: {reason}") from None


def _loader(client: httpx2.Client | None) -> Callable[[str, int], bytes]:
    import httpx2

    def load(url: str, limit: int) -> bytes:
        own = client or httpx2.Client(
            timeout=_SECONDS, headers={"User-Agent": "mcpagent"}
        )
        try:
            return _fetched(own, url, limit)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            what = safe_line(str(error), 120) or type(error).__name__
            raise DocumentError(f"could not be loaded: {what}") from None
        finally:
            if client is None:
                own.close()

    return load


def _fetched(client: httpx2.Client, url: str, limit: int) -> bytes:
    first = url
    for _ in range(_MOST_REDIRECTS + 1):
        with client.stream("GET", url, follow_redirects=False) as response:
            if response.next_request is not None:
                url = str(response.next_request.url)
                if origin(url) != origin(first):
                    raise DocumentError(
                        f"leads to another origin, {safe_line(url, 120)}; give that URL if you trust it"
                    )
                continue
            if response.status_code != 200:
                raise DocumentError(f"could not be loaded: HTTP {response.status_code}")
            content = bytearray()
            for piece in response.iter_bytes():
                content += piece
                if len(content) > limit:
                    raise DocumentError(_too_large(limit))
            return bytes(content)
    raise DocumentError(f"leads on more than {_MOST_REDIRECTS} times")


def _too_large(limit: int) -> str:
    return f"is larger than {limit / 1024 / 1024:.0f} MB"


def document_value(content: bytes, address: str) -> Any:
    """Return the parsed JSON or YAML text. Raises `DocumentError`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError(f"{safe_line(address, 120)} is not UTF-8") from None
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            # A flow mapping of YAML begins like JSON.
            if isinstance(error, RecursionError) or len(content) > MAX_YAML_BYTES // 16:
                raise DocumentError(
                    f"is not JSON: {safe_line(str(error), 120)}"
                ) from None
    if len(content) > MAX_YAML_BYTES:
        raise DocumentError(
            f"is YAML of more than {MAX_YAML_BYTES // 2**20} MB; convert it to JSON"
        )
    return _yaml(text)


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=_loader_of_yaml())  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise DocumentError(f"is not YAML{where}: {safe_line(problem, 120)}") from None
    except (ValueError, RecursionError, TypeError) as error:
        raise DocumentError(f"is not YAML: {safe_line(str(error), 120)}") from None


@cache
def _loader_of_yaml() -> type[yaml.SafeLoader]:
    """Return a YAML loader that uses only JSON's types: keys and dates are texts, and "no" is a text, such as Norway's
    code.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class JsonTypes(base):  # type: ignore[misc]
        """A safe loader with the types of JSON."""

        def construct_mapping(
            self,
            node: yaml.MappingNode,
            deep: bool = False,  # noqa: ARG002
        ) -> dict[Any, Any]:
            self.flatten_mapping(node)
            return {
                key.value
                if isinstance(key, yaml.ScalarNode)
                else "": self.construct_object(value, deep=True)
                for key, value in node.value
            }

    skipped = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")
    JsonTypes.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in skipped]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    JsonTypes.add_implicit_resolver(
        "tag:yaml.org,2002:bool",
        re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
        list("tTfF"),
    )
    JsonTypes.add_constructor("tag:yaml.org,2002:map", JsonTypes.construct_mapping)
    return JsonTypes
