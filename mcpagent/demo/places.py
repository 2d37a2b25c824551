"""Facts about countries and their capitals. Populations are rounded estimates of about 2024, in millions."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from mcpagent.demo.errors import DemoToolError

Continent = Literal["Africa", "Asia", "Europe", "North America", "South America", "Oceania"]

# country | capital | continent | population in millions | currency | latitude, longitude of the capital
_TABLE = """
Argentina|Buenos Aires|South America|46|Argentine peso|-34.60|-58.38
Australia|Canberra|Oceania|27|Australian dollar|-35.28|149.13
Austria|Vienna|Europe|9.2|euro|48.21|16.37
Bangladesh|Dhaka|Asia|173|taka|23.81|90.41
Belgium|Brussels|Europe|11.8|euro|50.85|4.35
Bolivia|Sucre|South America|12.4|boliviano|-19.04|-65.26
Brazil|Brasília|South America|212|Brazilian real|-15.79|-47.88
Bulgaria|Sofia|Europe|6.4|euro|42.70|23.32
Canada|Ottawa|North America|41|Canadian dollar|45.42|-75.70
Chile|Santiago|South America|19.8|Chilean peso|-33.45|-70.67
China|Beijing|Asia|1410|renminbi (yuan)|39.90|116.40
Colombia|Bogotá|South America|53|Colombian peso|4.71|-74.07
Costa Rica|San José|North America|5.1|Costa Rican colón|9.93|-84.08
Croatia|Zagreb|Europe|3.9|euro|45.81|15.98
Cuba|Havana|North America|11|Cuban peso|23.11|-82.37
Czechia|Prague|Europe|10.9|Czech koruna|50.08|14.44
Denmark|Copenhagen|Europe|6|Danish krone|55.68|12.57
Ecuador|Quito|South America|18|US dollar|-0.18|-78.47
Egypt|Cairo|Africa|116|Egyptian pound|30.04|31.24
Estonia|Tallinn|Europe|1.4|euro|59.44|24.75
Ethiopia|Addis Ababa|Africa|132|birr|9.03|38.74
Finland|Helsinki|Europe|5.6|euro|60.17|24.94
France|Paris|Europe|68|euro|48.86|2.35
Germany|Berlin|Europe|84|euro|52.52|13.40
Ghana|Accra|Africa|34|cedi|5.60|-0.19
Greece|Athens|Europe|10.4|euro|37.98|23.73
Hungary|Budapest|Europe|9.6|forint|47.50|19.04
Iceland|Reykjavík|Europe|0.39|Icelandic króna|64.15|-21.94
India|New Delhi|Asia|1450|Indian rupee|28.61|77.21
Indonesia|Jakarta|Asia|283|rupiah|-6.21|106.85
Iran|Tehran|Asia|91|rial|35.69|51.39
Iraq|Baghdad|Asia|46|Iraqi dinar|33.31|44.36
Ireland|Dublin|Europe|5.3|euro|53.35|-6.26
Israel|Jerusalem|Asia|9.9|new shekel|31.77|35.21
Italy|Rome|Europe|59|euro|41.90|12.50
Jamaica|Kingston|North America|2.8|Jamaican dollar|17.97|-76.79
Japan|Tokyo|Asia|124|yen|35.68|139.69
Kenya|Nairobi|Africa|56|Kenyan shilling|-1.29|36.82
Latvia|Riga|Europe|1.9|euro|56.95|24.11
Lithuania|Vilnius|Europe|2.9|euro|54.69|25.28
Luxembourg|Luxembourg|Europe|0.67|euro|49.61|6.13
Malaysia|Kuala Lumpur|Asia|35.6|ringgit|3.14|101.69
Mexico|Mexico City|North America|131|Mexican peso|19.43|-99.13
Morocco|Rabat|Africa|38|dirham|34.02|-6.83
Nepal|Kathmandu|Asia|29.7|Nepalese rupee|27.72|85.32
Netherlands|Amsterdam|Europe|18|euro|52.37|4.90
New Zealand|Wellington|Oceania|5.3|New Zealand dollar|-41.29|174.78
Nigeria|Abuja|Africa|233|naira|9.06|7.49
Norway|Oslo|Europe|5.6|Norwegian krone|59.91|10.75
Pakistan|Islamabad|Asia|251|Pakistani rupee|33.68|73.05
Peru|Lima|South America|34|sol|-12.05|-77.04
Philippines|Manila|Asia|116|Philippine peso|14.60|120.98
Poland|Warsaw|Europe|37|złoty|52.23|21.01
Portugal|Lisbon|Europe|10.7|euro|38.72|-9.14
Romania|Bucharest|Europe|19|leu|44.43|26.10
Russia|Moscow|Europe|144|rouble|55.76|37.62
Saudi Arabia|Riyadh|Asia|35|riyal|24.71|46.68
Senegal|Dakar|Africa|18.5|West African CFA franc|14.72|-17.47
Serbia|Belgrade|Europe|6.6|Serbian dinar|44.79|20.45
Singapore|Singapore|Asia|6|Singapore dollar|1.35|103.82
Slovakia|Bratislava|Europe|5.4|euro|48.15|17.11
Slovenia|Ljubljana|Europe|2.1|euro|46.06|14.51
South Africa|Pretoria|Africa|63|rand|-25.75|28.19
South Korea|Seoul|Asia|51.7|won|37.57|126.98
Spain|Madrid|Europe|49|euro|40.42|-3.70
Sweden|Stockholm|Europe|10.6|Swedish krona|59.33|18.07
Switzerland|Bern|Europe|9|Swiss franc|46.95|7.45
Tanzania|Dodoma|Africa|68|Tanzanian shilling|-6.16|35.75
Thailand|Bangkok|Asia|66|baht|13.76|100.50
Tunisia|Tunis|Africa|12.3|Tunisian dinar|36.81|10.18
Turkey|Ankara|Asia|85.5|Turkish lira|39.93|32.86
Uganda|Kampala|Africa|50|Ugandan shilling|0.35|32.58
Ukraine|Kyiv|Europe|38|hryvnia|50.45|30.52
United Kingdom|London|Europe|69|pound sterling|51.51|-0.13
United States|Washington, D.C.|North America|340|US dollar|38.91|-77.04
Uruguay|Montevideo|South America|3.4|Uruguayan peso|-34.90|-56.16
Vietnam|Hanoi|Asia|101|dong|21.03|105.85
"""
_ALIASES = {
    "uk": "united kingdom",
    "great britain": "united kingdom",
    "britain": "united kingdom",
    "england": "united kingdom",
    "usa": "united states",
    "us": "united states",
    "america": "united states",
    "holland": "netherlands",
    "korea": "south korea",
    "czech republic": "czechia",
    "türkiye": "turkey",
    "washington": "washington, d.c.",
    "washington dc": "washington, d.c.",
    "delhi": "new delhi",
    "kiev": "kyiv",
    "brasilia": "brasília",
    "bogota": "bogotá",
    "san jose": "san josé",
    "reykjavik": "reykjavík",
}


@dataclass(frozen=True)
class Country:
    name: str
    capital: str
    continent: str
    population_millions: float
    currency: str
    latitude: float
    longitude: float


def _row(line: str) -> Country:
    name, capital, continent, population, currency, latitude, longitude = line.split("|")
    return Country(name, capital, continent, float(population), currency, float(latitude), float(longitude))


COUNTRIES = tuple(_row(line) for line in _TABLE.strip().splitlines())
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
        hint = f"did you mean {', '.join(_BY_NAME[name].name for name in near)}?" if near else "see list_countries"
        raise DemoToolError(f"{text!r} is not in the table of {len(COUNTRIES)} countries: {hint}")
    return found


def country_facts(country: Annotated[str, Field(description="Name of the country, or its capital")]) -> dict[str, Any]:
    """Get the capital, population, currency and continent of a country."""
    found = _country(country)
    return {
        "country": found.name,
        "capital": found.capital,
        "population": f"about {found.population_millions:g} million",
        "currency": found.currency,
        "continent": found.continent,
    }


def country_of_capital(capital: Annotated[str, Field(description="Name of a capital city")]) -> str:
    """Tell which country a capital city belongs to."""
    found = _BY_CAPITAL.get(_key(capital))
    if found is None:
        raise DemoToolError(f"{capital!r} is not a capital in the table")
    return f"{found.capital} is the capital of {found.name}."


def list_countries(
    continent: Annotated[Continent | Literal["all"], Field(description="Only countries of this continent")] = "all",
    sort_by: Annotated[Literal["name", "population"], Field(description="Order of the list")] = "name",
) -> str:
    """List countries with their capitals and populations."""
    rows = [country for country in COUNTRIES if continent in ("all", country.continent)]
    if sort_by == "population":
        rows.sort(key=lambda country: -country.population_millions)
    return "\n".join(f"{row.name}: {row.capital}, {row.population_millions:g} million people" for row in rows)


def _radians(country: Country) -> tuple[float, float]:
    return math.radians(country.latitude), math.radians(country.longitude)


def distance_between_capitals(
    first_city: Annotated[str, Field(description="A capital city, or a country")],
    second_city: Annotated[str, Field(description="Another capital city, or country")],
) -> str:
    """Calculate how far apart two capital cities are: the great-circle distance in kilometres and miles."""
    one, two = _country(first_city), _country(second_city)
    (lat1, lon1), (lat2, lon2) = _radians(one), _radians(two)
    # Haversine formula on a sphere of the mean earth radius, 6371 km: right to about 0.5 %.
    inner = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    kilometres = 2 * 6371 * math.asin(math.sqrt(inner))
    return f"{one.capital} to {two.capital}: about {kilometres:,.0f} km ({kilometres / 1.609344:,.0f} miles)"


TOOLS = (country_facts, country_of_capital, list_countries, distance_between_capitals)
