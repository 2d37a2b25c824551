"""Parse files of each kind as Markdown with pages and sections. Runs in a worker process, because the files are
untrusted.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from email import message_from_bytes, policy
from email.message import EmailMessage, Message, MIMEPart
from typing import Any
from urllib.parse import unquote

from mcpagent.documents.document_reading.file_kinds import decoded_text, document_kind
from mcpagent.documents.document_reading.text_parts import (
    DocumentText,
    Kind,
    Markup,
    TextPart,
)
from mcpagent.errors import DocumentReadError

MOST_CHARACTERS = 20_000_000
_MOST_UNPACKED = 256 << 20
_MOST_FILES = 10_000
_MOST_NESTED = 3
_NOT_TEXT = (
    "script",
    "style",
    "nav",
    "noscript",
    "template",
    "svg",
    "iframe",
    "footer",
)
_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


def parsed_document(data: bytes, kind: Kind, name: str, depth: int = 0) -> DocumentText:
    """Return the text of a file. Raises `DocumentReadError`, and any error of a parser."""
    if kind == "zip":
        kind = _kind_of_zip(data, name)
    if kind in _PLAIN:
        return DocumentText(kind, _PLAIN[kind], (TextPart(decoded_text(data)),))
    if kind == "email":
        title, parts = _email(data, depth)
    else:
        title, parts = _PARSERS[kind](data, name)
    kept: list[TextPart] = []
    length = 0
    for part in parts:
        length += len(part.text)
        if length > MOST_CHARACTERS:
            problem = f"its text is longer than {MOST_CHARACTERS:,} characters; split the file"
            raise DocumentReadError(name, problem, reason="too-large")
        if part.text.strip():
            kept.append(part)
    return DocumentText(kind, "markdown", tuple(kept), title.strip())


# -- pages ------------------------------------------------------------------------------------------------------------


def _pdf(data: bytes, name: str) -> tuple[str, Iterator[TextPart]]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        problem = "needs a password; save it without one"
        raise DocumentReadError(name, problem, reason="locked")
    title = ""
    if reader.metadata is not None:
        title = str(reader.metadata.title or "")
    return title, _pages_of_pdf(reader)


def _pages_of_pdf(reader: Any) -> Iterator[TextPart]:
    chapters = dict(_chapters(reader, reader.outline, ()))
    section: tuple[str, ...] = ()
    for number, page in enumerate(reader.pages):
        section = chapters.get(number, section)
        yield TextPart(page.extract_text(), number + 1, section)


def _chapters(
    reader: Any, outline: Sequence[Any], above: tuple[str, ...]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the page (from 0) at which each chapter of the outline begins, and its headings."""
    last = above
    for item in outline:
        if isinstance(item, list):
            yield from _chapters(reader, item, last)
        else:
            last = (*above, str(item.title))
            number = reader.get_destination_page_number(item)
            if number is not None and number >= 0:
                yield number, last


def _pptx(data: bytes, _name: str) -> tuple[str, Iterator[TextPart]]:
    import pptx

    deck = pptx.Presentation(io.BytesIO(data))
    return deck.core_properties.title or "", _slides(deck)


def _slides(deck: Any) -> Iterator[TextPart]:
    for number, slide in enumerate(deck.slides, 1):
        title = slide.shapes.title
        heading: tuple[str, ...] = ()
        if title is not None and title.text_frame.text.strip():
            heading = (title.text_frame.text.strip(),)
        texts = [
            _shape_text(shape)
            for shape in slide.shapes
            if title is None or shape.shape_id != title.shape_id
        ]
        if slide.has_notes_slide:
            texts.append(slide.notes_slide.notes_text_frame.text)
        text = "\n\n".join(text for text in texts if text.strip())
        yield TextPart(text or "\n".join(heading), number, heading)


def _shape_text(shape: Any) -> str:
    if shape.has_text_frame:
        return str(shape.text_frame.text)
    if getattr(shape, "has_table", False):
        rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
        return markdown_table(rows)
    if hasattr(shape, "shapes"):
        return "\n\n".join(_shape_text(inner) for inner in shape.shapes)
    return ""


def _xlsx(data: bytes, _name: str) -> tuple[str, Iterator[TextPart]]:
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    return book.properties.title or "", _sheets(book)


