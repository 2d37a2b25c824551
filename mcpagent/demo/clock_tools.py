"""Time of day, time zones, and calendar dates."""

from __future__ import annotations

import calendar
import difflib
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field

from mcpagent.demo import DemoToolError

Timezone = Annotated[
    str,
    Field(description="IANA time zone name, for example Asia/Tokyo or Europe/Paris"),
]
TimeOfDay = Annotated[
    str, Field(description="Time of day, 24 hours, HH:MM", pattern=r"^\d{1,2}:\d{2}$")
]


@cache
def _zone_names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))


def _zone(name: str) -> ZoneInfo:
    """Return the zone of this name, ignoring case. Raises `DemoToolError` with similar names."""
    if not _zone_names():
        raise DemoToolError(
            "this computer has no time zone data; install the Python package tzdata"
        )
    known = {known_name.lower(): known_name for known_name in _zone_names()}
    wanted = name.strip().replace(" ", "_").lower()
    if wanted in known:
        return ZoneInfo(known[wanted])
    by_city = [full for low, full in known.items() if low.endswith(f"/{wanted}")]
    near = by_city or [
        known[low] for low in difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)
    ]
    hint = "names look like Europe/Paris; see list_timezones"
    if near:
        hint = f"did you mean {', '.join(near[:3])}?"
    raise DemoToolError(f"unknown time zone {name!r}: {hint}")


def _moment(moment: datetime) -> dict[str, Any]:
    return {
        "timezone": str(moment.tzinfo),
        "datetime": moment.isoformat(timespec="seconds"),
        "day_of_week": f"{moment:%A}",
    }


def _hours(moment: datetime) -> float:
    offset = moment.utcoffset()
    if offset:
        return offset.total_seconds() / 3600
    return 0.0


def get_current_time(timezone: Timezone = "UTC") -> dict[str, Any]:
    """Get the current time and date in a time zone."""
    return _moment(datetime.now(_zone(timezone)))


def convert_time(
    time: TimeOfDay, source_timezone: Timezone, target_timezone: Timezone
) -> dict[str, Any]:
    """Convert a time of day today from one time zone to another."""
    try:
        hour, minute = (int(part) for part in time.split(":"))
        there = datetime.now(_zone(source_timezone)).replace(
            hour=hour, minute=minute, second=0, microsecond=0
        )
    except ValueError as error:
        if isinstance(error, DemoToolError):
            raise
        raise DemoToolError(
            f"time {time!r} is not HH:MM between 00:00 and 23:59"
        ) from None
    return {
        "source": _moment(there),
        "target": _moment(there.astimezone(_zone(target_timezone))),
    }


def time_difference(first_timezone: Timezone, second_timezone: Timezone) -> str:
    """Tell how many hours two time zones are apart now."""
    now = datetime.now(UTC)
    first, second = (
        _hours(now.astimezone(_zone(name)))
        for name in (first_timezone, second_timezone)
    )
    if first == second:
        return f"{first_timezone} and {second_timezone} have the same time now."
    word = "behind"
    if second > first:
        word = "ahead of"
    return (
        f"{second_timezone} is {abs(second - first):g} hours {word} {first_timezone}."
    )


def list_timezones(
    contains: Annotated[
        str, Field(description="Only names with this text in them, for example America")
    ] = "",
    limit: Annotated[
        int, Field(description="At most this many names", ge=1, le=600)
    ] = 50,
) -> list[str]:
    """List IANA time zone names."""
    wanted = contains.strip().replace(" ", "_").lower()
    return [name for name in _zone_names() if wanted in name.lower()][:limit]


def to_unix_timestamp(
    date_time: Annotated[
        str, Field(description="ISO 8601, for example 2026-11-22T14:30:00")
    ],
    timezone: Timezone = "UTC",
) -> int:
    """Convert a date and time to a Unix timestamp (seconds since 1970)."""
    try:
        moment = datetime.fromisoformat(date_time.strip())
    except ValueError:
        raise DemoToolError(
            f"date_time {date_time!r} is not ISO 8601, such as 2026-11-22T14:30:00"
        ) from None
    return int(
        (
            moment if moment.tzinfo else moment.replace(tzinfo=_zone(timezone))
        ).timestamp()
    )


