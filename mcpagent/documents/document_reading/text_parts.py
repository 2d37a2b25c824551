"""The text of a file or page as values, and as JSON between processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "markdown",
    "text",
    "python",
    "html",
    "pdf",
    "docx",
    "pptx",
    "xlsx",
    "epub",
    "email",
    "zip",
]
"""The kind of a file; `zip` is an Office file or an EPUB that has not been opened."""

Markup: TypeAlias = Literal["markdown", "text", "python"]
"""The markup by which a text is split into chunks."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A page, slide, sheet or chapter, with its headings from the outermost one; `page` counts from 1."""

    text: str
    page: int | None = None
    section: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a file or page. `title` is "" if the file has no title."""

    kind: Kind
    markup: Markup
    parts: tuple[TextPart, ...]
    title: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON."""
        parts = [[part.text, part.page, list(part.section)] for part in self.parts]
        return {
            "kind": self.kind,
            "markup": self.markup,
            "parts": parts,
            "title": self.title,
        }

    @staticmethod
    def from_json(found: dict[str, Any]) -> DocumentText:
        """Return the value of this JSON."""
        parts = tuple(
            TextPart(text, page, tuple(section))
            for text, page, section in found["parts"]
        )
        return DocumentText(found["kind"], found["markup"], parts, found["title"])
