"""Print the commands for the first steps, in the first chat of a user without configuration."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from mcpagent.cli.common.configuration import load_configuration
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import Terminal, is_a_terminal, put
from mcpagent.config.secret_store import with_stored_keys
from mcpagent.models.local.local_servers import listed_models
from mcpagent.models.resolve import PROVIDERS, ollama_url
from mcpagent.utilities.filesystem.file_changes import is_writable
from mcpagent.utilities.filesystem.user_folders import state_folder
from mcpagent.utilities.text.safe_text import safe_line

OWN_SERVERS = {
    "ollama": "Ollama",
    "llamacpp": "llama.cpp",
    "lmstudio": "LM Studio",
    "vllm": "vLLM",
}
"""Names of local model servers by prefix, in the order in which mcpagent queries them."""

PROVIDERS_OFFERED = ("anthropic", "openai", "gemini", "openrouter")


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """The choices of a new user: a local model, as `prefix:model` (or ""), and the number and names of other clients
    with servers.
    """

    local_model: str = ""
    servers: int = 0
    clients: str = ""


def first_steps(options: Options, terminal: Terminal) -> None:
    """Print the commands that set mcpagent up, once per user. This reads, stores and starts nothing else."""
    marker = state_folder(options.environ) / "welcomed"
    if marker.exists() or not _is_new_here(options, terminal):
        return
    if not is_writable(marker):  # otherwise the text would be printed each time
        return
    put(terminal.out, *welcome(look_around(options)))


def welcome(around: UserEnvironment) -> list[Text]:
    """Return the commands that set mcpagent up, each with its effect."""
    commands: list[tuple[str, str]] = []
    if around.local_model:
        prefix, _, name = around.local_model.partition(":")
        where = OWN_SERVERS.get(prefix, prefix)
        commands.append(
            (
                f"/model {safe_line(around.local_model, 80)}",
                f"answers with {safe_line(name, 60)}, which runs here in {where}",
            )
        )
    if around.servers:
        servers = counted(around.servers, "server")
        commands.append(("/import", f"shows {servers} of {around.clients}"))
    commands.append(
        ("mcpagent keys set anthropic", f"stores a key, also of {_others()}")
    )
    commands.append(("mcpagent demo", "shows tool search at work, in under a minute"))
    width = max(len(command) for command, _ in commands) + 2
    lines = [
        Text.assemble("  ", (command.ljust(width), "tool"), (about, "dim"))
        for command, about in commands
    ]
    return [
        Text("welcome", "user"),
        Text(
            "Nothing is configured yet. Ask right away, and a built-in stand-in answers, or:"
        ),
        *lines,
        Text(),
    ]


def _others() -> str:
    return ", ".join(PROVIDERS_OFFERED[1:])


# -- Environment of the user -------------------------------------------------------------------------------------------


def _is_new_here(options: Options, terminal: Terminal) -> bool:
    """Return whether a user at a terminal has chosen no model, server or chat, and has no key or configuration."""
    chosen = (
        options.model
        or options.card
        or options.replay
        or options.config
        or options.server
        or options.quiet
    )
    goes_on = options.continue_last or options.resume is not None
    is_seen = is_a_terminal(sys.stdin) and terminal.out.is_terminal
    if chosen or goes_on or not is_seen:
        return False
    environ = with_stored_keys(options.environ)
    names = [name for provider in PROVIDERS.values() for name in provider.key_variables]
    if any(environ.get(name, "").strip() for name in names):
        return False
    return load_configuration(options).is_demo


def look_around(
    options: Options, servers: Mapping[str, str] | None = None
) -> UserEnvironment:
    """Return the choices of the user; reads files of other programs and queries only model servers on this computer.

    `servers` are addresses by prefix (None: the usual ones).
    """
    from mcpagent.cli.servers.importing.import_command import servers_elsewhere

    elsewhere = servers_elsewhere(options)
    usual = {name: PROVIDERS[name].base_url or "" for name in OWN_SERVERS}
    if host := options.environ.get("OLLAMA_HOST", "").strip():
        with contextlib.suppress(ValueError):
            usual["ollama"] = ollama_url(host)
    model = model_here(usual if servers is None else servers)
    return UserEnvironment(model, sum(elsewhere.values()), ", ".join(elsewhere))


def model_here(servers: Mapping[str, str]) -> str:
    """Return the first model of the first of these servers that has one, as `prefix:model`, or "".

    Servers on other computers are not queried.
    """
    for prefix, address in servers.items():
        for model in listed_models(address) or ():
            if "embed" not in model.name:
                return f"{prefix}:{model.name}"
    return ""
