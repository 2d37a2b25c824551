"""Places to IANA time zones: the zones' own city names, and countries and large cities that are not in them."""

from __future__ import annotations

import re
from functools import cache
from zoneinfo import available_timezones

from mcpagent.models.offline.words import word_set

_ALIASES = """
UTC: utc, gmt, zulu
America/New_York: new york city, nyc, washington, washington dc, boston, miami, atlanta, philadelphia, est, edt
America/Chicago: texas, dallas, houston, austin, cst, cdt, minneapolis, central time
America/Denver: colorado, mst, mdt, salt lake city, mountain time
America/Los_Angeles: la, california, san francisco, seattle, san diego, las vegas, silicon valley, pst, pdt
America/Toronto: ottawa, canada
America/Mexico_City: mexico
America/Sao_Paulo: brazil, rio de janeiro, rio, brasilia, são paulo
America/Argentina/Buenos_Aires: argentina
America/Bogota: colombia
America/Lima: peru
America/Santiago: chile
Europe/London: uk, united kingdom, england, britain, scotland, edinburgh, manchester, bst
Europe/Dublin: ireland
Europe/Paris: france, lyon, marseille, nice, cet, cest
Europe/Berlin: germany, munich, hamburg, frankfurt, cologne, stuttgart
Europe/Madrid: spain, barcelona
Europe/Lisbon: portugal, porto
Europe/Rome: italy, milan, naples, florence, venice
Europe/Amsterdam: netherlands, holland, rotterdam
Europe/Brussels: belgium
Europe/Zurich: switzerland, geneva, bern, basel
Europe/Vienna: austria
Europe/Warsaw: poland, krakow
Europe/Prague: czechia, czech republic
Europe/Budapest: hungary
Europe/Stockholm: sweden
Europe/Oslo: norway
Europe/Copenhagen: denmark
Europe/Helsinki: finland
Europe/Athens: greece
Europe/Bucharest: romania
Europe/Istanbul: turkey, ankara
Europe/Kyiv: ukraine, kiev
Europe/Moscow: russia, saint petersburg
Africa/Cairo: egypt
Africa/Johannesburg: south africa, cape town, pretoria
Africa/Lagos: nigeria, abuja
Africa/Nairobi: kenya
Africa/Casablanca: morocco
Asia/Dubai: uae, united arab emirates, abu dhabi
Asia/Riyadh: saudi arabia
Asia/Tehran: iran
Asia/Jerusalem: israel, tel aviv
Asia/Karachi: pakistan, islamabad
Asia/Kolkata: india, mumbai, delhi, new delhi, bangalore, bengaluru, chennai, hyderabad, calcutta, ist
Asia/Kathmandu: nepal
Asia/Dhaka: bangladesh
Asia/Bangkok: thailand
Asia/Ho_Chi_Minh: vietnam, hanoi, saigon
Asia/Jakarta: indonesia
Asia/Kuala_Lumpur: malaysia
Asia/Singapore: singapore
Asia/Manila: philippines
Asia/Shanghai: china, beijing, shenzhen, guangzhou
Asia/Hong_Kong: hk
Asia/Taipei: taiwan
Asia/Seoul: south korea, korea, kst
Asia/Tokyo: japan, osaka, kyoto, jst
Australia/Sydney: australia, canberra, aest
Pacific/Auckland: new zealand, wellington
Pacific/Honolulu: hawaii
"""
# Last parts of zone names that are everyday words or regions rather than places.
_NOT_CITIES = word_set(
    """center central east eastern west western north south general mountain pacific universal factory localtime
    easter christmas troll knox current reunion"""
)
_LONGEST_PLACE_WORDS = 4


@cache
def _places() -> dict[str, str]:
    zones = sorted(available_timezones())
    table = {
        alias.strip(): line.partition(":")[0]
        for line in _ALIASES.strip().splitlines()
        for alias in line.partition(":")[2].split(",")
    }
    for zone in zones:
        city = zone.rpartition("/")[2].replace("_", " ").lower()
        # Old names come after the region names in sorted order and are kept only where nothing better is known.
        if "/" in zone and city not in _NOT_CITIES and not zone.startswith(("Etc/", "posix/", "right/", "SystemV/")):
            table.setdefault(city, zone)
    for zone in (line.partition(":")[0] for line in _ALIASES.strip().splitlines()):
        table.setdefault(zone.rpartition("/")[2].replace("_", " ").lower(), zone)
    return table


@cache
def _zones_by_lower_name() -> dict[str, str]:
    return {zone.lower(): zone for zone in available_timezones()} | {zone.lower(): zone for zone in _places().values()}


def find_zones(text: str) -> list[tuple[int, int, str]]:
    """Start, end and zone of every zone name and place in a text, in order; longer names win over shorter ones."""
    tokens = [(match.start(), match.end(), match[0]) for match in re.finditer(r"[\w./+'-]*\w", text)]
    found: list[tuple[int, int, str]] = []
    index = 0
    while index < len(tokens):
        for length in range(min(_LONGEST_PLACE_WORDS, len(tokens) - index), 0, -1):
            start, end = tokens[index][0], tokens[index + length - 1][1]
            zone = zone_of(text[start:end])
            if zone:
                found.append((start, end, zone))
                index += length - 1
                break
        index += 1
    return found


def zone_of(place: str) -> str | None:
    """The zone of one place or zone name, in any case; None where it is neither."""
    wanted = " ".join(place.lower().replace("'s", "").split())
    named = _zones_by_lower_name().get(wanted.replace(" ", "_")) if "/" in wanted else None
    return named or _places().get(wanted.replace("_", " "))
