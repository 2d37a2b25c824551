"""A program that reads one untrusted file: `python -m mcpagent.history.intake.file_worker TASK`, bytes in, bytes out.

TASK is `scale:SIDE:BYTES` or `text`. It limits its own CPU time and memory, so that an image of a terapixel or an
endless PDF costs only this process. After a failure, the last line of its standard error is the reason.
"""

from __future__ import annotations

import io
import sys

from mcpagent.history.intake.budget import MAX_EXTRACTED

_CPU_SECONDS = 45
_MEMORY = 2 << 30
_MOST_PIXELS = 300_000_000
_MOST_PAGES = 2_000


def limit_process() -> None:
    """Limit CPU time and memory of this process, if the system supports that."""
    try:
        import resource
    except ImportError:
        return
    # The first signal, of the lower limit, tells the caller the reason.
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def small_picture(data: bytes, side: int, most: int) -> bytes:
    """Return the image with sides of at most `side` pixels and at most `most` bytes, after a line that describes it.

    Of an animation, only the first frame is used.
    """
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = (
        None  # the size is checked below, before anything is decoded
    )
    with Image.open(io.BytesIO(data)) as opened:
        before = opened.size
        if before[0] * before[1] > _MOST_PIXELS:
            raise ValueError(f"it has {before[0]:,} x {before[1]:,} pixels")
        opened.draft("RGB", (side, side))
        picture = ImageOps.exif_transpose(opened)
        has_alpha = "A" in picture.getbands() or "transparency" in picture.info
        picture = picture.convert("RGBA" if has_alpha else "RGB")
    if has_alpha or data[:4] == b"\x89PNG":
        form, media_type = "PNG", "image/png"
    else:
        form, media_type = "JPEG", "image/jpeg"
    while True:
        picture.thumbnail((side, side), reducing_gap=2.0)
        written = io.BytesIO()
        picture.save(written, form, optimize=False, quality=85)
        if written.tell() <= most or side < 64:
            break
        if form == "PNG" and not has_alpha:
            form, media_type = "JPEG", "image/jpeg"
        else:
            side = side * 7 // 10
    head = f"{media_type} {before[0]}x{before[1]} to {picture.width}x{picture.height}\n"
    return head.encode() + written.getvalue()


def text_of_pdf(data: bytes) -> bytes:
    """Return the text of the pages, each after a line with its page number."""
    from pypdf import PdfReader

    pages: list[str] = []
    length = 0
    for number, page in enumerate(PdfReader(io.BytesIO(data)).pages, 1):
        text = page.extract_text().strip()
        if text:
            pages.append(f"--- page {number} ---\n{text}")
        length += len(text)
        if length > MAX_EXTRACTED or number == _MOST_PAGES:
            pages.append(f"(the text of further pages is left out after page {number})")
            break
    return "\n\n".join(pages)[: 2 * MAX_EXTRACTED].encode("utf-8", "replace")


def main(task: str) -> int:
    """Run one task, and return the exit status."""
    limit_process()
    data = sys.stdin.buffer.read()
    name, _, sizes = task.partition(":")
    try:
        if name == "scale":
            side, _, most = sizes.partition(":")
            output = small_picture(data, int(side), int(most))
        else:
            output = text_of_pdf(data)
    except Exception as error:  # noqa: BLE001 - any file may come
        kind = type(error).__name__
        sys.stderr.write(
            "it cannot be read\n"
            if kind == "UnidentifiedImageError"
            else f"{kind}: {error}\n"
        )
        return 1
    sys.stdout.buffer.write(output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
