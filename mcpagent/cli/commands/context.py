"""`/context` and `/cost`."""

from __future__ import annotations

from mcpagent.cli.commands.desk import Desk
from mcpagent.cli.figures import counted, money, tokens
from mcpagent.cli.requests import context_lines


async def context(desk: Desk, _argument: str) -> None:
    """what the last request carried, and what each part took"""
    await desk.ready()
    window = desk.figures.window(desk.agent.model.name)
    desk.say(*context_lines(desk.agent, desk.requests, window, desk.terminal.glyphs, desk.width))


async def cost(desk: Desk, _argument: str) -> None:
    """what this chat took so far, and what tool search saved"""
    spent = desk.agent.spent
    usage = spent.usage
    cached = f" ({tokens(usage.cache_read_tokens)} from the cache)" if usage.cache_read_tokens else ""
    price = money(spent.dollars, known=spent.cost_known)
    desk.say(
        f"{counted(desk.trace.requests, 'request')} in this conversation",
        f"the whole chat: in {tokens(usage.input_tokens)}{cached}, out {tokens(usage.output_tokens)}, {price}",
        f"tool definitions: about {tokens(spent.definition_tokens)} tokens of it",
    )
    if spent.saved_tokens > 0:
        desk.say(f"offering every tool each time would have added {tokens(spent.saved_tokens)}")
    if not spent.cost_known:
        desk.note("? some prices are not known")
