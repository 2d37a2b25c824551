"""Time of day and time zones."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field

from mcpagent.demo.errors import DemoToolError

Timezone = Annotated[str, Field(description="IANA time zone name, for example Asia/Tokyo or Europe/Paris")]
TimeOfDay = Annotated[str, Field(description="Time of day, 24 hours, HH:MM", pattern=r"^\d{1,2}:\d{2}$")]


@cache
def _zone_names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))


def zone(name: str) -> ZoneInfo:
    """The zone of that name, case ignored. Raises `DemoToolError` with near names."""
    if not _zone_names():
        raise DemoToolError("this computer has no time zone data; install the Python package tzdata")
    known = {known_name.lower(): known_name for known_name in _zone_names()}
    wanted = name.strip().replace(" ", "_").lower()
    if wanted in known:
        return ZoneInfo(known[wanted])
    by_city = [full for low, full in known.items() if low.endswith(f"/{wanted}")]
    near = by_city or [known[low] for low in difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)]
    hint = f"did you mean {', '.join(near[:3])}?" if near else "names look like Europe/Paris; see list_timezones"
    raise DemoToolError(f"unknown time zone {name!r}: {hint}")


def _moment(moment: datetime) -> dict[str, Any]:
    return {
        "timezone": str(moment.tzinfo),
        "datetime": moment.isoformat(timespec="seconds"),
        "day_of_week": f"{moment:%A}",
    }


def _hours(moment: datetime) -> float:
    offset = moment.utcoffset()
    return offset.total_seconds() / 3600 if offset else 0.0


def get_current_time(timezone: Timezone = "UTC") -> dict[str, Any]:
    """Get the current time and date in a time zone."""
    return _moment(datetime.now(zone(timezone)))


def convert_time(time: TimeOfDay, source_timezone: Timezone, target_timezone: Timezone) -> dict[str, Any]:
    """Convert a time of day today from one time zone to another."""
    try:
        hour, minute = (int(part) for part in time.split(":"))
        there = datetime.now(zone(source_timezone)).replace(hour=hour, minute=minute, second=0, microsecond=0)
    except ValueError as error:
        if isinstance(error, DemoToolError):
            raise
        raise DemoToolError(f"time {time!r} is not HH:MM between 00:00 and 23:59") from None
    return {"source": _moment(there), "target": _moment(there.astimezone(zone(target_timezone)))}


def time_difference(first_timezone: Timezone, second_timezone: Timezone) -> str:
    """Tell how many hours two time zones are apart now."""
    now = datetime.now(UTC)
    first, second = (_hours(now.astimezone(zone(name))) for name in (first_timezone, second_timezone))
    if first == second:
        return f"{first_timezone} and {second_timezone} have the same time now."
    word = "ahead of" if second > first else "behind"
    return f"{second_timezone} is {abs(second - first):g} hours {word} {first_timezone}."


def list_timezones(
    contains: Annotated[str, Field(description="Only names with this text in them, for example America")] = "",
    limit: Annotated[int, Field(description="At most this many names", ge=1, le=600)] = 50,
) -> list[str]:
    """List IANA time zone names."""
    wanted = contains.strip().replace(" ", "_").lower()
    return [name for name in _zone_names() if wanted in name.lower()][:limit]


def to_unix_timestamp(
    date_time: Annotated[str, Field(description="ISO 8601, for example 2026-11-22T14:30:00")],
    timezone: Timezone = "UTC",
) -> int:
    """Convert a date and time to a Unix timestamp (seconds since 1970)."""
    try:
        moment = datetime.fromisoformat(date_time.strip())
    except ValueError:
        raise DemoToolError(f"date_time {date_time!r} is not ISO 8601, such as 2026-11-22T14:30:00") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=zone(timezone))).timestamp())


def from_unix_timestamp(
    timestamp: Annotated[float, Field(description="Seconds since 1970-01-01 UTC")], timezone: Timezone = "UTC"
) -> dict[str, Any]:
    """Convert a Unix timestamp to a date and time."""
    try:
        return _moment(datetime.fromtimestamp(timestamp, zone(timezone)))
    except (OverflowError, OSError, ValueError) as error:
        if isinstance(error, DemoToolError):
            raise
        raise DemoToolError(f"timestamp {timestamp} is outside the years 1 to 9999") from None


TOOLS = (get_current_time, convert_time, time_difference, list_timezones, to_unix_timestamp, from_unix_timestamp)
