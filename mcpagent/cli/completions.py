"""What the chat's input line completes, taken from its agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagent.cli.completer import Words

if TYPE_CHECKING:
    from mcpagent import Agent


def words_of(agent: Agent, folder: Path, is_started: Callable[[], bool]) -> Words:
    """Everything that can be completed; before the agent is started only what does not need it."""

    def commands() -> Iterator[tuple[str, str]]:
        from mcpagent.cli.commands.table import COMMANDS

        yield from ((name, command.about) for name, command in COMMANDS.items())

    def values(command: str) -> Sequence[str]:
        from mcpagent.cli.commands.table import VALUES
        from mcpagent.models.resolve import PROVIDERS

        if command == "/model":
            return ("offline", *(f"{name}:{provider.default_model}" for name, provider in PROVIDERS.items()))
        return VALUES.get(command, ())

    def tools() -> list[str]:
        return list(agent.known_tools) if is_started() else []

    def prompts() -> Iterator[tuple[str, str]]:
        for server, listed in agent.mcp.prompts.items() if is_started() else ():
            yield from ((f"{server}:{prompt.name}", prompt.description) for prompt in listed)

    def arguments(name: str) -> list[str]:
        server, _, wanted = name.partition(":")
        listed = agent.mcp.prompts.get(server, ()) if is_started() else ()
        return [item.name for prompt in listed if prompt.name == wanted for item in prompt.arguments]

    def resources() -> Iterator[tuple[str, str]]:
        for server, listed in agent.mcp.resources.items() if is_started() else ():
            yield from ((f"{server}:{resource.uri}", resource.name) for resource in listed)

    return Words(
        commands=commands,
        values=values,
        tools=tools,
        servers=lambda: list(agent.servers),
        prompts=prompts,
        prompt_arguments=arguments,
        resources=resources,
        folder=folder,
    )
