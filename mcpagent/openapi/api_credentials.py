"""Add credentials to a request according to the document's security schemes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcpagent.openapi.api_documents import is_url, origin
from mcpagent.openapi.operations import Api, Operation

ANY_SCHEME = "*"
"""Name of a credential for any scheme that an operation needs."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The headers, cookies and query parameters of credentials."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()


def credentials_for(
    api: Api, operation: Operation, values: Mapping[str, str]
) -> Credentials:
    """Return the credentials of the first alternative for which `values` suffice; no credentials for a public
    operation.

    `values` are by name of a security scheme, or under `ANY_SCHEME`. If the document has no security schemes, a value
    for any scheme is sent as a bearer token. An operation at another origin than the API's receives only the value
    whose name is that origin.
    """
    if origin(operation.server) != origin(api.base_url):
        own = [
            value
            for name, value in values.items()
            if is_url(name) and origin(name) == origin(operation.server)
        ]
        values = {ANY_SCHEME: own[0]} if own else {}
    alternatives = operation.security
    if alternatives is None:
        alternatives = () if api.schemes else ((ANY_SCHEME,),)
        if api.schemes and values:
            alternatives = tuple((name,) for name in api.schemes)
    for names in alternatives:
        found = [(name, _value_for(name, names, values)) for name in names]
        if found and all(value for _, value in found):
            return _together(
                [_of_scheme(api.schemes.get(name, {}), value) for name, value in found]
            )
    return Credentials()


def needed_schemes(api: Api, operation: Operation) -> list[str]:
    """Return the schemes that an operation may need, each with its type."""
    names = dict.fromkeys(name for names in operation.security or () for name in names)
    return [f"{name} ({_kind(api.schemes.get(name, {}))})" for name in names]


def _value_for(name: str, together: tuple[str, ...], values: Mapping[str, str]) -> str:
    if name in values:
        return values[name]
    if len(together) == 1:
        return values.get(ANY_SCHEME, "")
    return ""


def _kind(scheme: Mapping[str, Any]) -> str:
    parts = [scheme.get("type"), scheme.get("scheme"), scheme.get("in")]
    return " ".join(str(part) for part in parts if part) or "unknown"


def _of_scheme(scheme: Mapping[str, Any], value: str) -> Credentials:
    """Return the value in its position: a key in a header, the query or a cookie; otherwise an Authorization header."""
    name, position = str(scheme.get("name") or ""), scheme.get("in")
    if scheme.get("type") == "apiKey" and name:
        if position == "query":
            return Credentials(query=((name, value),))
        if position == "cookie":
            return Credentials(cookies=((name, value),))
        return Credentials({name: value})
    kind = str(scheme.get("scheme") or "").lower()
    if scheme.get("type") == "basic" or kind == "basic":
        return Credentials(
            {"Authorization": f"Basic {b64encode(value.encode()).decode()}"}
        )
    if kind not in ("", "bearer"):
        return Credentials({"Authorization": f"{scheme['scheme']} {value}"})
    return Credentials({"Authorization": f"Bearer {value}"})


def _together(parts: list[Credentials]) -> Credentials:
    headers = {name: value for part in parts for name, value in part.headers.items()}
    query = tuple(pair for part in parts for pair in part.query)
    cookies = tuple(pair for part in parts for pair in part.cookies)
    return Credentials(headers, query, cookies)
