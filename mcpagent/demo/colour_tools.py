"""Colours: names, hex, RGB and HSL; contrast after WCAG 2.2."""

from __future__ import annotations

import colorsys
import re
from typing import Annotated

from pydantic import Field

from mcpagent.demo import DemoToolError, data_table

Colour = Annotated[
    str,
    Field(
        description="Colour name such as teal, or hex such as #1e90ff", max_length=40
    ),
]

_NAMED = {row["name"]: row["hex"] for row in data_table("colours.csv")}
"""The sixteen colours of HTML 4.01 and some that people name often (CSS Color Module Level 4)."""

Rgb = tuple[int, int, int]


def _parsed(text: str) -> Rgb:
    """Return red, green and blue, from 0 to 255. Raises `DemoToolError`."""
    cleaned = text.strip().lower().replace(" ", "")
    digits = _NAMED.get(cleaned, cleaned.lstrip("#"))
    if re.fullmatch(r"[0-9a-f]{3}", digits):
        digits = "".join(char * 2 for char in digits)
    if re.fullmatch(r"[0-9a-f]{6}", digits):
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    channels = re.fullmatch(r"rgb\((\d{1,3}),(\d{1,3}),(\d{1,3})\)", cleaned)
    if channels and all(int(channel) <= 255 for channel in channels.groups()):
        return int(channels[1]), int(channels[2]), int(channels[3])
    raise DemoToolError(
        f"unknown colour {text!r}; use #rrggbb, rgb(r, g, b) or a name such as {', '.join(sorted(_NAMED)[:6])}"
    )


def _hex(rgb: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def _nearest_name(rgb: Rgb) -> str:
    def distance(name: str) -> int:
        other = _parsed(name)
        return sum((one - two) ** 2 for one, two in zip(rgb, other, strict=True))

    return min(sorted(_NAMED), key=distance)


def describe_colour(colour: Colour) -> dict[str, str]:
    """Describe a colour as hex, RGB and HSL with its nearest name."""
    rgb = _parsed(colour)
    hue, lightness, saturation = colorsys.rgb_to_hls(
        *(channel / 255 for channel in rgb)
    )
    return {
        "hex": _hex(rgb),
        "rgb": f"rgb({rgb[0]}, {rgb[1]}, {rgb[2]})",
        "hsl": f"hsl({round(hue * 360)}, {round(saturation * 100)}%, {round(lightness * 100)}%)",
        "nearest_name": _nearest_name(rgb),
    }


def mix_colours(first: Colour, second: Colour) -> str:
    """Mix two colours half and half."""
    pairs = zip(_parsed(first), _parsed(second), strict=True)
    red, green, blue = ((one + two + 1) // 2 for one, two in pairs)
    mixed = (red, green, blue)
    return f"{first} and {second} mixed: {_hex(mixed)} (near {_nearest_name(mixed)})"


def _luminance(rgb: Rgb) -> float:
    linear = [
        c / 12.92 if (c := channel / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for channel in rgb
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast_ratio(foreground: Colour, background: Colour) -> str:
    """Calculate the contrast ratio of text and background colours after WCAG."""
    light, dark = sorted(
        (_luminance(_parsed(name)) for name in (foreground, background)), reverse=True
    )
    ratio = (light + 0.05) / (dark + 0.05)
    if ratio >= 7:
        grade = "passes AAA"
    elif ratio >= 4.5:
        grade = "passes AA"
    else:
        grade = "fails AA for normal text"
    return f"{ratio:.2f}:1, {grade}"


def invert_colour(colour: Colour) -> str:
    """Find the opposite (inverted) colour."""
    red, green, blue = _parsed(colour)
    return _hex((255 - red, 255 - green, 255 - blue))
