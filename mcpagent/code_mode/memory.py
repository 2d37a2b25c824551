"""Store the state of a conversation's programs: variables, finished programs, and a suspended program.

The state is signed for its session, because the interpreter trusts its own bytecode. The key comes from the environment
(`MCPAGENT_SIGNING_KEY`), from the store that all workers share, or from the user's folder.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from mcpagent.code_mode.identifiers import ImportPlace, Places
from mcpagent.code_mode.program_source import assigned_names, in_short
from mcpagent.code_mode.sandbox import AskedCall
from mcpagent.utilities.filesystem.user_folders import state_folder
from mcpagent.utilities.text.secrets import may_hold_secrets, without_secrets
from mcpagent.values.messages import ToolCall, ToolErrorKind, ToolKey

MAX_CONTEXT = 100_000
"""Maximum number of characters of earlier programs that the type checker receives."""

MAX_KEPT = 8_000_000
"""Maximum number of bytes of variables, or of a suspended program, that a session stores."""

_KEY_BYTES = 32

_FORM = 3
"""Version of the stored state, which is readable only in a sandbox with the same prelude (`prelude.py`)."""

_MAX_READ = 20_000
_LARGE = 100_000

_PIECE, _OVERLAP = 400_000, 20_000
"""Number of bytes searched for secrets at once (other threads wait meanwhile), and the overlap of two pieces."""

_BEHIND_LENGTH = re.compile(r"(x.|y..)([\w.-]{16,})", re.ASCII | re.DOTALL)
"""A word after a length prefix (RFC 8949, 3), which may look like a part of the word."""


@dataclass(frozen=True, slots=True)
class Underway:
    """A program that waits for calls.

    The call `call_id` runs the program; `place` is that call's position in the conversation, since models may use an ID
    twice. `snapshot` is the dumped sandbox.
    """

    call_id: str
    place: int
    source: str
    snapshot: bytes
    asked: tuple[AskedCall, ...]
    calls: int = 0
    printed: str = ""
    known_before: str = ""
    """Additional source for the type checker, as in `Job`."""
    troubles: tuple[tuple[str, str], ...] = ()
    """Calls so far without a usable result, as in `Job`."""


@dataclass(frozen=True, slots=True)
class EndedProgram:
    """The result of the last program, with the call that ran it. Its variables are stored before this result."""

    call_id: str
    place: int
    text: str
    error: ToolErrorKind | None = None


@dataclass(frozen=True, slots=True)
class ProgramVariables:
    """The variables after the last program at a position of the conversation; the fields are as in `Memory`."""

    place: int = 0
    state: bytes = b""
    context: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    lost: str = ""

    @property
    def size(self) -> int:
        """The bytes of the state, and the characters of the programs that led to it."""
        return len(self.state) + sum(map(len, self.context))


_Part: TypeAlias = "tuple[tuple[object, ...], Mapping[str, Any] | None]"
"""The values from which a part was made, and the part in its stored form."""

StoreKey: TypeAlias = Callable[[], bytes | None]
"""Callback that returns the signing key that all workers of a store share, or None."""


def no_store_key() -> bytes | None:
    """Return None, for a session without a store that has a key."""
    return None


def _no_parts() -> dict[str, _Part]:
    return {}


@dataclass(slots=True)
class Memory:
    """The program memory of a conversation.

    `state` contains the variables as the sandbox dumps them, `context` the code that ran.
    """

    state: bytes = b""
    context: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    earlier: tuple[ProgramVariables, ...] = ()
    """The variables after each program, including the last, for rewinding. The oldest are eventually removed and marked
    as `lost`.
    """
    imported: Mapping[ToolKey, ImportPlace] = field(
        default_factory=dict[ToolKey, ImportPlace]
    )
    underway: Underway | None = None
    ended: EndedProgram | None = None
    places: Places = field(default_factory=Places)
    lost: str = ""
    """A notice in the next program's result that variables are lost, with the reason; or ""."""
    store_key: StoreKey = no_store_key
    shapes: dict[ToolKey, str] = field(default_factory=dict[ToolKey, str])
    """The shape of the last result of each tool. Its keys come from this conversation's content, so no other
    conversation may use it.
    """
    _kept: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _parts: dict[str, _Part] = field(default_factory=_no_parts)

    def remember(self, source: str) -> None:
        """Add the source of a finished program, or of a part of one.

        Above `MAX_CONTEXT` characters, the oldest sources are reduced to imports and the names of variables.
        """
        if source.strip():
            context = [*self.context, source]
        else:
            context = [*self.context]
        if sum(map(len, context)) > MAX_CONTEXT:
            while len(context) > 1 and sum(map(len, context)) > MAX_CONTEXT // 2:
                context[:2] = [in_short(*context[:2])]
        self.context = tuple(context)

    def is_long(self, source: str) -> bool:
        """Return whether adding this source takes long."""
        return len(source) + sum(map(len, self.context)) > MAX_CONTEXT

    def imports(self, functions: Mapping[ToolKey, ImportPlace]) -> None:
        """Record functions that programs have imported, so that these names mean the same tools in another process."""
        if not functions.items() <= self.imported.items():
            self.imported = {**self.imported, **functions}

    def variables(self) -> list[str]:
        """Return the names of variables, the last assigned first; after many programs, only names of recent
        programs.
        """
        found: dict[str, None] = {}
        room = _MAX_READ
        for source in reversed(self.context):
            room -= len(source)
            if room < 0:
                break
            found |= dict.fromkeys(assigned_names(source))
        return list(found)

    def mark(self, place: int) -> None:
        """Save the current variables, to be restored by a rewind to a position after `place`."""
        now = ProgramVariables(place, self.state, self.context, self.modules)
        marked = [now]
        room = MAX_KEPT - now.size
        for one in reversed(self.earlier):
            if one.place >= place:
                continue
            room -= one.size
            marked.append(
                one if room >= 0 else ProgramVariables(one.place, lost=_TOO_LONG_AGO)
            )
        self.earlier = tuple(reversed(marked))

    def rewind(self, length: int, calls: Sequence[ToolCall], place: int) -> None:
        """Restore the variables as of the first `length` messages.

        A suspended program, or the last ended one, stays only if one of `calls` at position `place` runs it: a later
        call may have the ID of a rewound one.
        """
        left = tuple(one for one in self.earlier if one.place < length)
        if left != self.earlier:
            if left:
                then = left[-1]
            else:
                then = ProgramVariables()
            self.earlier = left
            self.state, self.context, self.modules, self.lost = (
                then.state,
                then.context,
                then.modules,
                then.lost,
            )
        there = {(call.id, place) for call in calls}
        if (
            self.underway is not None
            and (self.underway.call_id, self.underway.place) not in there
        ):
            self.underway = None
        if (
            self.ended is not None
            and (self.ended.call_id, self.ended.place) not in there
        ):
            self.ended = None

    def take(self, other: Memory) -> None:
        """Copy the state of another memory, except its source of the signing key."""
        for one in fields(self):
            if one.name != "store_key":
                setattr(self, one.name, getattr(other, one.name))

    @property
    def is_large(self) -> bool:
        """True if `to_json` takes long after a change."""
        states = [one.state for one in self.earlier[-2:]] or [self.state]
        return sum(map(len, states)) > _LARGE

    def to_json(self, session: str) -> Mapping[str, Any]:
        """Return the memory as JSON data for a store; the same object until something changes.

        Returns {} if nothing can be stored.
        """
        key = _signing_key(self.store_key)
        if key is None or (
            not self.state and not self.context and self.underway is None
        ):
            return {}
        variables = (
            self.state,
            self.context,
            self.modules,
            self.imported,
            self.earlier,
        )
        made = {
            "variables": self._part(
                "variables", key, session, variables, self._variables
            ),
            "underway": self._part(
                "underway",
                key,
                session,
                (self.underway,),
                lambda: self._underway(self.underway),
            ),
            "ended": self._part("ended", key, session, (self.ended,), self._ended),
        }
        for one in self.earlier[:-1]:  # the last element is the current variables
            if not one.lost:
                name = _marked(one.place)
                made[name] = self._part(
                    name, key, session, (one,), partial(self._held, one)
                )
        self._parts = {
            name: known for name, known in self._parts.items() if name in made
        }
        found = {name: part for name, part in made.items() if part is not None}
        if found.keys() != self._kept.keys() or any(
            found[name] is not self._kept[name] for name in found
        ):
            self._kept = found
        return self._kept

    def _part(
        self,
        name: str,
        key: bytes,
        session: str,
        stands_on: tuple[object, ...],
        written: Callable[[], Mapping[str, Any] | None],
    ) -> Mapping[str, Any] | None:
        """Return a signed part; the same object as long as all values in `stands_on` are the same objects."""
        known, signed = self._parts.get(name, ((), None))
        now = (*stands_on, session, key)
        if len(known) != len(now) or any(
            one is not other for one, other in zip(known, now, strict=True)
        ):
            part = written()
            signed = None
            if part is not None:
                signed = _signed(key, session, name, part)
            self._parts[name] = (now, signed)
        return signed

    def _variables(self) -> Mapping[str, Any]:
        return {
            **self._held(ProgramVariables(0, self.state, self.context, self.modules)),
            "imported": [
                [*key, place.module, place.function]
                for key, place in self.imported.items()
            ],
            "places": [one.place for one in self.earlier],
        }

    def _held(self, one: ProgramVariables) -> Mapping[str, Any]:
        """Return the variables as JSON data, or the reason why a store may not have them."""
        if len(one.state) > MAX_KEPT:
            return {"modules": one.modules, "lost": _TOO_LARGE}
        if self._has_secret(one.state, *one.context):
            return {"modules": one.modules, "lost": _NOT_FOR_STORES}
        return {
            "state": _text(one.state),
            "context": one.context,
            "modules": one.modules,
        }

    def prepared(self, underway: Underway, session: str) -> _Part | None:
        """Return the stored form of this suspended program, or None without a key. This takes long with many calls or
        variables.
        """
        key = _signing_key(self.store_key)
        if key is None:
            return None
        part = self._underway(underway)
        return (underway, session, key), _signed(
            key, session, "underway", part
        ) if part is not None else None

    def leave(self, underway: Underway, part: _Part | None) -> None:
        """Save the current state of the suspended program; `part` is the result of `prepared`, or None."""
        self.underway = underway
        if part is not None:
            self._parts["underway"] = part

    def _underway(self, underway: Underway | None) -> Mapping[str, Any] | None:
        if underway is None or len(underway.snapshot) > MAX_KEPT:
            return None
        texts = (
            underway.source,
            underway.printed,
            *(call.arguments for call in underway.asked),
        )
        if self._has_secret(underway.snapshot, *texts):
            return None
        return {**asdict(underway), "snapshot": _text(underway.snapshot)}

    def _ended(self) -> Mapping[str, Any] | None:
        if self.ended is not None:
            return {**asdict(self.ended), "text": without_secrets(self.ended.text)}
        return None

    def _has_secret(self, data: bytes, *texts: str) -> bool:
        """Return whether one of the texts or the interpreter's dump contains a secret.

        The dump contains each text verbatim, after its length.
        """
        if any(without_secrets(text) != text for text in texts):
            return True
        for start in range(0, len(data), _PIECE):
            text = data[start : start + _PIECE + _OVERLAP].decode("utf-8", "ignore")
            if without_secrets(text) != text:
                return True
            if may_hold_secrets(text):
                apart = _BEHIND_LENGTH.sub(r"\1 \2", text)
            else:
                apart = text
            if apart != text and without_secrets(apart) != apart:
                return True
        return False

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], session: str, store_key: StoreKey = no_store_key
    ) -> Memory:
        """Restore the memory from data that `to_json` returned for the same session.

        Data without this program's signature, and data that a store redacted, are ignored. If the variables are lost
        this way, the next program's result reports it.
        """
        if not data:
            return cls(store_key=store_key)
        key = _signing_key(store_key)
        found = {
            name: part
            for name in ("variables", "underway", "ended")
            if (part := _read_signed(key, session, name, data.get(name))) is not None
        }
        memory = cls(lost="" if "variables" in found else _LOST, store_key=store_key)
        if variables := found.get("variables"):
            read = partial(_read_marked, key, session, data)
            memory._restore_variables(variables, read)
        if underway := found.get("underway"):
            asked = tuple(AskedCall(**one) for one in underway["asked"])
            memory.underway = Underway(
                **{
                    **underway,
                    "snapshot": base64.b64decode(underway["snapshot"]),
                    "asked": asked,
                    "troubles": tuple(
                        (kind, path) for kind, path in underway["troubles"]
                    ),
                }
            )
        if ended := found.get("ended"):
            memory.ended = EndedProgram(**ended)
        return memory

    def _restore_variables(
        self,
        variables: Mapping[str, Any],
        read: Callable[[int], dict[str, Any] | None],
    ) -> None:
        """Restore the current variables, the variables after earlier programs, and the imports."""
        now = _variables_of(variables)
        self.state, self.context = now.state, now.context
        self.modules, self.lost = now.modules, now.lost
        places = variables["places"]
        earlier = [_variables_of(read(place), place) for place in places[:-1]]
        last = [replace(now, place=place) for place in places[-1:]]
        self.earlier = (*earlier, *last)
        for source, name, *listed, module, function in variables["imported"]:
            tool_key = ToolKey(source, name, *listed).offered_as(name)
            self.imports({tool_key: ImportPlace(module, function)})
        for tool, place in self.imported.items():
            self.places.give(tool, place)


