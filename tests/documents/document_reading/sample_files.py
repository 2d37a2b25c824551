"""Small files of each kind, and hostile ones."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def packed(members: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP file with these members."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def _paragraph(text: str, style: str = "") -> str:
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{named}<w:r><w:t>{text}</w:t></w:r></w:p>"


def _relation(kind: str, target: str) -> str:
    relation = f'<Relationship Id="r1" Type="{_OFFICE}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{_RELATIONS}">{relation}</Relationships>'


def docx() -> bytes:
    """Return a Word file with a heading, a paragraph and a table."""
    cells = "".join(
        f"<w:tr>{''.join(f'<w:tc>{_paragraph(cell)}</w:tc>' for cell in row)}</w:tr>"
        for row in (("Fruit", "Price"), ("apple", "3"))
    )
    body = _paragraph("Fruits", "Heading1") + _paragraph("Prices of fruits.") + f"<w:tbl>{cells}</w:tbl>"
    part = 'PartName="/word/document.xml"'
    style = '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
    return packed(
        {
            "[Content_Types].xml": f'<Types xmlns="{_TYPES}"><Override {part} ContentType="{_MAIN}"/></Types>',
            "_rels/.rels": _relation("officeDocument", "word/document.xml"),
            "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
            "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{style}</w:styles>',
            "word/_rels/document.xml.rels": _relation("styles", "styles.xml"),
        }
    )


def pptx() -> bytes:
    """Return a presentation of two slides; the second has a table and notes."""
    from pptx import Presentation
    from pptx.util import Inches

    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text, first.placeholders[1].text = "Welcome", "To the fruits"
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Prices"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for row, cells in enumerate((("Fruit", "Price"), ("apple", "3"))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    second.notes_slide.notes_text_frame.text = "Say it slowly."
    written = io.BytesIO()
    deck.save(written)
    return written.getvalue()


def xlsx() -> bytes:
    """Return a workbook of two sheets."""
    from openpyxl import Workbook

    book = Workbook()
    book.active.title = "Fruits"
    for row in (("Fruit", "Price"), ("apple | green", 3), (None, None), ("pear", 2.5)):
        book.active.append(row)
    book.create_sheet("Other").append(("only",))
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def _container(package: str) -> str:
    files = f'<rootfiles><rootfile full-path="{package}"/></rootfiles>'
    return f'<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">{files}</container>'


def epub() -> bytes:
    """Return a book of two chapters; its list of files has another order than its reading order."""
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata>'
        '<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">A Book</dc:title></metadata>'
        '<manifest><item id="two" href="two%20b.xhtml"/><item id="one" href="one.xhtml"/></manifest>'
        '<spine><itemref idref="one"/><itemref idref="two"/></spine></package>'
    )
    page = "<html><body><h1>{0}</h1><p>Text of {0}.</p></body></html>"
    return packed(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": _container("O/a.opf"),
            "O/a.opf": package,
            "O/one.xhtml": page.format("One"),
            "O/two b.xhtml": page.format("Two"),
        }
    )


EMAIL = b"""From: Ann <ann@example.test>
To: bob@example.test
Date: Mon, 5 Jan 2026 10:00:00 +0000
Subject: =?utf-8?q?Caf=C3=A9?=
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: text/html; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

<p>Meet at the caf=E9.</p>
--b
Content-Type: text/markdown; name="notes.md"
Content-Disposition: attachment; filename="notes.md"

# Notes

Bring fruits.
--b--
"""

HTML = b"""<!DOCTYPE html><html><head><title>Fruits &amp; more</title><script>alert(1)</script></head>
<body><nav>Home</nav><main><h1>Fruits</h1><p>Prices of <a href="/x">fruits</a>.</p>
<table><tr><th>Fruit</th><th>Price</th></tr><tr><td>apple</td><td>3</td></tr></table>
<pre><code>a = 1
b_c = 2</code></pre></main><footer>Impressum</footer></body></html>"""


def zip_bomb() -> bytes:
    """Return a small Word file that unpacks to 300 MB."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
    return written.getvalue()


def lying_zip_bomb() -> bytes:
    """Return a Word file whose directory states a size of 10 bytes for a member of 300 MB."""
    data = bytearray(packed({"word/document.xml": bytes(300 << 20)}))
    size = (300 << 20).to_bytes(4, "little")
    while (at := data.find(size)) >= 0:
        data[at : at + 4] = (10).to_bytes(4, "little")
    return bytes(data)


def deep_html() -> bytes:
    """Return HTML of 10,000 levels."""
    return b"<html><body>" + b"<div>" * 10_000 + b"deep" + b"</div>" * 10_000


def pdf_bomb() -> bytes:
    """Return a PDF whose small page unpacks to 300 MB."""
    packer = zlib.compressobj()
    stream = b"".join([*(packer.compress(b"q " * (1 << 19)) for _ in range(300)), packer.flush()])
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
        b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    data, places = b"%PDF-1.4\n", list[int]()
    for number, item in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    table = b"xref\n0 5\n0000000000 65535 f \n%s" % rows
    return data + table + b"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(data)


def laughing_epub() -> bytes:
    """Return a book whose package has a billion entities in eight lines."""
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    package = f'<!DOCTYPE p [<!ENTITY e0 "ha">{entities}]><package xmlns="http://www.idpf.org/2007/opf">&e9;</package>'
    return packed({"META-INF/container.xml": _container("a.opf"), "a.opf": package})
