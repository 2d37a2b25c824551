"""A conversation as JSON for programs: `load_messages` and `agent.session` accept its `messages`.

docs/session-stores.md documents the fields. Later versions may add fields; an incompatible change gets a new version
number.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime

from mcpagent.journal.sessions.export.transcript import Transcript
from mcpagent.journal.sessions.saved_state import steps_to_json, which_wait
from mcpagent.values.messages import dump_messages

SCHEMA = "mcpagent.session/1"


def as_json(transcript: Transcript) -> str:
    """Return the document as JSON in ASCII, so that no character in it can control a terminal."""
    session, info = transcript.session, transcript.session.info
    document = {
        "schema": SCHEMA,
        "exported": transcript.at.isoformat(timespec="seconds"),
        "session": {
            "id": info.id,
            "title": info.title,
            "created": _time(info.created),
            "updated": _time(info.updated),
            "folder": info.folder,
            "model": info.model,
        },
        "servers": list(transcript.standing.told.descriptions),
        "system": transcript.standing.beginning.system,
        "spent": asdict(transcript.spent),
        "pending": which_wait(transcript.standing.pending),
        "steps": [
            {"place": place, **step}
            for place, step in sorted(steps_to_json(session.steps, 0).items())
        ],
        "messages": dump_messages(session.messages),
    }
    return json.dumps(document, indent=1) + "\n"


def _time(seconds: float) -> str | None:
    if seconds > 0:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return None
