"""Colours: names, hex, RGB and HSL; contrast after WCAG 2.2."""

from __future__ import annotations

import colorsys
import re
from typing import Annotated

from pydantic import Field

from mcpagent.demo.errors import DemoToolError

Colour = Annotated[str, Field(description="Colour name such as teal, or hex such as #1e90ff", max_length=40)]

# The sixteen colours of HTML 4.01 and some that people name often (CSS Color Module Level 4).
_NAMED = {
    "black": "000000",
    "silver": "c0c0c0",
    "gray": "808080",
    "grey": "808080",
    "white": "ffffff",
    "maroon": "800000",
    "red": "ff0000",
    "purple": "800080",
    "fuchsia": "ff00ff",
    "magenta": "ff00ff",
    "green": "008000",
    "lime": "00ff00",
    "olive": "808000",
    "yellow": "ffff00",
    "navy": "000080",
    "blue": "0000ff",
    "teal": "008080",
    "aqua": "00ffff",
    "cyan": "00ffff",
    "orange": "ffa500",
    "pink": "ffc0cb",
    "brown": "a52a2a",
    "gold": "ffd700",
    "indigo": "4b0082",
    "violet": "ee82ee",
    "turquoise": "40e0d0",
    "salmon": "fa8072",
    "coral": "ff7f50",
    "crimson": "dc143c",
    "beige": "f5f5dc",
    "ivory": "fffff0",
    "khaki": "f0e68c",
    "lavender": "e6e6fa",
    "orchid": "da70d6",
    "tomato": "ff6347",
    "dodgerblue": "1e90ff",
    "skyblue": "87ceeb",
    "chocolate": "d2691e",
}
Rgb = tuple[int, int, int]


def parse_colour(text: str) -> Rgb:
    """Red, green and blue, 0 to 255. Raises `DemoToolError`."""
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
        other = parse_colour(name)
        return sum((one - two) ** 2 for one, two in zip(rgb, other, strict=True))

    return min(sorted(_NAMED), key=distance)


def describe_colour(colour: Colour) -> dict[str, str]:
    """Describe a colour as hex, RGB and HSL with its nearest name."""
    rgb = parse_colour(colour)
    hue, lightness, saturation = colorsys.rgb_to_hls(*(channel / 255 for channel in rgb))
    return {
        "hex": _hex(rgb),
        "rgb": f"rgb({rgb[0]}, {rgb[1]}, {rgb[2]})",
        "hsl": f"hsl({round(hue * 360)}, {round(saturation * 100)}%, {round(lightness * 100)}%)",
        "nearest_name": _nearest_name(rgb),
    }


def mix_colours(first: Colour, second: Colour) -> str:
    """Mix two colours half and half."""
    pairs = zip(parse_colour(first), parse_colour(second), strict=True)
    red, green, blue = ((one + two + 1) // 2 for one, two in pairs)
    mixed = (red, green, blue)
    return f"{first} and {second} mixed: {_hex(mixed)} (near {_nearest_name(mixed)})"


def _luminance(rgb: Rgb) -> float:
    linear = [c / 12.92 if (c := channel / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for channel in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast_ratio(foreground: Colour, background: Colour) -> str:
    """Calculate the contrast ratio of text and background colours after WCAG."""
    light, dark = sorted((_luminance(parse_colour(name)) for name in (foreground, background)), reverse=True)
    ratio = (light + 0.05) / (dark + 0.05)
    grade = "passes AAA" if ratio >= 7 else "passes AA" if ratio >= 4.5 else "fails AA for normal text"
    return f"{ratio:.2f}:1, {grade}"


def invert_colour(colour: Colour) -> str:
    """Find the opposite (inverted) colour."""
    red, green, blue = parse_colour(colour)
    return _hex((255 - red, 255 - green, 255 - blue))


TOOLS = (describe_colour, mix_colours, contrast_ratio, invert_colour)
