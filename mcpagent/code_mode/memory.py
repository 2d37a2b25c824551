"""What a conversation's programs leave behind: variables, what ran, a program that waits; and how that is kept.

What is kept is signed with a key of this user, for this session alone: the interpreter takes its own bytes on trust.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from mcpagent.code_mode.identifiers import Places
from mcpagent.code_mode.sandbox import AskedCall
from mcpagent.config.user_folders import state_folder

MAX_CONTEXT = 100_000
"""Characters of earlier programs that the type checker knows of."""

MAX_KEPT = 8_000_000
"""Bytes of variables, or of a program that waits, that are written with a session."""

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Underway:
    """A program that waits for calls: `call_id` is the call that runs it, `snapshot` the sandbox as it stands."""

    call_id: str
    source: str
    snapshot: bytes
    asked: tuple[AskedCall, ...]
    calls: int = 0
    printed: str = ""


@dataclass(slots=True)
class Memory:
    """Of one conversation. `state` are the variables as the sandbox dumps them, `context` what ran."""

    state: bytes = b""
    context: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    underway: Underway | None = None
    places: Places = field(default_factory=Places)
    lost: str = ""
    """What is to be told with the next program: that variables are gone, and why."""
    _kept: tuple[tuple[object, ...], Mapping[str, Any]] = ((), {})

    def remember(self, source: str) -> None:
        """Another program, or a part of one, that ran."""
        context = [*self.context, source] if source.strip() else [*self.context]
        while len(context) > 1 and sum(map(len, context)) > MAX_CONTEXT:
            del context[0]
        self.context = tuple(context)

    def to_json(self, session: str) -> Mapping[str, Any]:
        """As a store keeps it; the same value as long as nothing is different. Empty where nothing can be kept."""
        stands_on = (self.state, self.context, self.modules, self.underway, session)
        if len(self._kept[0]) != len(stands_on) or any(
            one is not other for one, other in zip(self._kept[0], stands_on, strict=True)
        ):
            self._kept = (stands_on, self._written(session))
        return self._kept[1]

    def _written(self, session: str) -> Mapping[str, Any]:
        if not self.state and not self.context and self.underway is None:
            return {}
        key = _own_key()
        if key is None:
            return {}
        underway = self.underway if self.underway is not None and len(self.underway.snapshot) <= MAX_KEPT else None
        held = {
            "state": _text(self.state) if len(self.state) <= MAX_KEPT else "",
            "context": list(self.context) if len(self.state) <= MAX_KEPT else [],
            "modules": list(self.modules),
            "underway": {**asdict(underway), "snapshot": _text(underway.snapshot)} if underway is not None else None,
        }
        text = json.dumps(held, sort_keys=True)
        return {"held": text, "signature": _signature(key, session, text)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], session: str) -> Memory:
        """What `to_json` gave of this very session; what is not ours is not used, and told with the next program."""
        if not data:
            return cls()
        text, key = data.get("held"), _own_key()
        if not isinstance(text, str) or key is None:
            return cls(lost=_LOST)
        if not hmac.compare_digest(_signature(key, session, text), str(data.get("signature"))):
            return cls(lost=_LOST)
        held = json.loads(text)
        underway = held["underway"]
        if underway is not None:
            asked = tuple(AskedCall(**one) for one in underway["asked"])
            underway = Underway(**{**underway, "snapshot": base64.b64decode(underway["snapshot"]), "asked": asked})
        return cls(base64.b64decode(held["state"]), tuple(held["context"]), tuple(held["modules"]), underway)


_LOST = "The variables of earlier programs are gone: this conversation goes on in another place."


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _signature(key: bytes, session: str, text: str) -> str:
    return hmac.new(key, f"{len(session)}:{session}\0{text}".encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def _own_key() -> bytes | None:
    """This user's own key, made when it is first needed; None if there is no place for it."""
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
        return key if len(key) == _KEY_BYTES else None
    return None
