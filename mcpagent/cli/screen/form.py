"""The fields of a server's form: describe each field, and parse the typed text as its value.

The schema comes from a server and is flat: texts, numbers, yes or no, and choices (MCP, `elicitation/create`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from mcpagent.run.validation import argument_problem
from mcpagent.utilities.json_schema.parts import required_of
from mcpagent.utilities.text.safe_text import safe_line

MAX_FIELDS = 20
MAX_CHOICES = 50
MAX_TITLE, MAX_ABOUT = 60, 300
"""Maximum number of characters of a field's name and description; a form that exceeds them is declined, not
truncated.
"""

_SECRET = re.compile(
    r"pass.?(word|phrase|code|wort)|kennwort|mot de passe|contrase|secret|token|api.?key|\b(pin|otp|cvv|cvc|2fa)\b"
    r"|credential|private.?key|(card|account|security).?(number|code)|one.?time.?code",
    re.IGNORECASE,
)

_FORMATS: Mapping[str, tuple[str, Callable[[str], object], str]] = {
    "email": (
        "an e-mail address",
        re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}").fullmatch,
        "write an e-mail address",
    ),
    "uri": (
        "an address",
        lambda text: urlsplit(text).scheme,
        "write an address, https://...",
    ),
    "date": ("a date, 2026-01-31", date.fromisoformat, "write it as 2026-01-31"),
    "date-time": ("a time", datetime.fromisoformat, "write it as 2026-01-31T12:00:00Z"),
}
"""Formats of text fields: the name, the check, and the message if the check fails."""


class UnfitError(Exception):
    """Raised if typed text is no valid value of a field, or a form cannot be shown; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form. `choices` are (value, displayed text); `many`: several choices are allowed."""

    name: str
    rule: Mapping[str, Any]
    required: bool
    kind: str
    choices: tuple[tuple[str, str], ...] = ()
    many: bool = False

    @property
    def looks_secret(self) -> bool:
        """True if the field's texts suggest a password or a key, which a form must not request."""
        return looks_secret(
            f"{self.name} {self.rule.get('title', '')} {self.rule.get('description', '')}"
        )

    def title(self) -> str:
        """Return `city - Where to (text, 3 to 20 characters)`, in one printable line."""
        name = safe_line(str(self.rule.get("title") or self.name), MAX_TITLE)
        about = safe_line(str(self.rule.get("description") or ""), MAX_ABOUT)
        takes = ", ".join(
            (self._takes(), *(() if self.required else ("may be left empty",)))
        )
        return f"{name}{f' - {about}' if about else ''} ({takes})"

    def choice_lines(self) -> list[str]:
        """Return lines such as `1. Rome`, with the number to type, and the value if it differs from the shown text."""
        return [
            f"{place}. {safe_line(shown, 80)}{f' ({safe_line(value, 80)})' if value != shown else ''}"
            for place, (value, shown) in enumerate(self.choices, start=1)
        ]

    def default(self) -> str:
        """Return the default, which Enter accepts, as text."""
        value = self.rule.get("default")
        if isinstance(value, bool):
            if value:
                return "yes"
            return "no"
        if isinstance(value, list):
            return ", ".join(safe_line(str(item), 60) for item in value)
        if isinstance(value, str | int | float):
            return safe_line(str(value), 200)
        return ""

    def value(self, typed: str) -> Any:
        """Return the typed value; None for a field that was left empty. Raises `UnfitError`."""
        text = typed.strip()
        if not text:
            if self.required:
                raise UnfitError("it must be given; Ctrl-D takes the whole form back")
            return None
        value = self._parsed(text)
        rule = {
            key: item
            for key, item in self.rule.items()
            if key not in ("format", "default")
        }
        schema = {
            "type": "object",
            "properties": {self.name: rule},
            "required": [self.name],
        }
        if not self.choices and (
            problem := argument_problem(schema, {self.name: value})
        ):
            raise UnfitError(safe_line(problem, 200))
        _, fits, hint = _FORMATS.get(str(self.rule.get("format")), ("", str, ""))
        try:
            if isinstance(value, str) and not fits(value):
                raise UnfitError(hint)
        except ValueError:
            raise UnfitError(hint) from None
        return value

    def _parsed(self, text: str) -> Any:
        if self.choices:
            return self._chosen(text)
        match self.kind:
            case "boolean":
                answers = {
                    "y": True,
                    "yes": True,
                    "true": True,
                    "n": False,
                    "no": False,
                    "false": False,
                }
                if text.lower() not in answers:
                    raise UnfitError("answer yes or no")
                return answers[text.lower()]
            case "integer" | "number":
                try:
                    value = (
                        int(text)
                        if self.kind == "integer" or text.lstrip("+-").isdecimal()
                        else float(text)
                    )
                except ValueError:
                    value = math.nan
                if isinstance(value, float) and not math.isfinite(value):
                    raise UnfitError(
                        f"write {'a whole number' if self.kind == 'integer' else 'a number'}"
                    )
                return value
            case _:
                return text

    def _chosen(self, text: str) -> Any:
        if not self.many:
            return self._choice(text)
        values = [
            self._choice(piece.strip()) for piece in text.split(",") if piece.strip()
        ]
        least, most = self.rule.get("minItems"), self.rule.get("maxItems")
        if isinstance(least, int) and len(values) < least:
            raise UnfitError(f"choose {least} or more, with commas between them")
        if isinstance(most, int) and len(values) > most:
            raise UnfitError(f"choose {most} at most")
        return values

    def _choice(self, text: str) -> str:
        """Return the value of the choice that the text names by number, displayed text or value. Raises
        `UnfitError`.
        """
        if text.isdecimal() and 1 <= int(text) <= len(self.choices):
            return self.choices[int(text) - 1][0]
        for place in (1, 0):
            for choice in self.choices:
                if text.lower() == choice[place].lower():
                    return choice[0]
        raise UnfitError(f"choose one of 1 to {len(self.choices)}")

    def _takes(self) -> str:
        if self.choices:
            if self.many:
                return "choices, with commas between them"
            return "a choice"
        words = {
            "boolean": "yes or no",
            "integer": "a whole number",
            "number": "a number",
        }.get(self.kind, "text")
        words = _FORMATS.get(str(self.rule.get("format")), (words, str, ""))[0]
        is_text = self.kind == "string"
        low, high = (
            self.rule.get(key)
            for key in (
                ("minLength", "maxLength") if is_text else ("minimum", "maximum")
            )
        )
        bounds = []
        if _is_number(low):
            bounds = [f"from {low:g}"]
        if _is_number(high):
            bounds += [f"up to {high:g}"]
        if not bounds:
            return words
        unit = ""
        if is_text:
            unit = " characters"
        return f"{words}, {' '.join(bounds)}{unit}"