def from_unix_timestamp(
    timestamp: Annotated[float, Field(description="Seconds since 1970-01-01 UTC")],
    timezone: Timezone = "UTC",
) -> dict[str, Any]:
    """Convert a Unix timestamp to a date and time."""
    try:
        return _moment(datetime.fromtimestamp(timestamp, _zone(timezone)))
    except (OverflowError, OSError, ValueError) as error:
        if isinstance(error, DemoToolError):
            raise
        raise DemoToolError(
            f"timestamp {timestamp} is outside the years 1 to 9999"
        ) from None


Day = Annotated[str, Field(description="Date as YYYY-MM-DD, or today")]
Year = Annotated[int, Field(description="Year, 1 to 9999", ge=1, le=9999)]
Weekday = Literal[
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"
]


def _day(text: str) -> date:
    """Return the date for `YYYY-MM-DD` or `today` (UTC). Raises `DemoToolError`."""
    if text.strip().lower() == "today":
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise DemoToolError(f"date {text!r} is not a date such as 2026-11-22") from None


def date_info(date: Day = "today") -> dict[str, Any]:
    """Tell the day of the week, week number and day of the year of a date."""
    day = _day(date)
    return {
        "date": day.isoformat(),
        "weekday": f"{day:%A}",
        "iso_week": day.isocalendar().week,
        "day_of_year": day.timetuple().tm_yday,
        "leap_year": calendar.isleap(day.year),
    }


def days_between(start_date: Day, end_date: Day) -> str:
    """Count the days between two dates, for example how many days until Christmas."""
    start, end = _day(start_date), _day(end_date)
    days = (end - start).days
    weeks, rest = divmod(abs(days), 7)
    return f"{days} days from {start} to {end} ({weeks} weeks and {rest} days)"


def add_to_date(
    date: Day = "today",
    days: Annotated[int, Field(description="Days to add, negative to subtract")] = 0,
    weeks: Annotated[int, Field(description="Weeks to add, negative to subtract")] = 0,
    months: Annotated[
        int, Field(description="Months to add, negative to subtract")
    ] = 0,
    years: Annotated[int, Field(description="Years to add, negative to subtract")] = 0,
) -> dict[str, str]:
    """Add days, weeks, months or years to a date: what date is it 90 days from now."""
    start = _day(date)
    month_count = start.year * 12 + start.month - 1 + months + years * 12
    year, month = divmod(month_count, 12)
    if not 1 <= year <= 9999:
        raise DemoToolError("the result is outside the years 1 to 9999")
    moved = start.replace(
        year=year,
        month=month + 1,
        day=min(start.day, calendar.monthrange(year, month + 1)[1]),
    )
    try:
        result = moved + timedelta(days=days + 7 * weeks)
    except OverflowError:
        raise DemoToolError("the result is outside the years 1 to 9999") from None
    return {"date": result.isoformat(), "weekday": f"{result:%A}"}


def month_calendar(
    year: Year,
    month: Annotated[
        int, Field(description="Month, 1 (January) to 12 (December)", ge=1, le=12)
    ],
) -> str:
    """Show the calendar of one month."""
    return calendar.TextCalendar().formatmonth(year, month).rstrip()


def is_leap_year(year: Year) -> str:
    """Tell whether a year is a leap year."""
    return f"{year} is {'a leap year' if calendar.isleap(year) else 'not a leap year'}."


def next_weekday(
    weekday: Annotated[Weekday, Field(description="The day of the week to look for")],
    after: Day = "today",
) -> str:
    """Find the date of the next Monday, Friday or other day of the week."""
    start = _day(after)
    ahead = (list(calendar.day_name).index(weekday) - start.weekday() - 1) % 7 + 1
    return f"The next {weekday} after {start} is {start + timedelta(days=ahead)}."


def age_in_years(
    birth_date: Annotated[str, Field(description="Date of birth as YYYY-MM-DD")],
    on: Day = "today",
) -> str:
    """Calculate how old somebody is from the date of birth."""
    born, day = _day(birth_date), _day(on)
    if born > day:
        raise DemoToolError(f"birth_date {born} is after {day}")
    years = day.year - born.year - ((day.month, day.day) < (born.month, born.day))
    return f"{years} years old on {day} (born {born})"
