"""The commands about the conversation itself: undo, save, change the model, show context and cost."""

from __future__ import annotations

import base64
import re
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from mcpagent.cli.chat.slash.chat_state import ChatQuestion, ChatState, Leave
from mcpagent.cli.chat.status_line import window_of
from mcpagent.cli.chat.trace import Trace, context_lines, definition_scale
from mcpagent.cli.common.configuration import short_path
from mcpagent.cli.common.number_formats import counted, money, tokens
from mcpagent.cli.common.stored_sessions import short_id
from mcpagent.cli.common.user_programs import output_of
from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.file_changes import write_beside
from mcpagent.utilities.filesystem.user_folders import user_data_folder
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.utilities.text.secrets import hide_environment
from mcpagent.values.messages import Spent

COPY_SECONDS = 3.0
MAX_OSC_52 = 74_994
"""Maximum number of base64 bytes that xterm, and most terminals like it, accept."""


async def new(desk: ChatState, _argument: str) -> None:
    """a new conversation; servers stay connected"""
    before = desk.agent._runtime.own_session
    left = ""
    if before.is_kept and before.messages:
        left = f"; /resume {short_id(before.id)} goes back"
    was_kept = before.is_kept
    desk.agent.new_conversation()
    if not was_kept:  # the new conversation is not stored either
        desk.agent._runtime.own_session.stop_keeping()
    desk.trace = Trace()
    desk.asked.clear()
    desk.kept.clear()
    desk.note(f"new conversation{left}")


async def retry(desk: ChatState, _argument: str) -> None:
    """ask the last question once more, without the first answer"""
    if not desk.asked:
        desk.say("there is no question yet")
        return
    last = _take_back(desk)
    await desk.ask(last.typed, last.prompt)


async def undo(desk: ChatState, argument: str) -> None:
    """take the last question and its answer back; N: the last N"""
    if argument and not (argument.isdecimal() and int(argument)):
        desk.warn(
            f"/undo {safe_line(argument, 20)} - how many questions? /undo 2 takes the last two back"
        )
        return
    wanted = int(argument or 1)
    if not desk.asked:
        desk.say("nothing to take back")
        return
    if wanted > (most := len(desk.asked)):
        desk.warn(
            f"there {'is' if most == 1 else 'are'} {counted(most, 'question')} to take back; /undo {most}"
        )
        return
    called = sum(
        len(message.tool_calls)
        for message in desk.agent.messages[desk.asked[-wanted].length :]
    )
    for _ in range(wanted):
        desk.note(f"taken back: {safe_line(_take_back(desk).typed, 80)}")
    if called:
        desk.note(f"what its {counted(called, 'call')} did outside stays done")


async def edit(desk: ChatState, _argument: str) -> None:
    """change the last question in $EDITOR and ask it instead"""
    if not desk.asked:
        desk.say("there is no question yet; Ctrl+E opens the editor for a new one")
        return
    before = desk.asked[-1].typed
    changed = (await desk.edit(before)).strip()
    if not changed or changed == before.strip():
        desk.note("not changed; nothing is asked")
        return
    _take_back(desk)
    await desk.ask(changed, changed)


def _take_back(desk: ChatState) -> ChatQuestion:
    """Restore the state before the last prompt, and return that prompt."""
    last = desk.asked.pop()
    desk.agent._runtime.own_session.rewind(last.length)
    desk.trace = last.trace
    return last


async def leave(_desk: ChatState, _argument: str) -> None:
    """end the chat (also exit, quit, bye, Ctrl-D)"""
    raise Leave


async def model(desk: ChatState, argument: str) -> None:
    """the model in use, and others that you can use; NAME: switch to it"""
    if not argument:
        _show_models(desk)
        return
    await desk.ready()
    before = desk.agent._runtime.model.name
    try:
        await desk.agent.use_model(argument)
    except ConfigError as error:
        desk.warn(safe_line(str(error), 300))
        return
    found = counted(len(desk.agent.discovered_tools), "tool")
    desk.say(
        Text.assemble(
            "model  ",
            (desk.agent._runtime.model.name, "user"),
            (f"  (was {before})", "dim"),
        )
    )
    if desk.agent.messages:
        desk.note(
            f"the conversation goes on with it, and with {found} found so far; the provider's cache starts anew"
        )


def _show_models(desk: ChatState) -> None:
    """Print the current model, and the providers that could answer: those whose key is set or that need no key."""
    from mcpagent.config.secret_store import with_stored_keys
    from mcpagent.models.resolve import PROVIDERS

    environ = with_stored_keys(desk.environ)
    desk.say(Text.assemble("model  ", (desk.agent._runtime.model.name, "user")))
    ready: list[str] = []
    missing: list[str] = []
    for name, provider in PROVIDERS.items():
        if not provider.needs_key or any(
            environ.get(variable, "").strip() for variable in provider.key_variables
        ):
            ready.append(f"{name}:{provider.default_model or '<model>'}")
        elif provider.key_variables:
            missing.append(f"{name} ({provider.key_variables[0]})")
    desk.say(f"usable now: {', '.join([*ready, 'offline'])}")
    if missing:
        desk.note(f"needs a key: {', '.join(missing)}")
    desk.note("/model NAME goes on with another one in this conversation")


async def context(desk: ChatState, _argument: str) -> None:
    """what the last request carried, and what each part took"""
    desk.say(
        *context_lines(
            desk.agent,
            desk.trace,
            window_of(desk.agent),
            desk.terminal.glyphs,
            desk.width,
        )
    )
    left_out = desk.agent._runtime.own_session.left_out
    if left_out.messages:
        how = "nothing"
        if left_out.summary:
            how = "a summary"
        desk.note(
            f"of {counted(left_out.messages, 'message')} the model has {how} in their place; /history shows them"
        )
    if left_out.shortened:
        desk.note(
            f"{counted(len(left_out.shortened), 'result')} shortened to save room"
        )


