"""The state of a session without its messages, as named values and as stored JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcpagent.history.conversation import CallProgress
from mcpagent.journal.sessions.run_ended import RunEnded
from mcpagent.utilities.python.plain_data import dump_value, load_value
from mcpagent.values.approval import PendingCall
from mcpagent.values.messages import Part, Spent, Step, ToolDefinition, ToolKey
from mcpagent.values.tools import Tool


@dataclass(frozen=True, slots=True)
class InitialValues:
    """The values at the start of a conversation, which later requests repeat exactly.

    `given_system` is the system prompt of a history that the caller passed. `how_found` is the mode of tool discovery.
    `offered` are the tools that were offered from the start, in order, with their definitions at that time.
    """

    system: str = ""
    given_system: str = ""
    wants_instructions: bool = False
    how_found: tuple[bool, bool, str | None] = (False, False, None)
    offered: tuple[ToolDefinition, ...] = ()


MAX_KNOWN = 2_000
"""Maximum number of tools whose names are stored. If there are more, a reopened session uses the current tools."""


class KnownTools:
    """The tools that existed, for a session whose model has to search for them. Two values of the same tuple are
    equal.
    """

    __slots__ = ("_keys", "_tools")

    def __init__(
        self, tools: Sequence[Tool] = (), keys: frozenset[ToolKey] | None = None
    ) -> None:
        self._tools, self._keys = tools, keys

    @property
    def keys(self) -> frozenset[ToolKey]:
        """The tools by identity, independent of their offered names."""
        if (
            self._keys is None
        ):  # not cached, because a thousand keys for each session would need ten times the memory
            return frozenset(tool.definition.key for tool in self._tools)
        return self._keys

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnownTools):
            return False
        return (
            self._tools is other._tools and bool(self._tools)
        ) or self.keys == other.keys

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> dict[str, list[str | list[str]]] | None:
        """Return the names by source ID ("": none), with the listed name if it differs; None if there are too many."""
        if len(self._tools) > MAX_KNOWN:
            return None
        found: dict[str, list[str | list[str]]] = {}
        for key in sorted(self.keys, key=str):
            is_plain = key == _known_key(key.source or "", key.name)
            found.setdefault(key.source or "", []).append(
                key.name if is_plain else [key.name, key.listed]
            )
        return found

    @classmethod
    def from_json(
        cls, data: Mapping[str, Sequence[str | Sequence[str]]] | None
    ) -> KnownTools | None:
        """Return the value that `to_json` returned as `data`."""
        if data is None:
            return None
        return cls(
            keys=frozenset(
                _known_key(source, entry) for source in data for entry in data[source]
            )
        )


def _known_key(source: str, entry: str | Sequence[str]) -> ToolKey:
    if isinstance(entry, str):
        name, listed = entry, ""
    else:
        name, listed = entry
    return ToolKey(source or None, name, listed).offered_as(name)


@dataclass(frozen=True, slots=True)
class LastAnnounced:
    """What the model was last informed about: descriptions of connected servers, connecting servers, and known
    tools.
    """

    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    connecting: tuple[str, ...] = ()
    known: KnownTools | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """An unfinished run: the index of its first message, and its usage so far."""

    begins_at: int = 0
    turns: int = 0
    spent: Spent = field(default_factory=Spent)


@dataclass(frozen=True, slots=True)
class PendingParts:
    """Message parts that are not in the history yet, and whether the last message is a prompt without an answer."""

    parts: tuple[Part, ...] = ()
    unanswered_prompt: bool = False


@dataclass(frozen=True, slots=True)
class StoppedAnswer:
    """The text of an answer that the user stopped, and the number of messages before it."""

    place: int
    text: str


@dataclass(frozen=True, slots=True)
class SavedState:
    """The whole state of a session.

    - `spent`: the usage of earlier runs. `state`: the namespaces of the `ToolContext` as plain JSON data.
    - `pending`: the calls that wait; when read from a store, they have only an ID and a kind.
    - `durable`: the ID of the durable run that owns the session until it ends; `ended`: the end of a run that ends now.
    - `trace`: identifies its last run in traces, for a run that resumes it.
    - `output`: the specification of the run's answer, until it ends; also while its calls wait.
    - `programs`: the state that code mode stores (`code_mode/memory.py`).
    - `windows`: context windows in tokens that refused requests have shown, by model name.
    - `stopped`: answers that the user stopped, which only people see.
    """

    beginning: InitialValues = field(default_factory=InitialValues)
    told: LastAnnounced = field(default_factory=LastAnnounced)
    pending: tuple[PendingCall, ...] = ()
    announced: PendingParts = field(default_factory=PendingParts)
    spent: Spent = field(default_factory=Spent)
    run: UnfinishedRun | None = None
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    durable: str = ""
    ended: RunEnded | None = None
    trace: str = ""
    output: Mapping[str, Any] | None = None
    programs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    windows: Mapping[str, int] = field(default_factory=dict[str, int])
    stopped: tuple[StoppedAnswer, ...] = ()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SavedState:
        """Create the state from the values in a store. Raises `KeyError`, `TypeError`, `ValueError` or `InputError` for
        invalid ones.
        """
        known = {
            name: _from_json(name, values[name])
            for name in _KINDS
            if values.get(name) is not None
        }
        return cls(**known, programs=programs_in(values))


_PROGRAMS = "programs/"


def programs_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of `SavedState.programs`, whose parts are stored as separate values."""
    return {
        name.removeprefix(_PROGRAMS): data
        for name, data in values.items()
        if name.startswith(_PROGRAMS)
    }


