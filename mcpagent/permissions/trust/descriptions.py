"""Describe what an entry of a file starts, reads and sends: the value that a person sees and consents to."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.utilities.text.secrets import Secret, as_written

Kind: TypeAlias = Literal["server", "card", "model"]
"""A server of a file or card, a card itself, and the model that a project's settings choose."""

_TOLD_APART = frozenset(
    {"command", "args", "env", "env_file", "cwd", "url", "headers", "roots", "sign_in"}
)
_CHANGES_NOTHING = frozenset({"disabled", "enabled", "timeout"})
"""Keys that change neither what runs, nor what it may do, nor what the model reads; so do those in seconds."""

_INTERPRETER = re.compile(
    r"(?:python|pypy|node|bun|deno|tsx|ruby|perl|php|sh|bash|zsh|uv)[\d.]*(?:\.exe)?"
)
_BEFORE_SCRIPT = frozenset({"run", "-u"})


@dataclass(frozen=True, slots=True)
class Fact:
    """An effect of an entry: its kind, and the text that a person sees."""

    what: str
    text: str


@dataclass(frozen=True, slots=True)
class Description:
    """The effects of one entry, or one card.

    `place` is the real path of its file, and `source` the name of the file in errors. Every literal of the entry is in
    the facts in full; a value of the person's environment or keyring is there as `${NAME}`. `notes` are shown too, and
    a consent is not bound to them. `paths` are words of the entry that may name files; `program` is
    the one whose code runs, if that can be told.
    """

    name: str
    place: str
    source: str
    facts: tuple[Fact, ...]
    kind: Kind = "server"
    notes: tuple[Fact, ...] = ()
    paths: tuple[str, ...] = ()
    program: str = ""

    def digest(self) -> str:
        """Return a SHA-256 digest of name, place and facts; the line of the entry is not part of it."""
        data = [
            self.kind,
            self.place,
            self.name,
            [[fact.what, fact.text] for fact in self.facts],
        ]
        return hashlib.sha256(
            json.dumps(data).encode("utf-8", "surrogatepass")
        ).hexdigest()


def file_of(source: str) -> str:
    """Return the path in `file:line`."""
    return re.sub(r":\d+\Z", "", source)


def real_place(path: str) -> str:
    """Return the path of the file: its folder without links, its own name unchanged. A link is another place."""
    whole = Path(path).absolute()
    return os.path.join(os.path.realpath(whole.parent), whole.name)


def describe(config: ServerConfig) -> Description:
    """Describe the server from the very value that it is started from."""
    facts = list[Fact]()
    words = [as_written(word) for word in (config.command, *config.args)]
    folder = os.path.realpath(config.cwd or os.curdir)
    entry = {
        KEY_OF_SPELLING.get(key, key): value for key, value in config.written.items()
    }
    if config.command:
        facts += [Fact("runs", shlex.join(words)), Fact("in", folder)]
    else:
        facts += _address_and_headers(config, entry)
    facts += [
        Fact("variable", f"{name}={as_written(value)}")
        for name, value in sorted(config.env.items())
    ]
    facts += _sign_in(entry.get("sign_in"))
    if "env_file" in entry:
        facts.append(Fact("reads", str(entry["env_file"])))
    facts += [Fact("may see", root) for root in config.roots]
    facts += _said(entry)
    literals = (
        text
        for text in (*config.args, *config.env.values())
        if not isinstance(text, Secret)
    )
    paths = (*words[:1], *literals, str(entry.get("env_file", "")))
    named = tuple(
        os.path.join(folder, path) for word in paths for path in _paths_in(word)
    )
    return Description(
        config.name,
        real_place(file_of(config.source)),
        config.source,
        tuple(facts),
        paths=named,
        program=_program(words, folder),
    )


def _address_and_headers(
    config: ServerConfig, entry: Mapping[str, Any]
) -> Iterator[Fact]:
    """Yield the address and the headers as the entry has them.

    An `Authorization` header that the reader makes of the user and password in an address is shown as that address, and
    one that it makes of a token under `sign_in` as that sign-in.
    """
    address, headers = as_written(config.url), dict(config.headers)
    written = {name.lower() for name in entry.get("headers") or ()}
    if entry and "Authorization" in headers and "authorization" not in written:
        del headers["Authorization"]
        if not isinstance(entry.get("sign_in"), str):
            address = entry["url"]
    yield Fact("sends to", address)
    for name, value in sorted(headers.items()):
        yield Fact("header", f"{name}={as_written(value)}")


def _program(words: list[str], folder: str) -> str:
    """Return the file whose code these words run: an interpreter's script, or the command; "" for one of PATH."""
    command, *arguments = words
    if _INTERPRETER.fullmatch(os.path.basename(command)):
        script = next(dropwhile(_BEFORE_SCRIPT.__contains__, arguments), "")
    elif os.sep in command:
        script = command
    else:
        script = ""
    if script:
        return os.path.join(folder, script)
    return ""


def _paths_in(word: str) -> Iterator[str]:
    """Yield the word, and the part behind `=` in `--config=file`."""
    yield from filter(None, (word, word.partition("=")[2]))


def _sign_in(entry: Any) -> Iterator[Fact]:
    """Yield how it signs in, as written."""
    if isinstance(entry, Mapping):
        for name, value in sorted(entry.items()):
            if isinstance(value, str):
                text = value
            else:
                text = json.dumps(value, ensure_ascii=False, sort_keys=True)
            yield Fact("signs in with", f"{name}={text}")
    elif entry is not None:
        yield Fact("signs in with", str(entry))


def _said(entry: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the rest of the entry under our keys: which tools run unasked, what the server may ask, and the like."""
    for key, value in sorted(entry.items()):
        ours = (
            key in KEY_OF_SPELLING
            and key not in _TOLD_APART | _CHANGES_NOTHING
            and not key.endswith("_seconds")
        )
        if ours:
            yield Fact(key, json.dumps(value, ensure_ascii=False, sort_keys=True))
