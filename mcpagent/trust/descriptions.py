"""Describe the effects of a configuration entry as one value: to show it, to bind consent to it, and to run it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.config.literals import is_literal_secret
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.errors import ServerError
from mcpagent.text.secret_shapes import without_shapes
from mcpagent.trust.launches import Launch, launch_of
from mcpagent.trust.named_files import named_files

Kind: TypeAlias = Literal["server", "named server", "card"]
"""A server of a file that was found, one of a file or card that was named, and a card itself."""

NOT_SHOWN = "(not shown)"

_TOLD_APART = frozenset({"command", "args", "env", "env_file", "cwd", "url", "headers", "roots", "sign_in"})
_CHANGES_NOTHING = frozenset({"disabled", "enabled", "description", "timeout"})
"""Keys that change nothing about what runs, or what it may do; so do those in seconds."""


@dataclass(frozen=True, slots=True)
class Fact:
    """An effect: its kind, the text to show, and a digest of the text if the shown text omits some of it."""

    what: str
    text: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """The effects of one server entry or card: what it starts, reads, sends and states.

    `place` is the real path of its file; `source` is the name of the file in errors. `launch` is the command to start,
    None for an address or a command that cannot be started. `why_not_kept` is the reason why an approval holds only
    once, "" if it can be stored.
    """

    name: str
    place: str
    source: str
    facts: tuple[Fact, ...]
    launch: Launch | None = field(default=None, repr=False, compare=False)
    why_not_kept: str = ""
    kind: Kind = "server"

    def digest(self) -> str:
        """Return a SHA-256 over the kind, place, name and facts; the line number does not count."""
        data = [self.kind, self.place, self.name, [[fact.what, fact.text, fact.digest] for fact in self.facts]]
        return sha256(json.dumps(data))


def sha256(text: str) -> str:
    """Return the digest of a text, as hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def fact_of(what: str, text: str, *, is_hidden: bool = False) -> Fact:
    """Return the fact; keys of known issuers, or the whole text if `is_hidden`, are replaced by a digest."""
    shown = NOT_SHOWN if is_hidden else without_shapes(text)
    return Fact(what, shown, "" if shown == text else sha256(text))


def file_of(source: str) -> str:
    """Return the path in `file:line`."""
    return re.sub(r":\d+\Z", "", source)


def real_place(path: str) -> str:
    """Return the path with links in its folder resolved, but not its own name: a link to the file is another place."""
    whole = Path(path).absolute()
    return os.path.join(os.path.realpath(whole.parent), whole.name)


def describe(config: ServerConfig, environ: Mapping[str, str]) -> Description:
    """Describe the server with the current variables and files; connect to nothing."""
    launch, facts, why_not = None, [], ""
    if config.command:
        told = [_told(config, word) for word in (config.command, *config.args)]
        facts += [fact_of("runs", shlex.join(told)), fact_of("in", os.path.realpath(config.cwd or os.curdir))]
        try:
            launch = launch_of(config, environ)
        except ServerError as error:
            facts.append(Fact("cannot start", str(error).rpartition(" could not start: ")[2]))
        else:
            facts.append(Fact("program", launch.program))
    else:
        facts.append(fact_of("sends to", _told(config, config.url)))
    facts += _variables("header", config, config.headers)
    facts += _variables("variable", config, config.env)
    entry = {KEY_OF_SPELLING.get(key, key): value for key, value in config.written.items()}
    facts += _sign_in(entry.get("sign_in"))
    if "env_file" in entry:
        facts.append(fact_of("reads", str(entry["env_file"])))
    place = real_place(file_of(config.source))
    if launch is not None:
        named = named_files(launch, config.env.values(), Path(place).parent)
        facts += [Fact("file", path, named.files[path].digest) for path in sorted(named.files)]
        why_not = named.too_much
    facts += [Fact("may see", root) for root in config.roots]
    facts += _said(entry)
    # What a named file says in its own favour counts after a yes, what a found one says does not: two questions.
    kind: Kind = "named server" if config.scope == "given" else "server"
    return Description(config.name, place, config.source, tuple(facts), launch, why_not_kept=why_not, kind=kind)


def allowed_launch(config: ServerConfig, environ: Mapping[str, str]) -> Launch:
    """Return the launch of the server. Raises `ServerError` if it differs from the launch that the user approved."""
    if not config.vouched:
        return launch_of(config, environ)
    described = describe(config, environ)
    if described.digest() != config.vouched:
        what = "a file, a variable or the program that it names changed since somebody said yes to it"
        raise ServerError(
            f'server "{config.name}" could not start: {what}; begin again to be asked about it as it is now',
            server=config.name,
            phase="start",
        )
    return described.launch or launch_of(config, environ)


def _told(config: ServerConfig, text: str) -> str:
    return config.told.get(text, text)


def _variables(what: str, config: ServerConfig, values: Mapping[str, str]) -> Iterator[Fact]:
    for name, value in sorted(values.items()):
        told = _told(config, value)
        hidden = told == value and is_literal_secret(name, value)
        yield fact_of(what, f"{name}={told}") if not hidden else Fact(what, f"{name}={NOT_SHOWN}", sha256(value))


def _sign_in(written: Any) -> Iterator[Fact]:
    """Yield the sign-in settings as written: a reference shows its name, a literal secret is hidden."""
    if isinstance(written, Mapping):
        for name, value in sorted(written.items()):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
            yield fact_of("signs in with", f"{name}={text}", is_hidden=is_literal_secret(str(name), text))
    elif written is not None:
        yield fact_of("signs in with", str(written), is_hidden=is_literal_secret("token", str(written)))


def _said(entry: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the remaining settings under mcpagent's keys, such as tool permissions and allowed questions."""
    for key, value in sorted(entry.items()):
        ours = key in KEY_OF_SPELLING and key not in _TOLD_APART | _CHANGES_NOTHING and not key.endswith("_seconds")
        if ours:
            yield fact_of(key, json.dumps(value, ensure_ascii=False, sort_keys=True))