def _read_marked(
    key: bytes | None, session: str, data: Mapping[str, Any], place: int
) -> dict[str, Any] | None:
    """Return the signed variables after an earlier program; None if they are missing or changed."""
    name = _marked(place)
    return _read_signed(key, session, name, data.get(name))


def _marked(place: int) -> str:
    return f"variables@{place}"


def _variables_of(part: Mapping[str, Any] | None, place: int = 0) -> ProgramVariables:
    if part is None:
        return ProgramVariables(place, lost=_TOO_LONG_AGO)
    state = base64.b64decode(part.get("state", ""))
    return ProgramVariables(
        place,
        state,
        tuple(part.get("context", ())),
        tuple(part["modules"]),
        part.get("lost", ""),
    )


_TOO_LONG_AGO = "The variables of earlier programs are gone: as they were at this point, they are not kept any more."

_LOST = "The variables of earlier programs are gone: this conversation goes on in another place."


_NOT_FOR_STORES = "The variables of earlier programs are gone: there was a secret in them, and secrets are not kept."
_TOO_LARGE = (
    "The variables of earlier programs are gone: they took too much to be kept."
)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _signed(
    key: bytes, session: str, name: str, part: Mapping[str, Any]
) -> dict[str, str]:
    text = json.dumps(part, sort_keys=True)
    return {"held": text, "signature": _signature(key, session, name, text)}


