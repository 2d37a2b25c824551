"""Join the applicable sections of the system prompt. The texts themselves are the `.md` files in this folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from mcpagent.utilities.text.for_model import fenced, for_model
from mcpagent.utilities.text.safe_text import safe_line

MAX_CATEGORY_CHARACTERS = 120
MAX_LINE_TOKENS, MAX_LINES_TOKENS = 25, 1_500
"""Maximum number of estimated tokens of one category's line, and of all lines together."""

_MORE_TOKENS = 8
"""Tokens of the line that counts the omitted entries."""

MOST_RESULTS = 8
"""Maximum number of results in a progress note; the latest are listed."""

_LETTERS_A_TOKEN = 8
_PIECES = re.compile(r"\w+|[^\w\s]")
_MARKUP = str.maketrans("", "", "`*_#<>[]()|")


@cache
def _words(name: str) -> Template:
    return Template(
        resources.files("mcpagent.prompt")
        .joinpath(f"{name}.md")
        .read_text(encoding="utf-8")
        .strip()
    )


def _line(text: str, limit: int = 200) -> str:
    """Return the text as one printable line for the system prompt."""
    return for_model(safe_line(text, limit))


def category_lines(categories: Iterable[tuple[str, str, int]]) -> list[str]:
    """Return a line for each (name, description, number of tools), within `MAX_LINE_TOKENS` and `MAX_LINES_TOKENS`.

    If there are too many categories, all lines are shortened; the last line counts those that do not fit.
    """
    given = list(categories)
    each = min(MAX_LINE_TOKENS, MAX_LINES_TOKENS // max(len(given), 1))
    lines: list[str] = []
    left = MAX_LINES_TOKENS - _MORE_TOKENS
    for name, description, tools in given:
        line = category_line(name, description, tools, most=each)
        left -= line_tokens(line)
        if left < 0 and len(lines) + 1 < len(given):
            return [*lines, f"- and {len(given) - len(lines)} more"]
        lines.append(line)
    return lines


def category_line(
    name: str, description: str, tools: int, *, most: int = MAX_LINE_TOKENS
) -> str:
    """Return `- github (issues, pull requests, repositories), 35 tools`, with at most `most` tokens.

    The description may be a server's own text: it is cut between words, and characters that could imitate markup or
    close the brackets are removed, so that it stays data inside the prompt. Name and number are never cut.
    """
    about = _line(_line(description, 1_000).translate(_MARKUP), MAX_CATEGORY_CHARACTERS)
    if tools == 1:
        count = f"{tools} tool"
    else:
        count = f"{tools} tools"
    shown = _line(name, 64)
    while about:
        line = f"- {shown} ({about}), {count}"
        if line_tokens(line) <= most:
            return line
        about = about.rpartition(" ")[0].rstrip(",;:.- ")
    return f"- {shown}, {count}"


def line_tokens(line: str) -> int:
    """Estimate the tokens of a line, rather too many than too few.

    Eight letters of a word, a sign, or a character of another script count as one token; the result is at least a
    quarter of the line's characters.
    """
    pieces = 0
    for found in _PIECES.finditer(line):
        text = found[0]
        if text.isascii():
            pieces += -(-len(text) // _LETTERS_A_TOKEN)
        else:
            pieces += len(text)
    return max(pieces, -(-len(line) // 4))


def connecting_line(server: str) -> str:
    """Return a line, to be listed among the categories, for a server whose tools are still unknown."""
    return f"- {_line(server, 64)}, still connecting: you are told when its tools can be used"


def connecting_section(servers: Sequence[str]) -> str:
    """Return one section for all connecting servers, for a conversation without tool search."""
    return _words("connecting").substitute(
        servers="\n".join(map(connecting_line, servers))
    )


def tool_search_section(
    category_lines: Sequence[str],
    *,
    loads: bool = False,
    provider_searches: bool = False,
    is_short: bool = False,
) -> str:
    """Return the section about searching tools, with the categories of tools and the workflow.

    `loads`: a search loads the tools that it returns; `is_short`: the section has only a few lines.
    `provider_searches`: the provider's own search replaces `search_tools`.
    """
    listed = "\n".join(category_lines) or "- none: no tools are connected"
    if loads:
        if is_short:
            words = "tool_search_short"
        else:
            words = "tool_search_loading"
    else:
        words = "tool_search"
    return _words("tool_search_provider" if provider_searches else words).substitute(
        categories=listed
    )


def programs_section(
    category_lines: Sequence[str], *, loads: bool = False, has_direct: bool = False
) -> str:
    """Return the section on how to call tools in programs, and the categories of tools.

    `loads`: a search also loads the tools that it finds; `has_direct`: some tools are offered from the start.
    """
    direct = ""
    if loads:
        direct = " It also loads them: if one call is enough, call the tool directly."
    elif has_direct:
        direct = " If one call of a tool in your list is enough, call it directly."
    return _words("programs").substitute(
        direct=direct,
        categories="\n".join(category_lines) or "- none: no tools are connected",
    )


def program_words(name: str, modules: Iterable[str] = ()) -> str:
    """Return the description of a code mode tool for the model: `name` is "search" or "run". `modules` are the
    importable modules.
    """
    return _words(f"program_{name}").substitute(modules=", ".join(modules))


def built_in_instructions() -> str:
    """Return the instructions for an agent without instructions."""
    return _words("assistant").template


def system_prompt(instructions: str, *sections: str) -> str:
    """Return the instructions (by default the built-in ones), then the sections, separated by empty lines."""
    opening = instructions.strip() or built_in_instructions()
    return "\n\n".join((opening, *(section for section in sections if section)))


def call_note(tool: str) -> str:
    """Return the note for a model that only announced a call; `tool` is a name in quotes, or "a tool"."""
    return _words("call").substitute(tool=_line(tool, 66))


def final_answer_note(reason: str) -> str:
    """Return the note that makes the model answer without more calls; `reason` is a sentence from mcpagent."""
    return _words("final_answer").substitute(reason=reason)


def progress_note(
    question: str,
    results: Sequence[tuple[str, Mapping[str, Any], str]],
    missing: Sequence[str],
) -> str:
    """Return the note for a small model during a run: the prompt, the last results, and the missing parts.

    Args:
        question: The prompt that is being answered.
        results: Name, arguments and text of each successful call.
        missing: The parts of the prompt that no result is about.
    """
    listed = [_result_line(*one) for one in results[-MOST_RESULTS:]]
    if missing:
        named = "; ".join(_line(part, 120) for part in missing)
        following = f"Still missing: {named}. Call a tool for what is missing."
    elif results:
        following = "Answer the question now in words, from these results."
    else:
        following = "Call a tool that helps, or answer the question in words."
    return _words("progress").substitute(
        question=_line(question, 600),
        results="\n".join(listed) or "- none",
        next=following,
    )


def _result_line(name: str, arguments: Mapping[str, Any], text: str) -> str:
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"- {_line(name, 64)}({_line(given, 120)}): {_line(text, 300)}"


def summary_note(keep: str = "", *, words: int = 600) -> str:
    """Return the prompt for a summary of the conversation; `keep` is a topic that the user wants included."""
    asked = ""
    if keep.strip():
        asked = f"\n\nKeep above all what has to do with: {_line(keep, 1_000)}"
    return _words("summarise").substitute(words=words, keep=asked)


def asks_for_summary(text: str) -> bool:
    """Return whether the text contains `summary_note`, alone or after a part of a conversation."""
    return _words("summarise").template.partition("\n")[0] in text


def piece_words(summary: str, transcript: str, note: str) -> str:
    """Return the prompt for summarising a part of a conversation that is too long for one request.

    `summary` and `transcript` are fenced as data.
    """
    before = ""
    if summary:
        before = fenced(summary, "Summary of what came before it")
    return "\n\n".join(
        text
        for text in (before, fenced(transcript, "A part of the conversation"), note)
        if text
    )


def summary_words(summary: str) -> str:
    """Return the text that replaces messages that are no longer sent. `summary` is "" if they were not summarised."""
    if not summary:
        return _words("left_out").template
    return _words("summary").substitute(summary=fenced(summary))


def misfit_note(problems: Sequence[str]) -> str:
    """Return the note for a model whose answer does not match the output type; `problems` quote the answer."""
    return for_model(
        _words("misfit").substitute(
            problems="\n".join(f"- {problem}" for problem in problems)
        )
    )


def is_misfit_note(text: str) -> bool:
    """Return whether `misfit_note` wrote the text."""
    return text.startswith(_words("misfit").template.partition("$")[0])


def is_own_note(text: str) -> bool:
    """Return whether `misfit_note`, `call_note` or `final_answer_note` wrote the text, so that it is not from the
    user.
    """
    begins, _, ends = _words("call").template.partition("$tool")
    final = _words("final_answer").template.partition("$reason")[2]
    return (
        is_misfit_note(text)
        or (text.startswith(begins) and text.endswith(ends))
        or text.endswith(final)
    )
