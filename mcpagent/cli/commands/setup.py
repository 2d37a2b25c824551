"""`/model`."""

from __future__ import annotations

from rich.text import Text

from mcpagent.cli.commands.desk import Desk
from mcpagent.cli.figures import counted
from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line


async def model(desk: Desk, argument: str) -> None:
    """the model in use and which could be; NAME: go on with another"""
    if not argument:
        _show(desk)
        return
    await desk.ready()
    before = desk.agent.model.name
    try:
        await desk.agent.use_model(argument)
    except ConfigError as error:
        desk.warn(safe_line(str(error), 300))
        return
    found = counted(len(desk.agent.discovered_tools), "tool")
    desk.figures.read(desk.agent)
    desk.say(Text.assemble("model  ", (desk.agent.model.name, "user"), (f"  (was {before})", "dim")))
    if desk.agent.messages:
        desk.note(f"the conversation goes on with it, and with {found} found so far; the provider's cache starts anew")


def _show(desk: Desk) -> None:
    """The current model, and the providers that could answer: those whose key is set or that need none."""
    from mcpagent.models.resolve import PROVIDERS

    desk.say(Text.assemble("model  ", (desk.agent.model.name, "user")))
    ready: list[str] = []
    missing: list[str] = []
    for name, provider in PROVIDERS.items():
        shown = f"{name}:{provider.default_model or '<model>'}"
        if not provider.needs_key or any(desk.environ.get(variable, "").strip() for variable in provider.key_variables):
            ready.append(shown)
        elif provider.key_variables:
            missing.append(f"{name} ({provider.key_variables[0]})")
    desk.say(f"ready  {', '.join([*ready, 'offline'])}")
    if missing:
        desk.note(f"no key for {', '.join(missing)}")
    desk.note("/model NAME goes on with another one in this conversation")
