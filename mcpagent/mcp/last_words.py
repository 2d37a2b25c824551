"""Which of the last lines on a server's standard error say why it ended.

Most programs say it last. npm and Node.js add to it: where a log is, what is newer, the stack, their version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_CHATTER = re.compile(
    r"npm (?:notice|warn|WARN)\b|npm (?:error|ERR!) (?:A complete log of this run|$)|npm (?:error|ERR!)$"
)
_NPM = re.compile(r"npm (?:error|ERR!) (?:\d{3} )?(?P<words>(?!code |errno |syscall |path |command |\d{3}$).+)")
_NODE_ERROR = re.compile(r"(?:Uncaught )?[A-Za-z]{0,40}(?:Error|Exception)\b")


def telling_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Those that say something about the failure; all where none does."""
    return tuple(line for line in lines if not _CHATTER.match(line)) or tuple(lines)


def telling_line(lines: Sequence[str]) -> str:
    """The line that says most; "" where there is none."""
    if not lines:
        return ""
    if (found := next((match for line in lines if (match := _NPM.match(line))), None)) is not None:
        return found["words"]
    if lines[-1].startswith("Node.js v"):
        return next((line for line in reversed(lines) if _NODE_ERROR.match(line)), lines[-1])
    return lines[-1]
