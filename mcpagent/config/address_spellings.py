"""List the equivalent spellings of an address, by the URL standard (WHATWG) and by common server behaviour."""

from __future__ import annotations

import contextlib
import ipaddress
import posixpath
import re
import socket
from collections.abc import Iterator
from urllib.parse import unquote

_DEFAULT_PORTS = {"http": "80", "ws": "80", "https": "443", "wss": "443", "ftp": "21"}
_SAME_PLACE = re.compile(r"/(?:\./|/)+")
_DROPPED = str.maketrans("", "", "\t\n\r")
_MOST_TIMES_ENCODED = 8


def percent_decoded(text: str) -> list[str]:
    """Return the text, followed by its percent-decoded forms, one for each level of encoding."""
    seen = [text]
    while len(seen) <= _MOST_TIMES_ENCODED and (plain := unquote(seen[-1])) != seen[-1]:
        seen.append(plain)
    return seen


def spellings(uri: str) -> Iterator[str]:
    r"""Yield the other spellings of the address.

    Examples: `file:///./a`, `file:/a`, `file://localhost/a`, `http://me@host:80/a#b`, `http:\\host\a`; the host in
    Unicode and in its DNS form, with and without the default port.
    """
    scheme, colon, rest = uri.translate(_DROPPED).partition(":")
    if not colon:
        return
    scheme = scheme.strip().lower()
    usual = _DEFAULT_PORTS.get(scheme)
    if usual is not None:  # any number of slashes or backslashes
        rest = "//" + rest.replace("\\", "/").lstrip("/")
    if not rest.startswith("//"):
        authority, path = "", rest.lstrip("/")
    else:
        end = re.search(r"[/?#]", rest[2:])
        if end:
            place = end.start() + 2
        else:
            place = len(rest)
        authority, path = rest[2:place], rest[place:]
    host, port = _split(authority.rpartition("@")[2])
    if scheme == "file" and host == "localhost":
        host = ""
    path, question, query = path.partition("#")[0].partition("?")
    whole = _SAME_PLACE.sub("/", posixpath.normpath(f"/{path}"))
    if path.endswith("/") and whole != "/":
        whole += "/"
    if port and port != usual:
        ports = {f":{port}"}
    elif usual:
        ports = {"", f":{usual}"}
    else:
        ports = {""}
    for name in {host, *_hosts(host)} if usual else {host}:
        for end_of_host in sorted(ports):
            yield f"{scheme}://{name}{end_of_host}{whole}{question}{query}"
            yield f"{scheme}://{name}{end_of_host}{whole.rstrip('/')}{question}{query}"


def _split(host: str) -> tuple[str, str]:
    """Return a host in lower case without a final dot, and its port without leading zeros; "" without a port."""
    name, colon, port = host.rpartition(":")
    if not colon or not (port.isdecimal() or not port):
        name, port = host, ""
    return name.lower().rstrip("."), port.lstrip("0")


def _hosts(host: str) -> Iterator[str]:
    with contextlib.suppress(ValueError):  # includes UnicodeError
        ascii_host = host.encode("idna").decode()
        yield ascii_host
        yield ascii_host.encode().decode("idna")
    with contextlib.suppress(ValueError):
        yield f"[{ipaddress.IPv6Address(host.strip('[]'))}]"
    # An IPv4 address in any of its forms: `127.1`, `0x7f000001`, `017700000001`. A host name raises an error.
    with contextlib.suppress(OSError, ValueError):
        number = re.sub(r"0x(?=\.|$)", "0", host)  # "0x" is zero in the URL standard
        yield socket.inet_ntoa(socket.inet_aton("" if " " in host else number))