def programs_to_json(
    now: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parts of programs that differ, as values; None for a part that was removed."""
    names = [*now, *(name for name in before if name not in now)]
    return {
        f"{_PROGRAMS}{name}": now.get(name)
        for name in names
        if now.get(name) != before.get(name)
    }


_AS_IT_IS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_IN_ASCII = json.JSONEncoder(separators=(",", ":"))


def written_json(data: Any) -> str:
    """Return data as JSON text for a store: strict JSON, with lone surrogates escaped, because a model may send
    these.
    """
    text = _AS_IT_IS.encode(data)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _IN_ASCII.encode(data)
    return text


def progress_to_json(progress: CallProgress) -> Any:
    """Return the stored form of a call's progress: all fields except files, which a program's values cannot contain."""
    data = dump_value(progress)
    del data["blocks"]
    return data


def progress_from_json(data: Any) -> CallProgress:
    """Return the progress that `progress_to_json` returned as `data`."""
    return load_value(CallProgress, {"times_sent": 1, **data})


def steps_to_json(steps: Sequence[Step], first: int) -> dict[int, Any]:
    """Return the steps from the message index `first` on, by index.

    The offered names are None if they equal those of the previous step.
    """
    found: dict[int, Any] = {}
    place = len(steps)
    while place and steps[place - 1].place >= first:
        place -= 1
        step, before = steps[place], steps[place - 1].offered if place else None
        data = dump_value(
            replace(step, seconds=round(step.seconds, 3), begun=round(step.begun, 3))
        )
        del data["place"]
        if step.offered == before:
            data["offered"] = None
        found[step.place] = data
    return found


def steps_from_json(data: Mapping[int, Any]) -> tuple[Step, ...]:
    """Return the steps from the stored results of `steps_to_json`."""
    steps: list[Step] = []
    for place, step in sorted(data.items()):
        before = steps[-1].offered if steps else ()
        if step["offered"] is None:
            offered = before
        else:
            offered = step["offered"]
        steps.append(load_value(Step, {**step, "place": place, "offered": offered}))
    return tuple(steps)


def which_wait(pending: Sequence[PendingCall]) -> list[dict[str, str]]:
    """Return the IDs and kinds of pending calls; the requests can be rebuilt from the history and the tools."""
    return [{"call_id": call.call_id, "kind": call.kind} for call in pending]


def to_json(name: str, value: Any) -> Any:
    """Return the value with this name in its stored form."""
    if name == "pending":
        return which_wait(value)
    if name == "told":
        if value.known is not None:
            known = value.known.to_json()
        else:
            known = None
        return {
            "descriptions": dict(value.descriptions),
            "connecting": list(value.connecting),
            "known": known,
        }
    if _KINDS[name] in _PLAIN:
        return value
    return dump_value(value)


def _from_json(name: str, data: Any) -> Any:
    if name == "pending":
        unknown: dict[str, Any] = {
            "tool": "",
            "arguments": {},
            "server": None,
            "description": "",
            "fingerprint": "",
        }
        return tuple(load_value(PendingCall, {**unknown, **call}) for call in data)
    if name == "told":
        return LastAnnounced(
            dict(data["descriptions"]),
            tuple(data["connecting"]),
            KnownTools.from_json(data.get("known")),
        )
    return load_value(_KINDS[name], data)


_PLAIN = (str, dict[str, Any], dict[str, int])

_KINDS: Mapping[str, Any] = {
    "beginning": InitialValues,
    "told": LastAnnounced,
    "pending": PendingCall,
    "announced": PendingParts,
    "spent": Spent,
    "run": UnfinishedRun,
    "state": dict[str, Any],
    "windows": dict[str, int],
    "stopped": tuple[StoppedAnswer, ...],
    "durable": str,
    "trace": str,
    "output": dict[str, Any],
}
"""The types of the stored values, by name."""
