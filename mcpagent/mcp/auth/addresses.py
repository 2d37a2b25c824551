"""Determine which network an address belongs to, after its name is resolved, in any spelling."""

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
"""The scope in which an address has one meaning: the internet, this network, this machine; "nowhere": never contact
it."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
"""The addresses of a host. Raises `OSError`."""

SCOPES: tuple[NetworkScope, ...] = ("everywhere", "network", "machine")
"""From far to near. A server with an address of one scope may redirect only to that scope and to farther ones."""

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
"""Metadata services, from which cloud machines get their keys, in addition to all link-local addresses."""

_NOT_EVERYWHERE = tuple(
    map(ip_network, ("192.0.0.0/24", "fec0::/10", "5f00::/16", "3fff::/20"))
)
"""Networks with a local meaning only, which not every Python version knows."""

_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
_ENDS_IN_IPV4 = (
    ip_network("64:ff9b::/96"),
    _LOCAL_NAT64,
    ip_network("::ffff:0:0:0/96"),
)
"""RFC 6052, RFC 8215, and the translated addresses of RFC 2765."""

_ISATAP = (0x00005EFE, 0x02005EFE)
"""Prefixes of an IPv4 address in an interface identifier (RFC 5214)."""

_OLD_SPELLING = re.compile(
    r"(?:0[xX][0-9a-fA-F]+|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]+|[0-9]+)){0,3}"
)
"""The spellings that inet_aton(3) accepts: `127.1`, `0x7f.1`, `2130706433`."""


def scope_of(address: Address) -> NetworkScope:
    """Return the network; an address that embeds another, such as `::ffff:127.0.0.1`, counts as that one."""
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
    ):  # ::127.0.0.1 is old
        return IPv4Address(number & 0xFFFFFFFF)
    return (
        address.ipv4_mapped
        or address.sixtofour
        or (address.teredo[1] if address.teredo else None)
    )


def literal(host: str) -> Address | None:
    """Return the address that a host is, in any of its spellings; None for a name."""
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
    """Return the farthest network of a host's addresses."""
    places = [scope_of(address) for address in addresses]
    return next((place for place in SCOPES if place in places), "nowhere")
