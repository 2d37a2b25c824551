"""`Learned`: facts about a model at an address that its failures and reports revealed, with evidence and date.

All processes of a user share one small file for each model at an address. A fact expires after a day, and at once if a
request that follows it fails all the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.filesystem.file_changes import write_whole
from mcpagent.utilities.python.plain_data import MALFORMED
from mcpagent.utilities.text.secrets import without_secrets

MAX_AGE_SECONDS = 24 * 3600.0
"""Learned refusals expire after this time, because a server may be restarted with other options."""

MOST_FACTS = 100
MOST_EVIDENCE = 200
"""Maximum number of characters of a failure's message that are stored as evidence."""

_FORMAT = 2

FactValue: TypeAlias = bool | int | str

_FLAGS = (
    "takes_tools",
    "constrains",
    "takes_schemas",
    "demands",
    "cache_field",
    "cache_markers",
    "references",
    "no_tools",
)
_SIZES = ("window_tokens", "parameters", "description")
_TEXTS = ("limit_field", "history_form")
_GROUPS = ("field", "tool", "output", "input")


@dataclass(frozen=True, slots=True)
class LearnedFact:
    """A learned fact: the topic `what`, its `value`, the text of the failure, and the time in seconds since 1970."""

    what: str
    value: FactValue
    evidence: str = field(default="", compare=False)
    found: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Learned:
    """The facts about a model at an address, by topic.

    - Flags are False after a refusal: "takes_tools"; "constrains" (`response_format` is obeyed); "takes_schemas"
      unchanged; "demands" (a call may be required); "cache_field"; "cache_markers"; "references" to found tools;
      "no_tools" with a history that has calls.
    - Sizes: "window_tokens", "parameters", and "description", the characters of a tool's description.
    - "limit_field": the field for the maximum output. "history_form": the dialect that a history needs.
    - "field:NAME": the setting whose field was refused. "tool:NAME": why a provider tool is omitted. "output:SCHEMA": a
      mode of structured output that was refused. "input:KIND": a kind of file that was refused.
    """

    facts: Mapping[str, LearnedFact] = field(default_factory=dict[str, LearnedFact])

    @property
    def takes_tools(self) -> bool:
        """Return whether requests may contain tools."""
        return self.flag("takes_tools")

    @property
    def constrains(self) -> bool:
        """Return whether the server obeys `response_format`."""
        return self.flag("constrains")

    @property
    def takes_schemas(self) -> bool:
        """Return whether the server accepts tools' schemas unchanged, not only simplified ones (`loose_schemas.py`)."""
        return self.flag("takes_schemas")

    @property
    def window_tokens(self) -> int | None:
        """The maximum number of tokens that the model accepts, as the server or a failure reported it; None if
        unknown.
        """
        return self._size("window_tokens")

    @property
    def parameters(self) -> int | None:
        """The number of parameters of the model; None if unknown."""
        return self._size("parameters")

    @property
    def description(self) -> int | None:
        """The maximum length of a tool's description in characters; None if none was refused."""
        return self._size("description")

    def flag(self, what: str) -> bool:
        """Return False if the feature `what` was refused, else True."""
        return what not in self.facts or bool(self.facts[what].value)

    def text(self, what: str) -> str:
        """Return the learned text on this topic, or ""."""
        if what in self.facts:
            return str(self.facts[what].value)
        return ""

    def group(self, name: str) -> dict[str, str]:
        """Return the values of a group of facts such as "field", by the part of the topic after the colon."""
        start = f"{name}:"
        return {
            what.removeprefix(start): str(one.value)
            for what, one in self.facts.items()
            if what.startswith(start)
        }

    def _size(self, what: str) -> int | None:
        known = self.facts.get(what)
        if known is not None and type(known.value) is int:
            return known.value
        return None

    def with_facts(self, facts: Iterable[LearnedFact]) -> Learned:
        """Return the facts with new ones added; a new fact replaces an older one on the same topic."""
        return Learned({**self.facts, **{one.what: one for one in facts}})

    def without(self, whats: Iterable[str]) -> Learned:
        """Return the facts without these topics."""
        forgotten = set(whats)
        return Learned(
            {what: one for what, one in self.facts.items() if what not in forgotten}
        )

    def current(self, now: float, max_age_seconds: float = MAX_AGE_SECONDS) -> Learned:
        """Return the facts that have not expired and whose date is not in the future."""
        fresh = {
            what: one
            for what, one in self.facts.items()
            if 0 <= now - one.found <= max_age_seconds
        }
        if len(fresh) == len(self.facts):
            return self
        return Learned(fresh)


def learned_of(now: float | None = None, **values: FactValue | None) -> Learned:
    """Return facts that were learned now, without evidence."""
    if now is None:
        now = time.time()
    given = {what: value for what, value in values.items() if value is not None}
    return Learned(
        {what: LearnedFact(what, value, "", now) for what, value in given.items()}
    )


class LearnedStore:
    """A small file in `folder` for each model at an address. An expired or invalid file counts as missing."""

    def __init__(
        self,
        folder: Path,
        *,
        max_age_seconds: float = MAX_AGE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._max_age_seconds = max_age_seconds
        self.now = now

    def load(self, base_url: str, model: str) -> Learned | None:
        """Return the stored facts about a model at an address that have not expired, or None."""
        try:
            data = json.loads(read_own(self._path(base_url, model)))
            listed = []
            if data["format"] == _FORMAT:
                listed = data["facts"]
            facts = [_fact(one) for one in listed[:MOST_FACTS]]
        except (OSError, *MALFORMED):
            return None
        known = Learned({one.what: one for one in facts if _is_usable(one)})
        current = known.current(self.now(), self._max_age_seconds)
        if current.facts:
            return current
        return None

    def save(self, base_url: str, model: str, learned: Learned) -> None:
        """Store the facts. If the folder is not writable, the next process only needs one more request."""
        listed = [
            {
                "what": one.what,
                "value": one.value,
                "evidence": without_secrets(one.evidence),
                "found": one.found,
            }
            for one in list(learned.facts.values())[:MOST_FACTS]
        ]
        with contextlib.suppress(OSError):
            write_whole(
                self._path(base_url, model),
                json.dumps({"format": _FORMAT, "facts": listed}),
                is_cache=True,
            )

    def _path(self, base_url: str, model: str) -> Path:
        key = hashlib.sha256(
            f"{base_url.rstrip('/')}\0{model}".encode("utf-8", "replace")
        ).hexdigest()
        return self._folder / f"{key[:32]}.json"


def _fact(one: Mapping[str, Any]) -> LearnedFact:
    evidence = str(one.get("evidence", ""))[:MOST_EVIDENCE]
    return LearnedFact(str(one["what"]), one["value"], evidence, float(one["found"]))


def _is_usable(one: LearnedFact) -> bool:
    """Return whether the fact has a known topic and the right type, because any program may have written the file."""
    if one.what in _FLAGS:
        return isinstance(one.value, bool)
    if one.what in _SIZES:
        return type(one.value) is int and one.value > 0
    return isinstance(one.value, str) and (
        one.what in _TEXTS or one.what.partition(":")[0] in _GROUPS
    )
