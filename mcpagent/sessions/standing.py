"""What a session stands on beside its messages, as values with names, and as the JSON that a store keeps of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mcpagent.history.conversation import CallProgress
from mcpagent.sessions.run_ended import RunEnded
from mcpagent.values.approval import PendingCall, PendingKind
from mcpagent.values.messages import (
    Message,
    Part,
    Spent,
    Step,
    ToolDefinition,
    ToolKey,
    ToolsChanged,
    Usage,
    dump_message,
    load_message,
)
from mcpagent.values.tools import Tool


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a conversation was begun with, which later requests repeat to the letter.

    `given_system` is what a history that was handed over had as its system prompt. `how_found` says how tools are
    found; `offered` are those that were offered from the start, in order, as they were then.
    """

    system: str = ""
    given_system: str = ""
    wants_instructions: bool = False
    how_found: tuple[bool, bool, str | None] = (False, False, None)
    offered: tuple[ToolDefinition, ...] = ()


MAX_KNOWN = 2_000
"""Of so many tools it is kept which there were; of more, a session that is opened again takes those that there are."""


class KnownTools:
    """Which tools there were, for a session whose model has to search for them. Two of the same tuple are equal."""

    __slots__ = ("_keys", "_tools")

    def __init__(
        self, tools: Sequence[Tool] = (), keys: frozenset[ToolKey] | None = None
    ) -> None:
        self._tools, self._keys = tools, keys

    @property
    def keys(self) -> frozenset[ToolKey]:
        """By what they are, whatever they are offered as."""
        if (
            self._keys is None
        ):  # not kept: a session that holds its own thousand of them takes ten times the memory
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
        """Names by source ID ("": none), with the listed name if that is another; None if there are too many."""
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
        """Read the result of `to_json`."""
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
class Told:
    """What was said so far: what each connected server is about, which were connecting, and which tools there were."""

    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    connecting: tuple[str, ...] = ()
    known: KnownTools | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """A run that has not come to its end: where its first message stands, and what it took so far."""

    begins_at: int = 0
    turns: int = 0
    spent: Spent = field(default_factory=Spent)


@dataclass(frozen=True, slots=True)
class Announced:
    """Message parts that are not yet in the history, and whether the last message is a prompt without an answer."""

    parts: tuple[Part, ...] = ()
    unanswered_prompt: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """All of it. `spent` is what earlier runs took, `state` the namespaces of the `ToolContext` as plain JSON data.

    `pending` are the calls that wait; from a store they have an ID and a kind alone.
    `durable` is the ID of the durable run that owns the session until it ends; `ended` is one that ends now.
    `trace` names its last run in traces, for a run that goes on with it.
    `output` is what the answer of the run is to be, by its schema, while it is not over or its calls wait.
    `programs` is what code mode keeps (`code_mode/memory.py`).
    `windows` are the context windows that refused requests have shown, in tokens, by the model's name.
    """

    beginning: Beginning = field(default_factory=Beginning)
    told: Told = field(default_factory=Told)
    pending: tuple[PendingCall, ...] = ()
    announced: Announced = field(default_factory=Announced)
    spent: Spent = field(default_factory=Spent)
    run: UnfinishedRun | None = None
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    durable: str = ""
    ended: RunEnded | None = None
    trace: str = ""
    output: Mapping[str, Any] | None = None
    programs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    windows: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Standing:
        """As a store has it. Raises `KeyError`, `TypeError`, `ValueError` or `InputError` for anything else."""
        known = {
            name: read(values[name])
            for name, (_, read) in _FORMS.items()
            if values.get(name) is not None
        }
        return cls(**known, programs=programs_in(values))


_PROGRAMS = "programs/"


def programs_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of `Standing.programs`, each of which a store keeps as a value of its own."""
    return {
        name.removeprefix(_PROGRAMS): data
        for name, data in values.items()
        if name.startswith(_PROGRAMS)
    }


def programs_to_json(
    now: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values that differ; None for a part that is gone."""
    names = [*now, *(name for name in before if name not in now)]
    return {
        f"{_PROGRAMS}{name}": now.get(name)
        for name in names
        if now.get(name) != before.get(name)
    }


_LATER_FIELDS = ("begun", "known_tools", "saved_tokens")
"""Fields of a step that sessions of earlier versions lack."""

_SPENT_FIELDS = tuple(item.name for item in fields(Spent))
_USAGE_FIELDS = tuple(item.name for item in fields(Usage))

_AS_IT_IS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_IN_ASCII = json.JSONEncoder(separators=(",", ":"))


def written_json(data: Any) -> str:
    """As a store writes it: nothing in it but JSON, and no half of a character, as a model may send one."""
    text = _AS_IT_IS.encode(data)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _IN_ASCII.encode(data)
    return text


def progress_to_json(progress: CallProgress) -> Any:
    """As a store keeps it."""
    parts = _parts_to_json(progress.parts)
    data = {
        "is_repeatable": progress.is_repeatable,
        "parts": parts,
        "times_sent": progress.times_sent,
    }
    if progress.cause:
        return {**data, "cause": progress.cause, "shown": progress.shown}
    return data


def progress_from_json(data: Any) -> CallProgress:
    """What `progress_to_json` gave."""
    return CallProgress(
        bool(data["is_repeatable"]),
        _parts_from_json(data["parts"]),
        times_sent=int(data.get("times_sent", 1)),
        cause=str(data.get("cause", "")),
        shown=str(data.get("shown", "")),
    )


