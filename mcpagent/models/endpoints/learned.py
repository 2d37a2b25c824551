"""`Learned`: the refusals and reports of a model at an address, with the evidence and a date.

One small file for each model at an address is shared by all processes of a user. A fact is forgotten after a day, and
at once if the request that heeds it is refused all the same.
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
    """A learned fact: `what`, its `value`, the text of the failure and the time, in seconds since 1970."""

    what: str
    value: FactValue
    evidence: str = field(default="", compare=False)
    found: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Learned:
    """The facts about a model at an address, by topic.

    Flags are False once they were refused: "takes_tools" of requests, "constrains" (`response_format` is obeyed),
    "takes_schemas" unchanged, "demands" (a call may be demanded), "cache_field", "cache_markers", "references" to found
    tools, "no_tools" with a history that calls some. Sizes are "window_tokens", "parameters", and the characters of a
    tool's "description". "limit_field" is the field of the longest answer, "history_form" the dialect that a history
    needs. "field:NAME" has the setting whose field was refused, "tool:NAME" why a provider's tool is omitted,
    "output:SCHEMA" that a form of answers was refused, "input:KIND" that a kind of file was.
    """

    facts: Mapping[str, LearnedFact] = field(default_factory=dict[str, LearnedFact])

    @property
    def takes_tools(self) -> bool:
        """True if requests may contain tools."""
        return self.flag("takes_tools")

    @property
    def constrains(self) -> bool:
        """True if the server obeys `response_format`."""
        return self.flag("constrains")

    @property
    def takes_schemas(self) -> bool:
        """True if the server accepts tools' schemas unchanged, false if only loosened ones (`loose_schemas.py`)."""
        return self.flag("takes_schemas")

    @property
    def window_tokens(self) -> int | None:
        """The most tokens that the model takes, as the server or a failure reported it."""
        return self._size("window_tokens")

    @property
    def parameters(self) -> int | None:
        """The number of parameters of the model; None if unknown."""
        return self._size("parameters")

    @property
    def description(self) -> int | None:
        """The longest description of a tool, in characters; None if none was refused."""
        return self._size("description")

    def flag(self, what: str) -> bool:
        """Return False if this was refused, else True."""
        return what not in self.facts or bool(self.facts[what].value)

    def text(self, what: str) -> str:
        """Return the text that was learned, "" if none was."""
        if what in self.facts:
            return str(self.facts[what].value)
        return ""

    def group(self, name: str) -> dict[str, str]:
        """Return the values of a group of facts, such as "field", by what follows the colon."""
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
        """Return the known facts with these added; a newer one replaces an older one."""
        return Learned({**self.facts, **{one.what: one for one in facts}})

    def without(self, whats: Iterable[str]) -> Learned:
        """Return the other facts."""
        forgotten = set(whats)
        return Learned(
            {what: one for what, one in self.facts.items() if what not in forgotten}
        )

    def current(self, now: float, max_age_seconds: float = MAX_AGE_SECONDS) -> Learned:
        """Return the facts that are not too old, and not from the future."""
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
    """A small file in `folder` for each model at an address. An old or broken file counts as missing."""

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
        """Return the stored facts about a model at an address that are still valid, or None."""
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
        """Keep the facts. A folder that cannot be written costs the next process one more request, never an answer."""
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
    """Return whether the fact has a known kind and type, because any program may have written the file."""
    if one.what in _FLAGS:
        return isinstance(one.value, bool)
    if one.what in _SIZES:
        return type(one.value) is int and one.value > 0
    return isinstance(one.value, str) and (
        one.what in _TEXTS or one.what.partition(":")[0] in _GROUPS
    )
