"""The settings of `mcpagent gateway --set NAME=VALUE`, as values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.errors import InputError
from mcpagent.gateway.gateway_options import IDLE_SECONDS, Asking, GatewayMode
from mcpagent.utilities.text.safe_text import safe_line

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The settings of a gateway; `port` None: standard input and output."""

    mode: GatewayMode = "auto"
    modes: dict[str, GatewayMode] = field(default_factory=dict[str, GatewayMode])
    ask: Asking = "client"
    idle_seconds: float = IDLE_SECONDS
    pinned: tuple[str, ...] = ()
    is_prefixed: bool = True
    port: int | None = None
    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    issuer: str = ""
    resource: str = ""


def gateway_settings(pairs: Sequence[str]) -> GatewaySettings:
    """Return the settings. Raises `InputError` for one that is unknown or has no valid value."""
    values: dict[str, Any] = {"modes": {}, "pinned": (), "names": (), "origins": ()}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name, client = (part.strip() for part in _split(name))
        if not equals or name not in _READERS:
            near = did_you_mean(list(_READERS), "")
            raise InputError(
                f'--set "{safe_line(pair, 60)}" is no setting of the gateway; {near}'
            )
        key, read = _READERS[name]
        found = read(f"--set {name}", value.strip())
        if client:
            values["modes"][client] = found
        elif isinstance(found, tuple):
            values[key] = (*values[key], *found)
        else:
            values[key] = found
    return GatewaySettings(**values)


def _split(name: str) -> tuple[str, str]:
    """Return `mode` and the client of `mode.CLIENT`."""
    if name.startswith("mode."):
        return "mode", name.removeprefix("mode.")
    return name, ""


def _one_of(label: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise InputError(f"{label}={safe_line(value, 40)}: write {', '.join(choices)}")
    return value


def _mode(label: str, value: str) -> GatewayMode:
    return cast(GatewayMode, _one_of(label, value, get_args(GatewayMode)))


def _asking(label: str, value: str) -> Asking:
    return cast(Asking, _one_of(label, value, get_args(Asking)))


def _seconds(label: str, value: str) -> float:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smh]?)", value)
    if found is None or float(found[1]) <= 0:
        raise InputError(
            f"{label}={safe_line(value, 40)}: write a time such as 15m, 90s or 1h"
        )
    return float(found[1]) * _UNITS[found[2]]


def _port(label: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,5}", value) or int(value) > 65_535:
        raise InputError(f"{label}={safe_line(value, 40)}: write a port, 0 to 65535")
    return int(value)


def _switch(label: str, value: str) -> bool:
    return _one_of(label, value, ("on", "off")) == "on"


def _text(_label: str, value: str) -> str:
    return value


def _texts(_label: str, value: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in value.split(","))))


_READERS: dict[str, tuple[str, Any]] = {
    "mode": ("mode", _mode),
    "ask": ("ask", _asking),
    "idle": ("idle_seconds", _seconds),
    "pin": ("pinned", _texts),
    "prefix": ("is_prefixed", _switch),
    "http": ("port", _port),
    "host": ("host", _text),
    "name": ("names", _texts),
    "origin": ("origins", _texts),
    "issuer": ("issuer", _text),
    "resource": ("resource", _text),
}
