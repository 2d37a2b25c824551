"""URLs of servers, checked before anything connects to them."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit, urlunsplit

from mcpagent.config.documents import Document
from mcpagent.config.jsonc import ValuePath
from mcpagent.safe_text import safe_line


def checked_url(url: str, path: ValuePath, document: Document) -> tuple[str, str]:
    """The URL without credentials, and an Authorization header value for those it had."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise document.error(path, f"not a URL: {safe_line(str(error), 80)}") from None
    if any(ord(char) <= 0x20 or ord(char) == 0x7F for char in url):
        raise document.error(path, "contains a space or control character; remove it")
    if "://" not in url:
        raise document.error(path, f"write http://{safe_line(_without_credentials(url), 80)}")
    if parts.scheme not in ("http", "https"):
        raise document.error(path, f'only http and https URLs, got "{safe_line(parts.scheme, 20)}"')
    if not parts.hostname:
        raise document.error(path, "has no host; write https://host/path")
    if "@" not in parts.netloc:
        return url, ""
    from base64 import b64encode

    user_and_password = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    return urlunsplit(parts._replace(netloc=netloc)), "Basic " + b64encode(user_and_password.encode()).decode()


def _without_credentials(url: str) -> str:
    return url.rpartition("@")[2]
