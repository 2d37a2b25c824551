"""Determine which network an address belongs to, after its name is resolved; accepts any spelling of addresses."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Literal, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
NetworkScope: TypeAlias = Literal["everywhere", "network", "machine", "nowhere"]
"""The network in which an address is meaningful: the internet, this network, or this machine. "nowhere": an address
that must never be contacted.
"""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Callback that returns the addresses of a host and port. Raises `OSError`."""

SCOPES: tuple[NetworkScope, ...] = ("everywhere", "network", "machine")
"""The scopes from far to near. A server in one scope may redirect only to the same scope and to farther ones."""

_METADATA = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fd00:ec2::/32",
            "fd20:ce::254/128",
        ),
    )
)
"""Addresses of metadata services, which give cloud machines their keys; all link-local addresses count as well."""

_NOT_EVERYWHERE = tuple(
    map(ip_network, ("192.0.0.0/24", "fec0::/10", "5f00::/16", "3fff::/20"))
)
"""Networks with only a local meaning that not every Python version knows."""

_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
_ENDS_IN_IPV4 = (
    ip_network("64:ff9b::/96"),
    _LOCAL_NAT64,
    ip_network("::ffff:0:0:0/96"),
)
"""Networks whose addresses end in an IPv4 address: RFC 6052, RFC 8215, and the translated addresses of RFC 2765."""

_ISATAP = (0x00005EFE, 0x02005EFE)
"""Prefixes of an IPv4 address in an ISATAP interface identifier (RFC 5214)."""

_OLD_SPELLING = re.compile(
    r"(?:0[xX][0-9a-fA-F]+|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]+|[0-9]+)){0,3}"
)
"""Matches the old spellings that inet_aton(3) accepts: `127.1`, `0x7f.1`, `2130706433`."""


def scope_of(address: Address) -> NetworkScope:
    """Return the scope of an address. One that embeds another address, such as `::ffff:127.0.0.1`, has the scope of
    that one.
    """
    if (inner := _inside(address)) is not None:
        place = scope_of(inner)
        if place == "everywhere" and address in _LOCAL_NAT64:
            return "network"
        return place
    is_odd = (
        address.is_link_local
        or address.is_multicast
        or (address.is_reserved and address.version == 4)
    )
    if is_odd or any(address in network for network in _METADATA):
        return "nowhere"
    if address.is_loopback or address.is_unspecified:
        return "machine"
    is_near = not address.is_global or any(
        address in network for network in _NOT_EVERYWHERE
    )
    if is_near:
        return "network"
    return "everywhere"


def _inside(address: Address) -> IPv4Address | None:
    if isinstance(address, IPv4Address):
        return None
    number = int(address)
    is_isatap = (number >> 32) & 0xFFFFFFFF in _ISATAP and not address.is_link_local
    if (
        is_isatap
        or 1 < number < 2**32
        or any(address in network for network in _ENDS_IN_IPV4)
    ):  # ::127.0.0.1 is an obsolete form
        return IPv4Address(number & 0xFFFFFFFF)
    return (
        address.ipv4_mapped
        or address.sixtofour
        or (address.teredo[1] if address.teredo else None)
    )


def literal(host: str) -> Address | None:
    """Return the address if the host is one, in any spelling; None for a name."""
    plain = host.strip("[]").rstrip(".").partition("%")[0]
    with contextlib.suppress(ValueError):
        return ip_address(plain)
    if _OLD_SPELLING.fullmatch(plain):
        with contextlib.suppress(OSError):
            return IPv4Address(socket.inet_aton(plain))
    return None


def is_localhost(host: str) -> bool:
    """Return whether the host is a name of this machine (RFC 6761, 6.3)."""
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


async def resolved(host: str, port: int) -> Sequence[Address]:
    """Return all addresses of a host. Raises `OSError` if it has no address."""
    if (address := literal(host)) is not None:
        return (address,)
    if is_localhost(host):
        return IPv4Address("127.0.0.1"), IPv6Address("::1")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )
    except UnicodeError as error:
        raise OSError(str(error)) from None
    return tuple(
        dict.fromkeys(ip_address(str(item[4][0]).partition("%")[0]) for item in found)
    )


def farthest(addresses: Sequence[Address]) -> NetworkScope:
    """Return the farthest scope among a host's addresses; "nowhere" if none may be contacted."""
    places = [scope_of(address) for address in addresses]
    return next((place for place in SCOPES if place in places), "nowhere")
