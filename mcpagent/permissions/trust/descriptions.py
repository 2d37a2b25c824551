"""Describe what an entry of a file starts, reads and sends. The user sees this value and consents to it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.config.config_documents import own_workspace
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.utilities.text.secrets import Secret, as_written

Kind: TypeAlias = Literal["server", "card", "model", "skill"]
"""The subject of a description: a server in a file or card, a card itself, the model that a project's settings choose,
or a project's skill.
"""

_TOLD_APART = frozenset(
    {
        "command",
        "args",
        "env",
        "env_file",
        "cwd",
        "url",
        "headers",
        "roots",
        "sign_in",
        "openapi",
        "credentials",
    }
)
_LONGEST_PATH = 1_000
_CHANGES_NOTHING = frozenset({"disabled", "enabled", "timeout"})
"""Keys that affect neither which code runs, nor what it may do, nor what the model reads. Keys in seconds are the
same.
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """An effect of an entry: its kind, and the text that a person sees."""

    what: str
    text: str


@dataclass(frozen=True, slots=True)
class Description:
    """The effects of one entry or card, which the user consents to.

    `place` is the real path of its file, `source` the file's name in errors. `facts` contain every literal of the entry
    in full, and values of the user's environment or keyring as `${NAME}`. `notes` are shown too, but are not part of
    the consent: variables of a file that the entry names, which may change like code. If git ignores that file, only
    their names are shown. `words` may name files. `folder` is the working folder of its program, "" if it starts none.
    `is_users` is True for an entry in the user's own file.
    """

    name: str
    place: str
    source: str
    facts: tuple[Fact, ...]
    kind: Kind = "server"
    notes: tuple[Fact, ...] = ()
    words: tuple[str, ...] = ()
    folder: str = ""
    is_users: bool = False

    def digest(self) -> str:
        """Return a SHA-256 digest of name, place and facts, which does not depend on the line of the entry."""
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
    """Return the path part of `file:line`."""
    return re.sub(r":\d+\Z", "", source)


def real_place(path: str) -> str:
    """Return the path of the file with links in its folder resolved. A link in the last component is not followed: it
    is a different place.
    """
    whole = Path(path).absolute()
    return os.path.join(os.path.realpath(whole.parent), whole.name)


def describe(config: ServerConfig) -> Description:
    """Describe a server, from the same value that starts it."""
    facts = list[Fact]()
    folder, words = "", tuple[str, ...]()
    entry = {
        KEY_OF_SPELLING.get(key, key): value for key, value in config.written.items()
    }
    if config.openapi:
        facts += _api(config)
    if config.command:
        folder = os.path.realpath(config.cwd or os.curdir)
        command = [as_written(word) for word in (config.command, *config.args)]
        facts += [Fact("runs", shlex.join(command)), Fact("in", folder)]
        words = tuple(
            map(as_written, (config.command, *config.args, *config.env.values()))
        )
    elif config.url or config.headers:
        facts += _address_and_headers(config, entry)
    of_file = frozenset[str]()
    if "env_file" in entry:
        of_file = frozenset(config.env.keys() - (entry.get("env") or {}).keys())
    facts += [
        Fact("variable", f"{name}={as_written(value)}")
        for name, value in sorted(config.env.items())
        if name not in of_file
    ]
    facts += _sign_in(entry.get("sign_in"))
    if "env_file" in entry:
        facts.append(Fact("reads", str(entry["env_file"])))
    facts += [Fact("may see", root) for root in config.roots]
    facts += _said(entry)
    return Description(
        config.name,
        real_place(file_of(config.source)),
        config.source,
        tuple(facts),
        notes=tuple(_of_file(name, config.env[name]) for name in sorted(of_file)),
        words=words,
        folder=folder,
        is_users=config.scope == "user",
    )


def project_of(item: Description) -> Path:
    """Return the project folder: of the entry's file, or, for the user's own file, the folder in which the program
    runs.
    """
    if item.is_users and item.folder:
        return Path(item.folder)
    return own_workspace(Path(item.place).parent)


def names_project_file(item: Description) -> bool:
    """Return whether a word of the entry names a file or folder inside its project."""
    project = os.path.realpath(project_of(item))
    parts = [part for word in item.words for part in _parts_of(word)]
    paths = [
        os.path.realpath(os.path.join(item.folder, part))
        for part in parts
        if len(part) < _LONGEST_PATH
    ]
    return any(
        path != project and Path(path).is_relative_to(project) and os.path.exists(path)
        for path in paths
    )


def watched_paths(item: Description) -> tuple[str, ...]:
    """Return the paths whose changes by other people are reported: the entry's file, and the folders whose code may
    run.
    """
    if item.folder:
        return item.place, str(project_of(item)), item.folder
    return (item.place,)


def _of_file(name: str, value: str | Secret) -> Fact:
    """Return a variable of an `envFile` as a fact: in full, or as `NAME (in .env)` if the file is the user's own."""
    if isinstance(value, Secret) and value.origin:
        return Fact("variable", f"{name} {value.origin}")
    return Fact("variable", f"{name}={as_written(value)}")


def _address_and_headers(
    config: ServerConfig, entry: Mapping[str, Any]
) -> Iterator[Fact]:
    """Yield the address and the headers as written in the entry.

    An `Authorization` header that comes from the user and password in an address is shown as that address; one that
    comes from a token under `sign_in`, as that sign-in.
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


def _api(config: ServerConfig) -> Iterator[Fact]:
    """Yield the document of an HTTP API, its request address if the document defines it, and the credentials."""
    document = config.openapi if isinstance(config.openapi, str) else "a document"
    yield Fact("reads the API description", document)
    if not config.url:
        yield Fact("sends to", "the address in that description")
    for name, value in sorted(config.credentials.items()):
        yield Fact("credential", f"{name}={as_written(value)}")


_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def _parts_of(word: str) -> Iterator[str]:
    """Yield the word, the part after `=` in `--config=file`, and the path of a module such as `package.server`.

    A variable counts as its default, as in `${SERVER:-server.py}`.
    """
    word = _DEFAULT.sub(r"\1", word)
    yield from filter(None, (word, word.partition("=")[2]))
    if all(part.isidentifier() for part in word.split(".")):
        path = word.replace(".", os.sep)
        yield from (path, f"{path}.py")


def _sign_in(entry: Any) -> Iterator[Fact]:
    """Yield the settings under `sign_in`, as written."""
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
    """Yield the other settings of the entry, such as tools that run without approval, and what the server may
    request.
    """
    for key, value in sorted(entry.items()):
        ours = (
            key in KEY_OF_SPELLING
            and key not in _TOLD_APART | _CHANGES_NOTHING
            and not key.endswith("_seconds")
        )
        if ours:
            yield Fact(key, json.dumps(value, ensure_ascii=False, sort_keys=True))
