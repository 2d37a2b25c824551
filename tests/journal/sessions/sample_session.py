"""A kept session that has one of everything: what exports have to show, in words of whoever asks for it."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict, replace
from typing import Any

from mcpagent import Usage
from mcpagent.history.conversation import UNKNOWN, CallProgress
from mcpagent.journal.sessions import LoadedSession, SessionInfo
from mcpagent.journal.sessions.saved_state import InitialValues, LastAnnounced, SavedState, progress_to_json, to_json
from mcpagent.values.approval import PendingCall
from mcpagent.values.messages import (
    Image,
    Message,
    Origin,
    Part,
    ProviderBlock,
    Spent,
    Step,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolErrorKind,
    ToolKey,
    ToolResult,
    ToolsChanged,
    ToolsShown,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SVG = b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'><script>x()</script></svg>").decode()
NOW = 1_790_000_000.0


def said(role: Any, *parts: Part | str) -> Message:
    """A message; texts stand for `Text`."""
    return Message(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def result(call: str, name: str, text: str, error: ToolErrorKind | None = None, seconds: float = 0.25) -> ToolResult:
    """A result of one text."""
    return ToolResult(call, name, (Text(text),), error, seconds)


def kept(
    messages: tuple[Message, ...],
    steps: tuple[Step, ...] = (),
    *,
    standing: SavedState | None = None,
    progress: dict[str, CallProgress] | None = None,
    **info: Any,
) -> LoadedSession:
    """As a store gives it."""
    found = standing or SavedState()
    values = {
        name: to_json(name, getattr(found, name))
        for name in ("beginning", "told", "pending", "spent")
        if getattr(found, name)
    }
    described = replace(SessionInfo("s-1", "", NOW, NOW + 60), **info)
    calls = {call: progress_to_json(known) for call, known in (progress or {}).items()}
    return LoadedSession(described, messages, steps, calls, values)


def everything(words: str = "hello") -> LoadedSession:
    """Each kind of part, outcome and change, with these words of others wherever others have a word."""
    tool = ToolDefinition(f"calc {words}"[:64], words, {"type": "object", "description": words}, "math", "calc")
    call = ToolCall("c1", "search_tools", {"query": words, words: [words]})
    messages = (
        said("user", f"First: {words}", Image("image/png", PIXEL)),
        said("assistant", Thinking(words), Thinking("", {"data": words}), words, call),
        said(
            "tool",
            result("c1", "search_tools", f"found {words}"),
            ToolsShown((words,), (ToolKey("math", words),)),
            ToolsChanged((tool,), (words,), joined=(words,)),
        ),
        said("assistant", ProviderBlock({"type": words, "data": [words]}), ToolCall("c2", words, {}, malformed=words)),
        said("tool", result("c2", words, words, "invalid_arguments")),
        said(
            "assistant",
            ToolCall("c3", "remove", {"path": words}),
            ToolCall("c4", "book", {"place": words}),
            ToolCall("c5", "shot", {}),
            ToolCall("c6", "slow", {}),
        ),
        said(
            "tool",
            result("c3", "remove", f"declined {words}", "denied"),
            result("c4", "book", UNKNOWN, "cancelled"),
            ToolResult("c5", "shot", (Text(words), Image("image/png", PIXEL), Image("image/svg+xml", SVG))),
            result("c6", "slow", words, "timeout"),
        ),
        replace(said("assistant", f"# Done\n\n{words}"), origin=Origin(words, "chat", words, words)),
        said("user", "Your tools have changed.", ToolsChanged(removed=(words,))),
        said("user", f"Second: {words}"),
        said(
            "assistant",
            words,
            ToolCall("p1", "pay", {"to": words}),
            ToolCall("p2", "ask_ann", {}),
            ToolCall("p3", "sent", {}),
            ToolCall("p4", "later", {}),
            ToolCall("p5", "known", {}),
        ),
    )
    definition = ToolDefinition("pay", words, {"type": "object"})
    pending = (
        PendingCall.of("approval", ToolCall("p1", "pay", {"to": words}), definition),
        PendingCall.of("external", ToolCall("p2", "ask_ann", {}), replace(definition, name="ask_ann")),
    )
    base = ("search_tools", "add_tool")
    steps = (
        Step(1, f"model {words}", base, Usage(1_234, 56, 1_000, 0, 1), 0.0123, 2.34),
        Step(3, f"model {words}", (*base, words), Usage(2_000, 10, 0, 0, 1), None, 1.0),
        Step(5, f"model {words}", (*base, words), Usage(2_100, 20, 0, 0, 1), 0.001, 1.5),
        Step(7, f"model {words}", (*base, words), Usage(2_200, 30, 0, 0, 1), 0.001, 1.5),
        Step(10, f"model {words}", base, Usage(2_300, 40, 0, 0, 1), 0.001, 1.5),
    )
    spent = Spent(Usage(9_834, 156, 1_000, 0, 5), 0.0153, False)
    standing = SavedState(
        InitialValues(system=f"Be kind. {words}"), LastAnnounced({words: words}), pending, spent=spent
    )
    progress = {"p3": CallProgress(), "p5": CallProgress(parts=(result("p5", "known", f"known {words}"),))}
    title, folder = words[:80], f"/home/ann/{words}"
    return kept(messages, steps, standing=standing, progress=progress, title=title, folder=folder, model=words)


def spent_in(session: LoadedSession) -> Any:
    """What it says was spent, as JSON has it."""
    return asdict(SavedState.from_json(session.values).spent)
