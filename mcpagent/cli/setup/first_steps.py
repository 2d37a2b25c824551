"""The first chat of a user without configuration: one screen, one key per choice, shown only once."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rich.text import Text

from mcpagent.cli.frame.configuration import load_configuration
from mcpagent.cli.frame.figures import counted
from mcpagent.cli.frame.options import Options
from mcpagent.cli.screen.terminal import Terminal, is_a_terminal, put
from mcpagent.config.secret_store import with_stored_keys
from mcpagent.errors import ConfigError, McpAgentError
from mcpagent.models.local.local_servers import listed_models
from mcpagent.models.resolve import PROVIDERS, ollama_url
from mcpagent.utilities.files.file_changes import is_writable, write_text
from mcpagent.utilities.files.user_folders import state_folder, user_config_folder
from mcpagent.utilities.text.safe_text import safe_line

OWN_SERVERS = {
    "ollama": "Ollama",
    "llamacpp": "llama.cpp",
    "lmstudio": "LM Studio",
    "vllm": "vLLM",
}
"""Looked for in this order, by prefix."""

PROVIDERS_OFFERED = ("anthropic", "openai", "gemini", "openrouter")

ReadKey = Callable[[], str]
ReadLine = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The user's surroundings: a local model, as `prefix:model`, and the number of servers in other clients."""

    local_model: str = ""
    servers: int = 0
    clients: str = ""


def first_steps(options: Options, terminal: Terminal) -> Options:
    """Return the options after the user's choices, if there is anything to choose."""
    marker = state_folder(options.environ) / "welcomed"
    if marker.exists() or not _is_new_here(options, terminal):
        return options
    if not is_writable(marker):  # it would be asked each time
        return options
    return offer(options, terminal, look_around(options), read_key, input)


def offer(
    options: Options,
    terminal: Terminal,
    around: Surroundings,
    key: ReadKey,
    line: ReadLine,
) -> Options:
    """Show the choices and apply them, until another key is pressed."""
    put(
        terminal.out,
        Text("welcome", "user"),
        "nothing is configured yet; each of these is one key:",
    )
    left = {"k": f"keep a key: {', '.join(PROVIDERS_OFFERED)}"}
    if around.local_model:
        prefix, _, name = around.local_model.partition(":")
        left["o"] = (
            f"use {safe_line(name, 60)}, which runs here in {OWN_SERVERS.get(prefix, prefix)}"
        )
    if around.servers:
        left["i"] = (
            f"take over {counted(around.servers, 'server')} from {around.clients}"
        )
    left["d"] = "see tool search at work, in under a minute"
    while left:
        put(
            terminal.out,
            *(
                Text.assemble("  ", (f"[{name}]", "tool"), f" {about}")
                for name, about in left.items()
            ),
        )
        put(
            terminal.out,
            Text(
                "  any other key: chat with the built-in stand-in; this is not asked again",
                "dim",
            ),
        )
        pressed = key().lower()
        if left.pop(pressed, None) is None:
            break
        try:
            options = _do(pressed, options, terminal, around, line)
        except (EOFError, KeyboardInterrupt):
            put(terminal.out, "left as it was", style="dim")
        except McpAgentError as error:
            put(
                terminal.err,
                Text(f"{terminal.glyphs.failed} {safe_line(str(error), 300)}", "error"),
            )
    return options


def _do(
    pressed: str,
    options: Options,
    terminal: Terminal,
    around: Surroundings,
    line: ReadLine,
) -> Options:
    """Apply the choice of a key; return the resulting options."""
    match pressed:
        case "k":
            from mcpagent.cli.may_run.key_commands import keep_secret

            if name := line(f"provider ({', '.join(PROVIDERS_OFFERED)}): ").strip():
                keep_secret(name, options.environ, terminal)
        case "o":
            model = around.local_model
            path = user_config_folder(options.environ) / "config.toml"
            done = f"used now; for good: model = {json.dumps(model)} in {path}"
            if not path.exists():
                with contextlib.suppress(
                    ConfigError
                ):  # if it cannot be written, it holds for this time
                    write_text(path, f"model = {json.dumps(model)}\n")
                    done = f"{terminal.glyphs.ok} {safe_line(model, 80)}, written to {path}"
            put(terminal.out, done, style="dim")
            return replace(options, model=model)
        case "i":
            from mcpagent.cli.servers.importing.import_command import import_servers

            import_servers(options, [], "user", dry_run=False, replace=False)
        case "d":
            from mcpagent.cli.oneshot.demo_run import run_demo

            run_demo(replace(options, model=None), terminal)
    return options


# -- what there is ----------------------------------------------------------------------------------------------------


def _is_new_here(options: Options, terminal: Terminal) -> bool:
    """Return whether nothing is chosen or configured, and a user is present who has not typed yet."""
    chosen = (
        options.model
        or options.card
        or options.replay
        or options.config
        or options.server
        or options.quiet
    )
    goes_on = options.continue_last or options.resume is not None
    if (
        chosen
        or goes_on
        or not (is_a_terminal(sys.stdin) and terminal.out.is_terminal)
        or _has_typed()
    ):
        return False
    environ = with_stored_keys(options.environ)
    names = [name for provider in PROVIDERS.values() for name in provider.key_variables]
    if any(environ.get(name, "").strip() for name in names):
        return False
    return load_configuration(options).is_demo


def look_around(
    options: Options, servers: Mapping[str, str] | None = None
) -> Surroundings:
    """Return the available choices; reads files of other programs and queries only this computer's model servers.

    `servers` are addresses by prefix, by default their usual ones.
    """
    from mcpagent.cli.servers.importing.import_command import servers_elsewhere

    elsewhere = servers_elsewhere(options)
    usual = {name: PROVIDERS[name].base_url or "" for name in OWN_SERVERS}
    if host := options.environ.get("OLLAMA_HOST", "").strip():
        with contextlib.suppress(ValueError):
            usual["ollama"] = ollama_url(host)
    model = model_here(usual if servers is None else servers)
    return Surroundings(model, sum(elsewhere.values()), ", ".join(elsewhere))


def model_here(servers: Mapping[str, str]) -> str:
    """Return the first model of the first of these servers that has one, as `prefix:model`.

    Returns "" if there is none, and for servers on another computer.
    """
    for prefix, address in servers.items():
        for model in listed_models(address) or ():
            if "embed" not in model.name:
                return f"{prefix}:{model.name}"
    return ""


def _has_typed() -> bool:
    """Return whether the user typed before the choices appeared: that input is a question, not an answer."""
    if sys.platform == "win32":
        import msvcrt

        return bool(msvcrt.kbhit())
    return bool(select.select([sys.stdin.fileno()], [], [], 0)[0])


def read_key() -> str:
    """Return one pressed key; "" for a key without a character. Ctrl-C raises `KeyboardInterrupt`."""
    if sys.platform == "win32":
        import msvcrt

        return str(msvcrt.getwch())
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(
            descriptor, termios.TCSANOW
        )  # what was pressed just before counts
        pressed = os.read(descriptor, 32).decode("utf-8", "replace")
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
    if len(pressed) == 1:
        return pressed
    return ""
