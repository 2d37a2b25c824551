"""Calendar dates."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from mcpagent.demo.errors import DemoToolError

Day = Annotated[str, Field(description="Date as YYYY-MM-DD, or today")]
Year = Annotated[int, Field(description="Year, 1 to 9999", ge=1, le=9999)]
Weekday = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def parse_day(text: str) -> date:
    """`YYYY-MM-DD` or `today` (UTC). Raises `DemoToolError`."""
    if text.strip().lower() == "today":
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise DemoToolError(f"date {text!r} is not a date such as 2026-11-22") from None


def date_info(date: Day = "today") -> dict[str, Any]:
    """Tell the day of the week, week number and day of the year of a date."""
    day = parse_day(date)
    return {
        "date": day.isoformat(),
        "weekday": f"{day:%A}",
        "iso_week": day.isocalendar().week,
        "day_of_year": day.timetuple().tm_yday,
        "leap_year": calendar.isleap(day.year),
    }


def days_between(start_date: Day, end_date: Day) -> str:
    """Count the days between two dates, for example how many days until Christmas."""
    start, end = parse_day(start_date), parse_day(end_date)
    days = (end - start).days
    weeks, rest = divmod(abs(days), 7)
    return f"{days} days from {start} to {end} ({weeks} weeks and {rest} days)"


def add_to_date(
    date: Day = "today",
    days: Annotated[int, Field(description="Days to add, negative to subtract")] = 0,
    weeks: Annotated[int, Field(description="Weeks to add, negative to subtract")] = 0,
    months: Annotated[int, Field(description="Months to add, negative to subtract")] = 0,
    years: Annotated[int, Field(description="Years to add, negative to subtract")] = 0,
) -> dict[str, str]:
    """Add days, weeks, months or years to a date: what date is it 90 days from now."""
    start = parse_day(date)
    month_count = start.year * 12 + start.month - 1 + months + years * 12
    year, month = divmod(month_count, 12)
    if not 1 <= year <= 9999:
        raise DemoToolError("the result is outside the years 1 to 9999")
    moved = start.replace(year=year, month=month + 1, day=min(start.day, calendar.monthrange(year, month + 1)[1]))
    try:
        result = moved + timedelta(days=days + 7 * weeks)
    except OverflowError:
        raise DemoToolError("the result is outside the years 1 to 9999") from None
    return {"date": result.isoformat(), "weekday": f"{result:%A}"}


def month_calendar(
    year: Year, month: Annotated[int, Field(description="Month, 1 (January) to 12 (December)", ge=1, le=12)]
) -> str:
    """Show the calendar of one month."""
    return calendar.TextCalendar().formatmonth(year, month).rstrip()


def is_leap_year(year: Year) -> str:
    """Tell whether a year is a leap year."""
    return f"{year} is {'a leap year' if calendar.isleap(year) else 'not a leap year'}."


def next_weekday(
    weekday: Annotated[Weekday, Field(description="The day of the week to look for")], after: Day = "today"
) -> str:
    """Find the date of the next Monday, Friday or other day of the week."""
    start = parse_day(after)
    ahead = (list(calendar.day_name).index(weekday) - start.weekday() - 1) % 7 + 1
    return f"The next {weekday} after {start} is {start + timedelta(days=ahead)}."


def age_in_years(
    birth_date: Annotated[str, Field(description="Date of birth as YYYY-MM-DD")],
    on: Day = "today",
) -> str:
    """Calculate how old somebody is from the date of birth."""
    born, day = parse_day(birth_date), parse_day(on)
    if born > day:
        raise DemoToolError(f"birth_date {born} is after {day}")
    years = day.year - born.year - ((day.month, day.day) < (born.month, born.day))
    return f"{years} years old on {day} (born {born})"


TOOLS = (
    date_info,
    days_between,
    add_to_date,
    month_calendar,
    is_leap_year,
    next_weekday,
    age_in_years,
)
