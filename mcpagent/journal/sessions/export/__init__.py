"""Export a conversation as a file: JSON for programs, Markdown and an HTML page for people.

`transcript.py` builds one value from the stored session, without secrets; each format is a pure function of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

from mcpagent.errors import InputError
from mcpagent.journal.sessions.export.json_document import as_json
from mcpagent.journal.sessions.export.markdown_text import as_markdown
from mcpagent.journal.sessions.export.transcript import Transcript
from mcpagent.journal.sessions.export.web_page import as_html
from mcpagent.journal.sessions.loaded_session import LoadedSession
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide_environment

ExportForm: TypeAlias = Literal["md", "json", "html"]
"""The formats of an export, which are also the file extensions."""

FORMS: tuple[ExportForm, ...] = get_args(ExportForm)

_WRITERS: Mapping[str, Callable[[Transcript], str]] = {
    "md": as_markdown,
    "json": as_json,
    "html": as_html,
}


def exported(session: LoadedSession, form: str, *, now: float | None = None) -> str:
    """Return the conversation as the text of a file: a stored one (`store.read(id)`), or a `Session.snapshot()`.

    Secrets that mcpagent knows, those of the environment, and text in the format of issuers' keys are replaced. `now`
    is in seconds since 1970. Raises `InputError` if the form is not "md", "json" or "html", and for values that no
    version of mcpagent wrote.
    """
    if form not in _WRITERS:
        raise InputError(
            f'export: no format "{safe_line(form, 20)}"; there are {", ".join(FORMS)}'
        )
    return _WRITERS[form](transcript_of(session, now=now))


def transcript_of(session: LoadedSession, *, now: float | None = None) -> Transcript:
    """Return the conversation that the exports contain, with the arguments of `exported`."""
    hide_environment(os.environ)
    return Transcript.of(session, time.time() if now is None else now)
