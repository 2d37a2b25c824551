"""Find the servers that need consent, ask the user, and store the answer. No other module asks for consent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError
from mcpagent.trust.descriptions import Description, describe
from mcpagent.trust.trust_store import TrustStore

Answer: TypeAlias = Literal["always", "once", "no"]
AskTrust: TypeAlias = Callable[[Sequence[Description]], Answer]
"""Shows what these descriptions say and asks about all of them at once."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The allowed and refused descriptions. `problems`: lines about approvals that could not be stored."""

    allowed: tuple[Description, ...] = ()
    refused: tuple[Description, ...] = ()
    problems: tuple[str, ...] = ()

    def covers(self, server: ServerConfig) -> bool:
        """Return whether the server may be started."""
        return not needs_a_yes(server) or (server.name, server.source) in self._digests()

    def bound(self, server: ServerConfig) -> ServerConfig:
        """Return the server bound to its approved digest: it starts only if it is unchanged since the approval."""
        return replace(server, vouched=self._digests()[server.name, server.source]) if needs_a_yes(server) else server

    def _digests(self) -> dict[tuple[str, str], str]:
        return {(item.name, item.source): item.digest() for item in self.allowed if item.kind != "card"}


def needs_a_yes(server: ServerConfig) -> bool:
    """Return whether another person may have written the entry: it is in a project or outside the user's folders."""
    return server.scope in ("project", "given") and not server.disabled


def described(servers: Iterable[ServerConfig], environ: Mapping[str, str]) -> list[Description]:
    """Return descriptions of the servers that need consent."""
    return [describe(server, environ) for server in servers if needs_a_yes(server)]


def without_a_yes(found: Iterable[Description], store: TrustStore) -> list[Description]:
    """Return the descriptions without a stored approval of their current digest, each once."""
    by_digest = {item.digest(): item for item in found}
    known = store.digests() if by_digest else frozenset[str]()
    return [item for digest, item in by_digest.items() if digest not in known]


def consent_to(found: Sequence[Description], store: TrustStore, ask: AskTrust | None) -> Consent:
    """Ask for consent that is not stored, and store an "always". `ask` None: no one can be asked, these are refused."""
    asked = without_a_yes(found, store)
    answer = ask(asked) if asked and ask is not None else "no"
    problems = [f"{item.name}: {item.why_not_kept}; the answer holds for this time" for item in asked]
    problems = [line for line, item in zip(problems, asked, strict=True) if item.why_not_kept]
    if answer == "always":
        try:
            store.add(asked)
        except ConfigError as error:
            problems.append(f"{error}; the answer holds for this time")
    refused = frozenset(item.digest() for item in asked) if answer == "no" else frozenset[str]()
    return Consent(
        tuple(item for item in found if item.digest() not in refused),
        tuple(item for item in asked if item.digest() in refused),
        tuple(problems) if answer == "always" else (),
    )