async def cost(desk: ChatState, _argument: str) -> None:
    """what this chat took so far, and what tool search saved"""
    spent, conversation = desk.agent.spent, desk.agent._runtime.own_session.spent
    scale = definition_scale(desk.trace)
    definitions = min(spent.definition_tokens * scale, spent.usage.input_tokens)
    desk.say(f"{counted(desk.trace.requests, 'request')} in this conversation")
    since = "the whole chat"
    if conversation != spent:
        since = "since this start"
        desk.say(f"this conversation, since it began: {_taken(conversation)}")
    desk.say(
        f"{since}: {_taken(spent)}",
    )
    if definitions:
        desk.say(f"tool definitions: about {tokens(round(definitions))} tokens of it")
    if spent.saved_tokens > 0:
        desk.say(
            f"offering every tool each time would have added {tokens(round(spent.saved_tokens * scale))}"
        )
    if spent.estimated_tokens:
        desk.note(
            f"beside that about {tokens(spent.estimated_tokens)} tokens that no provider counted"
        )
    if not spent.cost_known:
        desk.note("? some prices are not known")


def _taken(spent: Spent) -> str:
    """Return `in 1.2k (800 from the cache), out 90, $0.021`."""
    usage = spent.usage
    cached = ""
    if usage.cache_read_tokens:
        cached = f" ({tokens(usage.cache_read_tokens)} from the cache)"
    price = money(spent.dollars, known=spent.cost_known)
    return f"in {tokens(usage.input_tokens)}{cached}, out {tokens(usage.output_tokens)}, {price}"


# -- Export ------------------------------------------------------------------------------------------------------------


async def save(desk: ChatState, argument: str) -> None:
    """the whole conversation as JSON, under this name"""
    _write(desk, "json", argument)


async def export(desk: ChatState, argument: str) -> None:
    """the conversation as md, json or html, to read or pass on"""
    from mcpagent.journal.sessions.export import FORMS

    form, _, name = argument.partition(" ")
    form = form or "md"
    if form in FORMS:
        _write(desk, form, name.strip())
    else:
        desk.warn(f"no format {safe_line(form, 20)}; /export md, json or html")


def _write(desk: ChatState, form: str, name: str) -> None:
    """Write the conversation under the first free name: existing files are never overwritten."""
    from mcpagent.journal.sessions.export import exported

    if not desk.agent.messages:
        desk.say("there is nothing to keep yet")
        return
    hide_environment(desk.environ)
    text = exported(desk.agent._runtime.own_session.snapshot(), form)
    path = _path(desk, form, name or f"chat-{datetime.now(UTC):%Y-%m-%d-%H%M%S}")
    try:
        path = write_beside(path, text)
    except OSError as error:
        desk.warn(
            f"{short_path(str(path), desk.folder)} cannot be written: {safe_line(str(error.strerror or error))}"
        )
        return
    desk.say(f"saved as {short_path(str(path), desk.folder)}")


def _path(desk: ChatState, form: str, name: str) -> Path:
    """Return the path: a bare name is placed in the user's folder, a path is used unchanged."""
    if "/" in name or "\\" in name or name.endswith(f".{form}"):
        path = desk.folder / Path(name).expanduser()
        if path.suffix:
            return path
        return path.with_suffix(f".{form}")
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "chat"
    return user_data_folder(desk.environ) / "exports" / f"{plain[:80]}.{form}"


# -- Clipboard ---------------------------------------------------------------------------------------------------------


async def copy(desk: ChatState, _argument: str) -> None:
    """the last answer into the clipboard"""
    answers = [
        message.text
        for message in desk.agent.messages
        if message.role == "assistant" and message.text.strip()
    ]
    if not answers:
        desk.say("there is no answer yet")
        return
    desk.note(await _copied(safe_text(answers[-1]), desk.terminal.out, desk.environ))


async def _copied(text: str, console: Console, environ: Mapping[str, str]) -> str:
    """Copy the text, and return one line with the outcome."""
    size = f"{len(text):,} characters"
    command = _clipboard_command(environ)
    if command is not None:
        try:
            if (await output_of(command, text, COPY_SECONDS))[0] == 0:
                return f"copied {size} with {command[0]}"
        except (TimeoutError, OSError):
            pass  # the terminal may set the clipboard instead
    payload = base64.b64encode(text.encode()).decode()
    if not console.is_terminal or environ.get("TERM") in ("dumb", "unknown"):
        return "not copied: there is no clipboard command, and this is no terminal that could do it"
    if len(payload) > MAX_OSC_52:
        return (
            f"not copied: {size} are more than terminals take; /export md writes a file"
        )
    console.file.write(f"\x1b]52;c;{payload}\x07")
    console.file.flush()
    return f"sent {size} to the terminal's clipboard (OSC 52, which some terminals have switched off)"


def _clipboard_command(environ: Mapping[str, str]) -> list[str] | None:
    """Return the desktop's clipboard command; None over SSH, where it would copy on the wrong machine."""
    if environ.get("SSH_CONNECTION"):
        return None
    commands: list[tuple[bool, list[str]]] = [
        (sys.platform == "darwin", ["pbcopy"]),
        (sys.platform == "win32", ["clip"]),
        (bool(environ.get("WAYLAND_DISPLAY")), ["wl-copy"]),
        (bool(environ.get("DISPLAY")), ["xclip", "-selection", "clipboard"]),
        (bool(environ.get("DISPLAY")), ["xsel", "--clipboard", "--input"]),
    ]
    usable = (
        command
        for fits, command in commands
        if fits and shutil.which(command[0], path=environ.get("PATH"))
    )
    return next(usable, None)
