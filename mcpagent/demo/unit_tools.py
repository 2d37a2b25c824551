"""Units of measure. Factors are the exact SI definitions (BIPM SI brochure; international yard and pound, 1959)."""

from __future__ import annotations

import itertools
import operator
from typing import Annotated, Literal

from pydantic import Field

from mcpagent.demo import DemoToolError, data_table, number_text

Quantity = Literal[
    "length",
    "mass",
    "volume",
    "area",
    "speed",
    "duration",
    "data",
    "energy",
    "pressure",
    "temperature",
]

# Temperatures are not proportional: each unit has its own formulas to and from kelvin.
_TO_KELVIN = {
    "celsius": lambda degrees: degrees + 273.15,
    "fahrenheit": lambda degrees: (degrees + 459.67) * 5 / 9,
    "kelvin": lambda degrees: degrees,
}
_FROM_KELVIN = {
    "celsius": lambda kelvin: kelvin - 273.15,
    "fahrenheit": lambda kelvin: kelvin * 9 / 5 - 459.67,
    "kelvin": lambda kelvin: kelvin,
}
_TEMPERATURE_NAMES = {
    "c": "celsius",
    "f": "fahrenheit",
    "k": "kelvin",
    "centigrade": "celsius",
}


def _spellings(name: str, aliases: str) -> set[str]:
    first, _, rest = name.partition(" per ")
    if rest:
        plural = f"{first}s per {rest}"
    else:
        plural = f"{name}s"
    american = {word.replace("tre", "ter") for word in (name, plural)}
    aliases_and_plurals = {
        form for alias in aliases.split() for form in (alias, f"{alias}s")
    }
    return {name, plural, *american, *aliases_and_plurals}


_ROWS = data_table("units.csv")
_BY_SPELLING = {
    spelling: (row["quantity"], row["unit"], float(row["in the first unit"]))
    for row in _ROWS
    for spelling in _spellings(row["unit"], row["other spellings"])
}
UNIT_NAMES = {
    quantity: [row["unit"] for row in rows]
    for quantity, rows in itertools.groupby(_ROWS, operator.itemgetter("quantity"))
} | {"temperature": list(_TO_KELVIN)}
"""The names of the units, by the quantity that they measure."""


def _unit(text: str) -> tuple[str, str, float]:
    wanted = " ".join(
        text.lower().replace("_", " ").replace("°", "").replace("degrees", "").split()
    )
    wanted = wanted.replace("²", "2").replace("³", "3")
    if wanted in _BY_SPELLING:
        return _BY_SPELLING[wanted]
    wanted = _TEMPERATURE_NAMES.get(wanted, wanted)
    if wanted in _TO_KELVIN:
        return "temperature", wanted, 1
    raise DemoToolError(f"unknown unit {text!r}; list_units shows the known ones")


def convert_units(
    value: Annotated[float, Field(description="The amount to convert")],
    from_unit: Annotated[
        str,
        Field(description="Unit of the value, for example km, pounds, celsius, litres"),
    ],
    to_unit: Annotated[
        str,
        Field(
            description="Unit of the result, for example miles, kg, fahrenheit, gallons"
        ),
    ],
) -> str:
    """Convert a value between units of length, mass (weight), temperature, volume, area, speed, duration, data."""
    source_quantity, source, source_factor = _unit(from_unit)
    target_quantity, target, target_factor = _unit(to_unit)
    if source_quantity != target_quantity:
        raise DemoToolError(
            f"{source} measures {source_quantity} and {target} measures {target_quantity}"
        )
    if source_quantity == "temperature":
        kelvin = _TO_KELVIN[source](value)
        if kelvin < 0:
            raise DemoToolError(
                f"{number_text(value)} {source} is below absolute zero, which is 0 kelvin"
            )
        result = _FROM_KELVIN[target](kelvin)
    else:
        result = value * source_factor / target_factor
    return f"{number_text(value)} {source} = {float(f'{result:.6g}'):g} {target}"


def list_units(
    quantity: Annotated[Quantity, Field(description="What the units measure")],
) -> list[str]:
    """List the units that convert_units knows for one quantity."""
    return UNIT_NAMES[quantity]
