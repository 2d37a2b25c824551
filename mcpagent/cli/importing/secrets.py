"""What becomes of the secrets that stand written out in another client's file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mcpagent.cli.importing.entries import without_literal_secrets
from mcpagent.config.literals import LiteralSecret, variable_name


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret that is to be kept under a name."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"NewSecret({self.name!r})"


@dataclass(frozen=True, slots=True)
class SecretPlan:
    """The entry to write, what has to be kept for it, and remarks; `entry` None: it cannot go into this file."""

    entry: dict[str, Any] | None
    secrets: tuple[NewSecret, ...] = ()
    notes: tuple[str, ...] = ()


def plan_for_project(server: str, entry: dict[str, Any]) -> SecretPlan:
    """References to variables, which everybody who shares the file sets."""

    def name_of(found: LiteralSecret) -> str:
        return found.variable if found.path[0] == "env" else f"{variable_name(server)}_{found.variable}"

    changed = without_literal_secrets(entry, name_of, "${{{}}}")
    if changed.left:
        return SecretPlan(None, (), (f"has a secret in {_place(changed.left[0])} that no reference can replace",))
    notes = tuple(
        f"{found} is now ${{{name}}}: set it, or mcpagent keys set {name}" for found, name, _ in changed.moved
    )
    return SecretPlan(changed.entry, (), notes)


def plan_for_user(server: str, entry: dict[str, Any], *, plain: bool) -> SecretPlan:
    """References to keys of this server's own, `${keyring:server.VARIABLE}`.

    With the server's name before them and a dot they are never taken for a variable, so that no other server and no
    model finds them in its environment.
    """
    if plain:
        return SecretPlan(entry)
    prefix = re.sub(r"[^A-Za-z0-9_@:/-]", "_", server)[:60]
    changed = without_literal_secrets(
        entry, lambda found: f"{prefix}.{re.sub(r'[^A-Za-z0-9_]', '_', found.variable)[:30]}", "${{keyring:{}}}"
    )
    moved = tuple(f"{found} is now ${{keyring:{name}}}" for found, name, _ in changed.moved)
    left = tuple(f"a secret stays in {_place(found)}, where no reference can replace it" for found in changed.left)
    secrets = tuple(NewSecret(name, value) for _, name, value in changed.moved)
    return SecretPlan(changed.entry, secrets, (*moved, *left))


def _place(found: LiteralSecret) -> str:
    return "its URL" if len(found.path) == 1 else str(found)
