"""Consent to servers: which ones need it, and the single function that asks for it and stores it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError
from mcpagent.permissions.trust.descriptions import Description, describe
from mcpagent.permissions.trust.trust_store import TrustStore

Answer: TypeAlias = Literal["always", "once", "no"]
AskTrust: TypeAlias = Callable[[Sequence[Description]], Answer]
"""Callback that shows these descriptions and asks one question about all of them."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The descriptions that the user allowed and refused. `problems` has a line for each consent that could not be
    stored.
    """

    allowed: tuple[Description, ...] = ()
    refused: tuple[Description, ...] = ()
    problems: tuple[str, ...] = ()

    def covers(self, server: ServerConfig) -> bool:
        """Return whether the server may start."""
        if not needs_consent(server):
            return True
        digest = describe(server).digest()
        return any(item.digest() == digest for item in self.allowed)


def needs_consent(server: ServerConfig) -> bool:
    """Return whether another person may have written the entry: it comes from a project, or from a card of others."""
    return server.scope in ("project", "card") and not server.disabled


def described(servers: Iterable[ServerConfig]) -> list[Description]:
    """Return the descriptions of those servers that need consent."""
    return [describe(server) for server in servers if needs_consent(server)]


def without_consent(
    found: Iterable[Description], store: TrustStore
) -> list[Description]:
    """Return the descriptions without a stored consent to their current digest, each once."""
    by_digest = {item.digest(): item for item in found}
    if by_digest:
        known = store.digests()
    else:
        known = frozenset[str]()
    return [item for digest, item in by_digest.items() if digest not in known]


def consent_to(
    found: Sequence[Description], store: TrustStore, ask: AskTrust | None
) -> Consent:
    """Ask about the descriptions without a stored consent; if the answer is "always", store it.

    `ask` is None if no person can be asked.
    """
    asked = without_consent(found, store)
    answer = "no"
    if asked and ask is not None:
        answer = ask(asked)
    problems: tuple[str, ...] = ()
    if answer == "always":
        try:
            store.add(asked)
        except ConfigError as error:
            problems = (f"{error}; the answer holds for this time",)
    if answer == "no":
        refused = frozenset(item.digest() for item in asked)
    else:
        refused = frozenset[str]()
    return Consent(
        tuple(item for item in found if item.digest() not in refused),
        tuple(item for item in asked if item.digest() in refused),
        problems,
    )