def _sheets(book: Any) -> Iterator[TextPart]:
    for sheet in book.worksheets:
        rows = [
            ["" if cell is None else str(cell) for cell in row]
            for row in sheet.iter_rows(values_only=True)
            if any(cell is not None for cell in row)
        ]
        yield TextPart(markdown_table(rows), None, (sheet.title,))


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table of Markdown; the first row is its head."""
    lines: list[str] = []
    for row in rows:
        cells = [" ".join(cell.replace("|", "\\|").split()) for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
        if len(lines) == 1:
            lines.append(f"|{' --- |' * len(cells)}")
    return "\n".join(lines)


# -- HTML, and what becomes HTML --------------------------------------------------------------------------------------


def _html(data: bytes | str, _name: str = "") -> tuple[str, Iterator[TextPart]]:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    page = BeautifulSoup(data, "html.parser")
    title = ""
    if page.title is not None:
        title = page.title.get_text()
    for tag in page.find_all([*_NOT_TEXT, "title"]):
        tag.decompose()
    converter = MarkdownConverter(
        heading_style="ATX",
        strip=["a", "img"],
        escape_asterisks=False,
        escape_underscores=False,
    )
    text = converter.convert_soup(page.find("main") or page.body or page)
    return title, iter((TextPart(text),))


def _docx(data: bytes, _name: str) -> tuple[str, Iterator[TextPart]]:
    import mammoth

    without_images = mammoth.images.img_element(lambda image: {})  # noqa: ARG005 - called with an image
    html = mammoth.convert_to_html(io.BytesIO(data), convert_image=without_images).value
    return _html(html)


def _epub(data: bytes, _name: str) -> tuple[str, Iterator[TextPart]]:
    book = zipfile.ZipFile(io.BytesIO(data))
    container = _xml(book.read("META-INF/container.xml"))
    package_path = container.find(f".//{_CONTAINER}rootfile").get("full-path")
    package = _xml(book.read(package_path))
    title = package.find(f".//{_TITLE}")
    shown = "" if title is None else title.text or ""
    return shown, _chapters_of_book(book, package, posixpath.dirname(package_path))


def _chapters_of_book(
    book: zipfile.ZipFile, package: Any, folder: str
) -> Iterator[TextPart]:
    items = {
        item.get("id"): item.get("href") for item in package.iter(f"{_PACKAGE}item")
    }
    for reference in package.iter(f"{_PACKAGE}itemref"):
        path = posixpath.normpath(
            posixpath.join(folder, unquote(items[reference.get("idref")]))
        )
        _, parts = _html(book.read(path))
        yield from parts


def _xml(data: bytes) -> Any:
    from lxml import etree

    return etree.fromstring(
        data, etree.XMLParser(resolve_entities=False, no_network=True)
    )


# -- e-mail -----------------------------------------------------------------------------------------------------------


def _email(data: bytes, depth: int) -> tuple[str, Iterator[TextPart]]:
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return str(message["Subject"] or ""), _parts_of_message(message, depth)


def _parts_of_message(message: EmailMessage, depth: int) -> Iterator[TextPart]:
    names = ("From", "To", "Cc", "Date", "Subject")
    head = "\n".join(f"{name}: {message[name]}" for name in names if message[name])
    body = message.get_body(("plain", "html"))
    text = ""
    if body is not None and body.get_content_type() == "text/html":
        _, parts = _html(_payload(body))
        text = "\n\n".join(part.text for part in parts)
    elif body is not None:
        text = decoded_text(_payload(body))
    yield TextPart(f"{head}\n\n{text}")
    if depth < _MOST_NESTED:
        for attachment in message.iter_attachments():
            yield from _parts_of_attachment(attachment, depth + 1)


def _parts_of_attachment(attachment: MIMEPart, depth: int) -> Iterator[TextPart]:
    data, name = _payload(attachment), attachment.get_filename() or "attachment"
    kind = document_kind(data, name)
    if kind is None or not data:
        return
    for part in parsed_document(data, kind, name, depth).parts:
        yield TextPart(part.text, part.page, (name, *part.section))


def _payload(part: MIMEPart) -> bytes:
    """Return the decoded bytes of a part. A text is in UTF-8, and an attached message is its source."""
    inner = part.get_payload()
    if isinstance(inner, list):
        return b"".join(one.as_bytes() for one in inner if isinstance(one, Message))
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return b""
    charset = part.get_content_charset()
    if charset is None or part.get_content_maintype() != "text":
        return data
    try:
        return data.decode(charset, "replace").encode()
    except LookupError:
        return data


# -- Office files and books are ZIP files -----------------------------------------------------------------------------


def _kind_of_zip(data: bytes, name: str) -> Kind:
    """Return the kind of a ZIP file by its members. Raises `DocumentReadError` for a bomb or an unsupported kind."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    if unpacked > _MOST_UNPACKED or len(members) > _MOST_FILES:
        problem = f"unpacks to {len(members):,} files of {unpacked:,} bytes; at most {_MOST_UNPACKED:,}"
        raise DocumentReadError(name, problem, reason="unpacks-too-large")
    names = {member.filename for member in members}
    for member_name, kind in _OFFICE.items():
        if member_name in names:
            return kind
    problem = "is a ZIP file, not a document; unpack it first"
    raise DocumentReadError(name, problem, reason="unknown-kind")


_OFFICE: dict[str, Kind] = {
    "word/document.xml": "docx",
    "ppt/presentation.xml": "pptx",
    "xl/workbook.xml": "xlsx",
    "META-INF/container.xml": "epub",
}

_PLAIN: dict[Kind, Markup] = {
    "markdown": "markdown",
    "text": "text",
    "python": "python",
}

_PARSERS: dict[Kind, Callable[[bytes, str], tuple[str, Iterator[TextPart]]]] = {
    "pdf": _pdf,
    "pptx": _pptx,
    "xlsx": _xlsx,
    "html": _html,
    "docx": _docx,
    "epub": _epub,
}