def looks_secret(words: str) -> bool:
    """Return whether the words suggest a password, a key or a payment card."""
    return _SECRET.search(words) is not None


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """Return the fields of a form, in the form's order. Raises `UnfitError` for an invalid schema."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(properties) > MAX_FIELDS:
        raise UnfitError(f"it is no form with up to {MAX_FIELDS} fields")
    required = required_of(schema)
    return [
        _field(str(name), rule, str(name) in required)
        for name, rule in properties.items()
    ]


def _field(name: str, rule: Any, required: bool) -> Field:
    shown = f'field "{safe_line(name, 40)}"'
    if not isinstance(rule, Mapping):
        raise UnfitError(f"{shown} is not described")
    kind = rule.get("type")
    if kind == "array":
        items = rule.get("items")
        choices = _choices(items) if isinstance(items, Mapping) else ()
        if not choices:
            raise UnfitError(f"{shown} is a list of something other than choices")
        return _whole(Field(name, rule, required, "array", choices, many=True))
    if kind not in ("string", "integer", "number", "boolean"):
        raise UnfitError(f"{shown} is of a kind that a form cannot have")
    return _whole(Field(name, rule, required, str(kind), _choices(rule)))


def _whole(field: Field) -> Field:
    """Return the field if it can be shown completely. Raises `UnfitError`."""
    shown = f'field "{safe_line(field.name, 40)}"'
    if len(str(field.rule.get("title") or field.name)) > MAX_TITLE:
        raise UnfitError(f"{shown} has a name of more than {MAX_TITLE} characters")
    if len(str(field.rule.get("description") or "")) > MAX_ABOUT:
        raise UnfitError(
            f"{shown} has a description of more than {MAX_ABOUT} characters"
        )
    if len(field.choices) > MAX_CHOICES:
        raise UnfitError(f"{shown} has more than {MAX_CHOICES} choices")
    return field


def _choices(rule: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    values = rule.get("enum")
    if isinstance(values, list):
        shown = rule.get("enumNames")
        names: Sequence[Any] = (
            shown if isinstance(shown, list) and len(shown) == len(values) else values
        )
        return tuple(
            (str(value), str(name)) for value, name in zip(values, names, strict=True)
        )
    options = rule.get("oneOf") or rule.get("anyOf")
    if isinstance(options, list):
        found = [
            option
            for option in options
            if isinstance(option, Mapping) and "const" in option
        ]
        return tuple(
            (str(item["const"]), str(item.get("title") or item["const"]))
            for item in found
        )
    return ()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
