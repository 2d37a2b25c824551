"""Units of measure. Factors are the exact SI definitions (BIPM SI brochure; international yard and pound, 1959)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mcpagent.demo.errors import DemoToolError
from mcpagent.demo.numbers import shown

Quantity = Literal["length", "mass", "volume", "area", "speed", "duration", "data", "energy", "pressure", "temperature"]

_UNITS: dict[str, tuple[tuple[str, float, str], ...]] = {
    "length": (
        ("metre", 1, "m meter"),
        ("kilometre", 1000, "km kilometer"),
        ("centimetre", 0.01, "cm centimeter"),
        ("millimetre", 0.001, "mm millimeter"),
        ("mile", 1609.344, "mi"),
        ("yard", 0.9144, "yd"),
        ("foot", 0.3048, "ft feet"),
        ("inch", 0.0254, "in inches"),
        ("nautical mile", 1852, "nmi"),
    ),
    "mass": (
        ("kilogram", 1, "kg kilo"),
        ("gram", 0.001, "g"),
        ("milligram", 1e-6, "mg"),
        ("tonne", 1000, "t ton"),
        ("pound", 0.45359237, "lb lbs"),
        ("ounce", 0.028349523125, "oz"),
        ("stone", 6.35029318, "st"),
    ),
    "volume": (
        ("litre", 1, "l liter"),
        ("millilitre", 0.001, "ml milliliter"),
        ("cubic metre", 1000, "m3"),
        ("gallon", 3.785411784, "gal us-gallon"),
        ("pint", 0.473176473, "pt us-pint"),
        ("cup", 0.2365882365, "us-cup"),
        ("fluid ounce", 0.0295735295625, "floz"),
        ("tablespoon", 0.01478676478125, "tbsp"),
        ("teaspoon", 0.00492892159375, "tsp"),
    ),
    "area": (
        ("square metre", 1, "m2 sqm"),
        ("square kilometre", 1e6, "km2"),
        ("hectare", 10_000, "ha"),
        ("acre", 4046.8564224, "ac"),
        ("square foot", 0.09290304, "ft2 sqft"),
    ),
    "speed": (
        ("metre per second", 1, "m/s mps"),
        ("kilometre per hour", 1 / 3.6, "km/h kmh kph"),
        ("mile per hour", 0.44704, "mph mi/h"),
        ("knot", 1852 / 3600, "kn kt"),
    ),
    "duration": (
        ("second", 1, "s sec"),
        ("millisecond", 0.001, "ms"),
        ("minute", 60, "min"),
        ("hour", 3600, "h hr"),
        ("day", 86_400, "d"),
        ("week", 604_800, "wk"),
        ("year", 31_557_600, "yr"),
    ),
    "data": (
        ("byte", 1, "b"),
        ("kilobyte", 1000, "kb"),
        ("megabyte", 1e6, "mb"),
        ("gigabyte", 1e9, "gb"),
        ("terabyte", 1e12, "tb"),
        ("kibibyte", 1024, "kib"),
        ("mebibyte", 1024**2, "mib"),
        ("gibibyte", 1024**3, "gib"),
        ("bit", 0.125, "bits"),
    ),
    "energy": (
        ("joule", 1, "j"),
        ("kilojoule", 1000, "kj"),
        ("calorie", 4.184, "cal"),
        ("kilocalorie", 4184, "kcal"),
        ("kilowatt hour", 3.6e6, "kwh"),
    ),
    "pressure": (
        ("pascal", 1, "pa"),
        ("bar", 100_000, "bars"),
        ("atmosphere", 101_325, "atm"),
        ("psi", 6894.757293168, "lbf/in2"),
    ),
}
# Temperatures are not proportional: to and from kelvin each has a formula of its own.
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
_TEMPERATURE_NAMES = {"c": "celsius", "f": "fahrenheit", "k": "kelvin", "centigrade": "celsius"}


def _spellings(name: str, aliases: str) -> set[str]:
    first, _, rest = name.partition(" per ")
    plural = f"{first}s per {rest}" if rest else f"{name}s"
    american = {word.replace("tre", "ter") for word in (name, plural)}
    aliases_and_plurals = {form for alias in aliases.split() for form in (alias, f"{alias}s")}
    return {name, plural, *american, *aliases_and_plurals}


_BY_SPELLING = {
    spelling: (quantity, name, factor)
    for quantity, units in _UNITS.items()
    for name, factor, aliases in units
    for spelling in _spellings(name, aliases)
}


def _unit(text: str) -> tuple[str, str, float]:
    wanted = " ".join(text.lower().replace("_", " ").replace("°", "").replace("degrees", "").split())
    wanted = wanted.replace("²", "2").replace("³", "3")
    if wanted in _BY_SPELLING:
        return _BY_SPELLING[wanted]
    wanted = _TEMPERATURE_NAMES.get(wanted, wanted)
    if wanted in _TO_KELVIN:
        return "temperature", wanted, 1
    raise DemoToolError(f"unknown unit {text!r}; list_units shows the known ones")


def convert_units(
    value: Annotated[float, Field(description="The amount to convert")],
    from_unit: Annotated[str, Field(description="Unit of the value, for example km, pounds, celsius, litres")],
    to_unit: Annotated[str, Field(description="Unit of the result, for example miles, kg, fahrenheit, gallons")],
) -> str:
    """Convert a value between units of length, mass (weight), temperature, volume, area, speed, duration, data."""
    source_quantity, source, source_factor = _unit(from_unit)
    target_quantity, target, target_factor = _unit(to_unit)
    if source_quantity != target_quantity:
        raise DemoToolError(f"{source} measures {source_quantity} and {target} measures {target_quantity}")
    if source_quantity == "temperature":
        result = _FROM_KELVIN[target](_TO_KELVIN[source](value))
    else:
        result = value * source_factor / target_factor
    return f"{shown(value)} {source} = {float(f'{result:.6g}'):g} {target}"


def unit_names() -> dict[str, list[str]]:
    """The names of the units by the quantity that they measure."""
    return {quantity: [name for name, _, _ in known] for quantity, known in _UNITS.items()} | {
        "temperature": list(_TO_KELVIN)
    }


def plural(name: str) -> str:
    """`miles per hour` for `mile per hour`."""
    first, _, rest = name.partition(" per ")
    if first in ("foot", "square foot"):
        first = first.replace("foot", "feet")
    elif first not in ("celsius", "fahrenheit", "kelvin", "psi"):
        first += "es" if first.endswith("ch") else "s"
    return f"{first} per {rest}" if rest else first


def list_units(quantity: Annotated[Quantity, Field(description="What the units measure")]) -> list[str]:
    """List the units that convert_units knows for one quantity."""
    return list(_TO_KELVIN) if quantity == "temperature" else [name for name, _, _ in _UNITS[quantity]]


TOOLS = (convert_units, list_units)
