"""Compute the offline model's next message from a request and the current time. The ID of a call contains its need."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from mcpagent.history.intake.file_descriptions import details_of, file_kind
from mcpagent.offline.argument_filling import Fit, slots_of
from mcpagent.offline.need import Need, Step, small_talk, split_needs, split_words
from mcpagent.offline.next_step import MOST_NEAR, SEARCH, VIRTUAL, NextStep, choose
from mcpagent.prompt.builder import asks_for_summary
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.messages import (
    FilePart,
    Message,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

CALL_COMMAND = "mcpagent tools call"
_MOST_TOLD = 1_000
_FOR_THE_MODEL = " Do not call it again."
_NOT_IN_PART = (
    "I could do this, but not the rest, so nothing was done. Ask for it alone."
)
_PLACEHOLDERS = {"integer": "NUMBER", "number": "NUMBER", "boolean": "true|false"}
INTRODUCTION = (
    "(Offline stand-in: rules that search and call tools, no language model.)"
)
_PROGRAMS = "run_code"
_NO_PROGRAMS = "In code mode a model writes programs, and rules cannot: leave out --code, or take a real model."
# The beginnings of the runtime's notes about tools. Such a note is also in a user's message, but is not a prompt.
_NEWS = re.compile(
    r"A server (?:has connected, |is still connecting: |cannot be used: )"
    r"|More tools can be used|Your tools have changed|The server \".*\" changed"
    r"|(?:Loaded|Found) for what is asked next: "
    r"|What was set aside can be read"
)
_CONNECTS = re.compile(
    r"(?m)^(?:- (.{1,64}), still connecting: |A server is still connecting: (.{1,64}?); )"
)
_CONNECTED = re.compile(
    r"(?m)^A server (?:has connected, [^:\n]{1,80}: |cannot be used: )(.{1,80})"
)


class _RuleInput(Protocol):
    """The parts of a request that the rules use; see `mcpagent.models.ModelRequest`."""

    @property
    def system(self) -> str: ...
    @property
    def messages(self) -> Sequence[Message]: ...
    @property
    def tools(self) -> Sequence[ToolDefinition]: ...
    @property
    def tool_choice(self) -> str: ...


def answer(
    request: _RuleInput,
    now: datetime,
    command: str = CALL_COMMAND,
    missing: Sequence[str] = (),
) -> Message:
    """Return the next message for a request at the time `now`.

    `command` is the command with which the user calls a tool directly. `missing` has a line for each server whose tools
    are not available.
    """
    messages = request.messages
    prompts = [
        at
        for at, message in enumerate(messages)
        if message.role == "user" and not _NEWS.match(message.text)
    ]
    if (
        request.tool_choice == "none"
        and len(prompts) > 1
        and messages[prompts[-1] - 1].role == "tool"
    ):
        prompts.pop()  # the runtime's demand for an answer after tool results is not a prompt
    if prompts:
        start, prompt = prompts[-1], messages[prompts[-1]].text
    else:
        start, prompt = len(messages), ""
    said = [
        message.text
        for message in messages[:start]
        if message.role == "assistant" and message.text
    ]
    if any(INTRODUCTION in text for text in said):
        introduction = ""
    else:
        introduction = f"\n\n{INTRODUCTION}"
    if asks_for_summary(prompt):
        return Message(
            "assistant", (Text(_summary(messages[:start]) or prompt[:_MOST_TOLD]),)
        )
    if any(tool.name == _PROGRAMS for tool in request.tools):
        return Message("assistant", (Text(_NO_PROGRAMS + introduction),))
    if (talk := small_talk(prompt)) is not None:
        if not talk:
            talk = _abilities(request) + _missing_lines(missing)
        return Message("assistant", (Text(talk + introduction),))
    needs = _needs(prompt, messages[:start], messages[start:], now)
    outcomes = [choose(need, request.tools) for need in needs]
    # A request of several parts runs completely or not at all, so the tools for all parts are searched first.
    looks = any(outcome.looks for outcome in outcomes)
    is_whole = all(outcome.is_ready for outcome in outcomes)
    calls = [
        (number, *call)
        for number, outcome in enumerate(outcomes)
        for call in outcome.calls
        if (outcome.looks if looks else is_whole)
    ]
    if request.tool_choice == "none" or not calls:
        text = _final_answer(needs, outcomes, _connecting(request), command)
        if missing and not request.tools:
            text = "No tools are connected, so there is nothing I can do."
        if any(outcome.why in ("unfound", "barred") for outcome in outcomes):
            text += _missing_lines(missing)
        return Message("assistant", (Text(text + introduction),))
    known = " ".join(call.id for message in messages for call in message.tool_calls)
    first = (
        max(
            (int(number) for number in re.findall(r"\boffline_(\d{1,9})_", known)),
            default=0,
        )
        + 1
    )
    parts = (
        ToolCall(f"offline_{first + at}_{call[0]}", *call[1:])
        for at, call in enumerate(calls)
    )
    return Message("assistant", tuple(parts))


def _summary(messages: Sequence[Message]) -> str:
    """Summarise the newest requests, calls and answers in one short line each; rules cannot judge what is important."""
    lines: list[str] = []
    for message in messages:
        if message.role == "user" and _NEWS.match(message.text):
            continue
        who = "answered"
        if message.role == "user":
            who = "asked"
        if message.text and message.role != "tool":
            lines += [f"- {who}: {safe_line(message.text, 120)}"]
        lines += [
            f"- called: {safe_line(call.name, 80)}" for call in message.tool_calls
        ]
    return "\n".join(lines[-20:])


def _needs(
    prompt: str, before: Sequence[Message], after: Sequence[Message], now: datetime
) -> list[Need]:
    """Return the needs of a prompt, each with its own steps; the first one may refer to the last call before the
    prompt.
    """
    text, payload = _payload(prompt)
    earlier = [
        None,
        *(
            step
            for step in _steps(before)
            if step[0].name not in VIRTUAL and not step[1].error
        ),
    ]
    needs = [
        Need(piece, now, payload, None if at else earlier[-1])
        for at, piece in enumerate(split_needs(text, now))
    ]
    for step in _steps(after):
        found = re.fullmatch(r"offline_\d+_(\d)", step[0].id)
        needs[min(int(found[1]) if found else 0, len(needs) - 1)].steps.append(step)
    return needs


def _steps(messages: Sequence[Message]) -> list[Step]:
    results = {
        result.call_id: result
        for message in messages
        for result in message.tool_results
    }
    return [
        (call, results[call.id])
        for message in messages
        for call in message.tool_calls
        if call.id in results
    ]


def _payload(prompt: str) -> tuple[str, str]:
    """Return the request, and a longer text after an empty line (a paste, a file, or stdin), or ""."""
    head, gap, rest = prompt.strip().partition("\n\n")
    if not gap or len(head) > 500:
        return prompt.strip()[:2_000], ""
    fenced = re.fullmatch(
        r"(?:[^\n]{1,200}\n)?(`{3,})[^\n`]*\n(.*?)\n?\1\s*", rest.strip(), re.DOTALL
    )
    return head.strip(), fenced[2] if fenced else rest.strip("\n")


def _abilities(request: _RuleInput) -> str:
    """Return a description of the available tools for an answer."""
    categories = re.findall(r"(?m)^- [^\n]{1,200}, \d+ tools?$", request.system)
    if any(tool.name == SEARCH for tool in request.tools) and categories:
        return "\n".join(
            ("I search these tools for what you ask, and call what fits:", *categories)
        )
    names = ", ".join(
        tool.name for tool in request.tools[:40] if tool.name not in VIRTUAL
    )
    if names:
        return f"I can call these tools: {names}."
    return "No tools are connected, so there is nothing I can do."


def _connecting(request: _RuleInput) -> str:
    """Return the servers that the conversation reported as connecting, but not yet as ready or failed."""
    told = [
        request.system,
        *(message.text for message in request.messages if message.role == "user"),
    ]
    begun = dict.fromkeys(
        first or second for text in told for first, second in _CONNECTS.findall(text)
    )
    ended = [line for text in told for line in _CONNECTED.findall(text)]
    return ", ".join(
        name
        for name in begun
        if not any(re.match(rf"{re.escape(name)}\W", line) for line in ended)
    )


def _final_answer(
    needs: Sequence[Need],
    outcomes: Sequence[NextStep],
    connecting: str,
    command: str,
) -> str:
    """Return one answer for all needs; if there are several, each answer follows the text of its need."""
    texts = [_answer(outcome, connecting, command) for outcome in outcomes]
    if not all(outcome.is_ready for outcome in outcomes):
        texts = [
            text if outcome.why != "calls" else _NOT_IN_PART
            for text, outcome in zip(texts, outcomes, strict=True)
        ]
    heads = (f"- {safe_line(need.text, 80).rstrip('?.:; ')}:" for need in needs)
    if len(texts) == 1:
        return texts[0]
    return "\n".join(map(_list_item, heads, texts))


def _missing_lines(missing: Sequence[str]) -> str:
    """Return a Markdown list of servers whose tools are not available, to append to an answer, or ""."""
    if not missing:
        return ""
    lines = [f"- {safe_line(line, 400)}" for line in missing]
    return "\n".join(["\n\nTools of these servers are missing:", *lines])


def _list_item(head: str, text: str) -> str:
    """Return an item of a Markdown list; further lines of the text are indented."""
    first, *rest = text.splitlines() or [""]
    if not rest:
        return f"{head} {first}"
    return "\n".join([head, *(f"  {line}".rstrip() for line in (first, *rest))])


def _command_lines(commands: Sequence[str]) -> str:
    """Return the commands as a Markdown code block, which a terminal shows without wrapping lines."""
    return "\n".join(["", "", *(f"    {command}" for command in commands)])


def _answer(outcome: NextStep, connecting: str, command: str) -> str:
    fit = outcome.fit
    if outcome.why == "calls":
        return "I had to stop before a tool gave an answer."
    if outcome.why == "barred":
        return "No tool here fits that: it orders nothing and asks for no value, and rules cannot explain or advise."
    if outcome.why == "destructive":
        return _with_forms(
            "That would take something away for good. Rules never do that by themselves, so nothing was done.",
            outcome,
            command,
        )
    if outcome.why == "done":
        return _reported(outcome)
    if fit is None:
        asked = " and ".join(
            f"“{safe_line(str(call.arguments.get('query')), 60)}”"
            for call, _ in outcome.steps
        )
        begin = "No"
        if asked:
            begin = f"I searched for {asked}, and no"
        if connecting:
            return f"{begin} tool that is ready fits that. Still connecting: {connecting}. Ask again in a moment."
        return _with_forms(
            f"{begin} tool here fits that. I can only do what a tool does; a real model could answer more.",
            outcome,
            command,
        )
    name, given = (
        fit.tool.name,
        safe_line(json.dumps(fit.arguments, ensure_ascii=False), 300),
    )
    if outcome.why == "changes":
        pairs = (
            (key, value if isinstance(value, str) else json.dumps(value))
            for key, value in fit.arguments.items()
        )
        whole = " ".join(
            (
                f"{command} {name}",
                *(f"{key}={shlex.quote(value)}" for key, value in pairs),
            )
        )
        by_hand = ", or, if it only reads, mark it: read_only=True"
        if fit.tool.server is not None:
            by_hand = f", or run:{_command_lines([safe_line(whole, 400)])}"
        why = "It is not marked as only reading, so rules do not call it by themselves"
        return f"I would call `{name}` with {given}. {why}: use a model with a key{by_hand}"
    return _with_forms(_question(fit), outcome, command)


def _question(fit: Fit) -> str:
    """Return a question about missing parts of the request, for a user who does not know the tools."""
    sentences = [f"`{fit.tool.name}` is the nearest tool, and I called nothing."]
    for slot in fit.missing[:1]:
        about = ", ".join(map(str, slot.schema.get("enum") or [slot.about]))
        lacks = f"`{slot.name}`"
        if about:
            lacks = f"{lacks}, {safe_line(about, 160).rstrip('.')}"
        sentences.append(f"One thing is missing: {lacks}. Ask again with it, please.")
    if fit.unused:
        words = ", ".join(f"“{safe_line(word, 40)}”" for word in fit.unused[:4])
        sentences.append(
            f"I do not understand {words}, and I do not answer a part of a question."
        )
    return " ".join(sentences)


def _with_forms(text: str, outcome: NextStep, command: str) -> str:
    """Return the text, followed by commands for the most similar tools, for the user to complete."""
    fit = outcome.fit
    tools = list(outcome.near)
    known: dict[str, Any] = {}
    if fit is not None:
        tools = [fit.tool, *(tool for tool in tools if tool.name != fit.tool.name)]
        known = fit.arguments
        if not fit.unused:
            tools = tools[:1]
    lines = [
        _form(tool, known if fit is not None and tool is fit.tool else {}, command)
        for tool in tools[:MOST_NEAR]
        if tool.server is not None
    ]
    if not lines:
        return text
    return f"{text} To call a tool yourself, fill in and run:{_command_lines(lines)}"


def _form(tool: ToolDefinition, known: Mapping[str, Any], command: str) -> str:
    """Return a command that calls a tool, with placeholders for its parameters; optional ones are in brackets."""
    words = [f"{command} {tool.name}"]
    for slot in slots_of(tool.parameters)[:8]:
        declared = slot.schema.get("type")
        if slot.name in known:
            value = known[slot.name]
            text = value if isinstance(value, str) else json.dumps(value)
            words.append(f"{slot.name}={shlex.quote(text)}")
            continue
        enum = slot.schema.get("enum")
        if declared in ("array", "object"):
            word = f"{slot.name}:=JSON"
        elif isinstance(enum, list) and enum:
            word = f"{slot.name}={'|'.join(map(str, enum[:4]))}"
        else:
            word = f"{slot.name}={_PLACEHOLDERS.get(str(declared), 'TEXT')}"
        words.append(word if slot.required else f"[{word}]")
    return safe_line(" ".join(words), 400)


def _reported(outcome: NextStep) -> str:
    lines = []
    for call, result in outcome.steps:
        error = safe_line(
            " ".join(safe_text(result.text).split()).removeprefix("Error: "), 300
        )
        if result.error == "denied":
            text = f"`{call.name}` did not run: {_denial(call.name, error)}"
        elif result.error:
            text = f"`{call.name}` failed: {error}"
        else:
            text = _rendered(result)
        label = ", ".join(
            safe_line(str(value), 60) for value in call.arguments.values()
        )
        lines.append(
            f"{label}: {text}" if len(outcome.steps) > 1 and label not in text else text
        )
    return "\n".join(lines)


def _denial(tool: str, text: str) -> str:
    """Return the reason why a call was denied, reworded for the user: the original text is for a model."""
    why = text.replace(_FOR_THE_MODEL, "").removeprefix(f'"{tool}" was not run: ')
    return why.replace(f'The user declined this call of "{tool}"', "you declined it")


def _rendered(result: ToolResult) -> str:
    """Return a result for a reader: JSON as plain lines, times in everyday form, long texts cut."""
    files = [
        f"({file_kind(part)}: {details_of(part)})"
        for part in result.content
        if isinstance(part, FilePart)
    ]
    text = safe_text(result.text).strip().removesuffix(INTRODUCTION).rstrip()
    with suppress(ValueError, RecursionError):
        if text[:1] in ("{", "["):
            text = _value(json.loads(text))
    cut = "\n".join(text.splitlines()[:60])[:6_000]
    more = []
    if len(cut) < len(text):
        more = [f"... ({len(text):,} characters in all)"]
    return "\n".join(filter(None, (cut, *more, *files))) or "(nothing)"


def _value(value: Any) -> str:
    if isinstance(value, list):
        if all(isinstance(item, int | float) for item in value):
            return ", ".join(map(_value, value))
        return "\n".join(
            f"- {safe_line(_value(item).replace(chr(10), '; '), 400)}" for item in value
        )
    if isinstance(value, Mapping):
        fields = {
            " ".join(split_words(str(key))) or str(key): _value(inner)
            for key, inner in value.items()
        }
        if " on " in fields.get("datetime", "") and "timezone" in fields:
            return f"{fields['datetime']} in {fields['timezone']}"
        inner = [
            f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"
            for key, text in fields.items()
        ]
        return (
            "\n" if len(inner) > 4 or any("\n" in one for one in inner) else "; "
        ).join(inner)
    if isinstance(value, str) and re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?", value
    ):
        moment = datetime.fromisoformat(value)
        return f"{moment:%H:%M} on {moment:%A}, {moment.day} {moment:%B %Y}"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, str):
        return value
    return json.dumps(value)
