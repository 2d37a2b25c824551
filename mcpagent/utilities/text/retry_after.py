"""Parse the `Retry-After` header; shared by model providers and MCP servers."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
"""A number of seconds; more digits would mean years, which no server intends."""


def retry_after_seconds(
    headers: Mapping[str, str], now: float | None = None
) -> float | None:
    """Return the seconds to wait: from `retry-after-ms`, else from `retry-after` in seconds or as an HTTP date (RFC
    9110, 10.2.3).

    Pass lower-case header names, or a mapping that ignores case. `now` is in seconds since 1970. Never negative: 0 for
    a date in the past. None if there is neither a number nor a date.
    """
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        if _NUMBER.fullmatch(told := headers.get(name, "").strip()):
            return float(told) / divisor
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return max(moment - (time.time() if now is None else now), 0.0)
