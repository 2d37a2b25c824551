"""Facts about countries and their capitals. Populations are rounded estimates of about 2024, in millions."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from mcpagent.demo import DemoToolError, data_table

Continent = Literal[
    "Africa", "Asia", "Europe", "North America", "South America", "Oceania"
]


@dataclass(frozen=True)
class Country:
    """A row of `countries.csv`; latitude and longitude are those of the capital, in degrees north and east."""

    name: str
    capital: str
    continent: str
    population_millions: float
    currency: str
    latitude: float
    longitude: float


def _row(row: dict[str, str]) -> Country:
    millions, *place = (
        float(row[column]) for column in ("million people", "latitude", "longitude")
    )
    return Country(
        row["name"], row["capital"], row["continent"], millions, row["currency"], *place
    )


_ROWS = data_table("countries.csv")
COUNTRIES = tuple(map(_row, _ROWS))
_ALIASES = {
    other: row[named].lower()
    for row in _ROWS
    for named, column in (
        ("name", "other names"),
        ("capital", "other names of the capital"),
    )
    for other in filter(None, row[column].split("|"))
}
_BY_NAME = {country.name.lower(): country for country in COUNTRIES}
_BY_CAPITAL = {country.capital.lower(): country for country in COUNTRIES}


def _key(text: str) -> str:
    cleaned = text.strip().lower().removeprefix("the ")
    return _ALIASES.get(cleaned, cleaned)


def _country(text: str) -> Country:
    key = _key(text)
    found = _BY_NAME.get(key) or _BY_CAPITAL.get(key)
    if found is None:
        near = difflib.get_close_matches(key, _BY_NAME, n=3)
        hint = "see list_countries"
        if near:
            hint = f"did you mean {', '.join(_BY_NAME[name].name for name in near)}?"
        raise DemoToolError(
            f"{text!r} is not in the table of {len(COUNTRIES)} countries: {hint}"
        )
    return found


def country_facts(
    country: Annotated[str, Field(description="Name of the country, or its capital")],
) -> dict[str, Any]:
    """Get the capital, population, currency and continent of a country."""
    found = _country(country)
    return {
        "country": found.name,
        "capital": found.capital,
        "population": f"about {found.population_millions:g} million",
        "currency": found.currency,
        "continent": found.continent,
    }


def country_of_capital(
    capital: Annotated[str, Field(description="Name of a capital city")],
) -> str:
    """Tell which country a capital city belongs to."""
    found = _BY_CAPITAL.get(_key(capital))
    if found is None:
        raise DemoToolError(f"{capital!r} is not a capital in the table")
    return f"{found.capital} is the capital of {found.name}."


def list_countries(
    continent: Annotated[
        Continent | Literal["all"],
        Field(description="Only countries of this continent"),
    ] = "all",
    sort_by: Annotated[
        Literal["name", "population"], Field(description="Order of the list")
    ] = "name",
) -> str:
    """List countries with their capitals and populations."""
    rows = [country for country in COUNTRIES if continent in ("all", country.continent)]
    if sort_by == "population":
        rows.sort(key=lambda country: -country.population_millions)
    return "\n".join(
        f"{row.name}: {row.capital}, {row.population_millions:g} million people"
        for row in rows
    )


def _radians(country: Country) -> tuple[float, float]:
    return math.radians(country.latitude), math.radians(country.longitude)


def distance_between_capitals(
    first_city: Annotated[str, Field(description="A capital city, or a country")],
    second_city: Annotated[str, Field(description="Another capital city, or country")],
) -> str:
    """Calculate how far apart two capital cities are: the great-circle distance in kilometres and miles."""
    one, two = _country(first_city), _country(second_city)
    (lat1, lon1), (lat2, lon2) = _radians(one), _radians(two)
    # Haversine formula on a sphere with the mean earth radius, 6371 km; the error is at most about 0.5 %.
    inner = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    kilometres = 2 * 6371 * math.asin(math.sqrt(inner))
    return f"{one.capital} to {two.capital}: about {kilometres:,.0f} km ({kilometres / 1.609344:,.0f} miles)"