def steps_to_json(steps: Sequence[Step], first: int) -> dict[int, Any]:
    """By place, the steps from this place on; the names offered are None where they are those of the step before."""
    found: dict[int, Any] = {}
    place = len(steps)
    while place and steps[place - 1].place >= first:
        place -= 1
        step, before = steps[place], steps[place - 1].offered if place else None
        found[step.place] = {
            "model": step.model,
            "offered": None if step.offered == before else list(step.offered),
            "usage": asdict(step.usage),
            "dollars": step.dollars,
            "seconds": round(step.seconds, 3),
            "begun": round(step.begun, 3),
            "known_tools": step.known_tools,
            "saved_tokens": step.saved_tokens,
        }
    return found


def steps_from_json(data: Mapping[int, Any]) -> tuple[Step, ...]:
    """What `steps_to_json` gave of all of them."""
    steps: list[Step] = []
    offered: tuple[str, ...] = ()
    for place, step in sorted(data.items()):
        if step["offered"] is not None:
            offered = tuple(step["offered"])
        rest = {name: step[name] for name in _LATER_FIELDS if name in step}
        usage, dollars, seconds = (
            Usage(**step["usage"]),
            step["dollars"],
            float(step["seconds"]),
        )
        steps.append(
            Step(place, str(step["model"]), offered, usage, dollars, seconds, **rest)
        )
    return tuple(steps)


def to_json(name: str, value: Any) -> Any:
    """The value of this name as a store keeps it."""
    return _FORMS[name][0](value)


def which_wait(pending: Sequence[PendingCall]) -> list[dict[str, str]]:
    """Return which calls wait, and for what; the request itself is made again from the history and the tool."""
    return [{"call_id": call.call_id, "kind": call.kind} for call in pending]


def _waiting_from_json(data: Any) -> PendingCall:
    kind: PendingKind = "external" if data["kind"] == "external" else "approval"
    call_id = str(data["call_id"])
    return PendingCall(
        kind,
        call_id,
        tool="",
        arguments={},
        server=None,
        description="",
        fingerprint="",
    )


def _parts_to_json(parts: Sequence[Part]) -> Any:
    if parts:
        return json.loads(dump_message(Message("tool", tuple(parts))))["parts"]
    return []


def _parts_from_json(data: Any) -> tuple[Part, ...]:
    return load_message({"role": "tool", "parts": data}, 0).parts


def _beginning_to_json(beginning: Beginning) -> Any:
    offered = _parts_to_json((ToolsChanged(beginning.offered),))[0]["added"]
    return {
        "system": beginning.system,
        "given_system": beginning.given_system,
        "wants_instructions": beginning.wants_instructions,
        "how_found": beginning.how_found,
        "offered": offered,
    }


def _beginning_from_json(data: Any) -> Beginning:
    (changed,) = _parts_from_json([{"type": "tools_changed", "added": data["offered"]}])
    assert isinstance(changed, ToolsChanged)
    searching, provider_searches, load = data["how_found"]
    return Beginning(
        str(data["system"]),
        str(data["given_system"]),
        bool(data["wants_instructions"]),
        (bool(searching), bool(provider_searches), load),
        changed.added,
    )


def _spent_to_json(spent: Spent) -> dict[str, Any]:
    """Return the spending as JSON data. `asdict` would make a deep copy, and this runs with every call."""
    usage = {name: getattr(spent.usage, name) for name in _USAGE_FIELDS}
    return {name: getattr(spent, name) for name in _SPENT_FIELDS} | {"usage": usage}


def _spent_from_json(data: Any) -> Spent:
    return Spent(**{**data, "usage": Usage(**data["usage"])})


_FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "beginning": (_beginning_to_json, _beginning_from_json),
    "told": (
        lambda told: {
            "descriptions": dict(told.descriptions),
            "connecting": list(told.connecting),
            "known": told.known.to_json() if told.known is not None else None,
        },
        lambda data: Told(
            dict(data["descriptions"]),
            tuple(data["connecting"]),
            KnownTools.from_json(data.get("known")),
        ),
    ),
    "pending": (
        which_wait,
        lambda data: tuple(map(_waiting_from_json, data)),
    ),
    "announced": (
        lambda it: {
            "parts": _parts_to_json(it.parts),
            "unanswered_prompt": it.unanswered_prompt,
        },
        lambda data: Announced(
            _parts_from_json(data["parts"]), bool(data["unanswered_prompt"])
        ),
    ),
    "spent": (_spent_to_json, _spent_from_json),
    "run": (
        lambda run: {
            "begins_at": run.begins_at,
            "turns": run.turns,
            "spent": _spent_to_json(run.spent),
        },
        lambda data: UnfinishedRun(
            int(data["begins_at"]), int(data["turns"]), _spent_from_json(data["spent"])
        ),
    ),
    "state": (dict, dict),
    "windows": (
        dict,
        lambda data: {str(name): int(size) for name, size in data.items()},
    ),
    "durable": (str, str),
    "trace": (str, str),
    "output": (
        dict,
        lambda data: {
            "name": str(data["name"]),
            "description": str(data["description"]),
            "schema": data["schema"],
        },
    ),
}
"""By name of the field: to JSON, and back."""