def _read_signed(
    key: bytes | None, session: str, name: str, data: object
) -> dict[str, Any] | None:
    """Return the data that was signed for this session under this name; None for other data."""
    text = data.get("held") if isinstance(data, dict) else None
    if key is None or not isinstance(data, dict) or not isinstance(text, str):
        return None
    signature = str(data.get("signature")).encode(errors="replace")
    is_ours = hmac.compare_digest(
        _signature(key, session, name, text).encode(), signature
    )
    return json.loads(text) if is_ours else None


def _signature(key: bytes, session: str, name: str, text: str) -> str:
    told = f"{_FORM}:{interpreter_version()}:{len(session)}:{session}\0{name}\0{text}"
    return hmac.new(
        key, told.encode(errors="surrogatepass"), hashlib.sha256
    ).hexdigest()


@cache
def interpreter_version() -> str:
    """Return the interpreter's version: another version cannot load its bytes."""
    from importlib.metadata import PackageNotFoundError, version

    with suppress(PackageNotFoundError):
        return version("pydantic-monty")
    return ""


def _signing_key(store_key: StoreKey) -> bytes | None:
    """Return the signing key of the environment, else of the store, else of this user; or None."""
    told = os.environ.get("MCPAGENT_SIGNING_KEY", "")
    if told:
        return hashlib.sha256(told.encode(errors="surrogateescape")).digest()
    return store_key() or _own_key()


def _own_key() -> bytes | None:
    """Return this user's key, which the first use creates; None if it cannot be stored."""
    return _key_at(state_folder(os.environ) / "code-mode.key")


@cache
def _key_at(path: Path) -> bytes | None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
        if len(key) == _KEY_BYTES:
            return key
        return None
    return None
