"""Decide the next step for one need: search, add, call or finish, as a pure function of the earlier steps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mcpagent.offline.argument_filling import Fit
from mcpagent.offline.need import (
    DESTRUCTION,
    FILLER,
    WEAK,
    Need,
    Step,
    concept,
    concepts,
    split_words,
)
from mcpagent.values.messages import ToolDefinition

_WEAK_CONCEPTS = frozenset(map(concept, WEAK))
SEARCH, ADD = "search_tools", "add_tool"
VIRTUAL = frozenset((SEARCH, ADD, "remove_tool", "show_all_tools"))
_SURE = 3.2  # minimum match of a tool discovered for another need, to use it without a search
_FOLLOWS = re.compile(r"(?i)^\W*(?:and|or|what about|how about)\b")
_REFERS = re.compile(r"(?i)\b(?:it|its|there|that|this|same)\b")


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next calls for a need, by name and arguments.

    `why` is "calls", or the reason why no calls were planned. `fit` is the best match with a tool, `steps` are the
    calls already made, and `near` are the tools most similar to a need that the rules cannot serve.
    """

    why: Literal[
        "calls", "done", "barred", "changes", "incomplete", "unfound", "destructive"
    ]
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    fit: Fit | None = None
    steps: Sequence[Step] = ()
    near: Sequence[ToolDefinition] = ()

    @property
    def is_ready(self) -> bool:
        """Return whether the need is served, or will be by these calls."""
        return self.why in ("calls", "done")

    @property
    def looks(self) -> bool:
        """Return whether the calls only search for a tool or add one."""
        return any(name in VIRTUAL for name, _ in self.calls)


def choose(need: Need, offered: Sequence[ToolDefinition]) -> NextStep:
    """Return the next step for a need; `offered` are the tools that can be called."""
    real = [step for step in need.steps if step[0].name not in VIRTUAL]
    if real or need.is_barred:
        return NextStep("done" if real else "barred", steps=real)
    usable = [tool for tool in offered if tool.name not in VIRTUAL]
    if need.destroys:
        usable = [tool for tool in usable if _may_destroy(tool, need)]
    names = {tool.name for tool in offered}
    added = {
        str(name)
        for call, _ in need.steps
        for name in call.arguments.get("tool_names") or ()
    }
    fits = _fits(need, usable)
    sure = [
        one
        for one in fits
        if one.is_certain and (one.score >= _SURE or one.tool.name in added)
    ]
    searches = [step for step in need.steps if step[0].name == SEARCH]
    if SEARCH in names and not sure:
        found = (
            name
            for _, result in searches
            for name in _found(result.text, need)
            if name not in names | added
        )
        if ADD in names and len(added) < 3 and (seen := next(found, "")):
            return NextStep("calls", ((ADD, {"tool_names": [seen]}),))
        queries = _queries(need)[len(searches) :]
        if queries and not added and not (searches and fits):
            return NextStep("calls", ((SEARCH, {"query": queries[0]}),))
    near = _nearest(need, usable)
    chosen = next(iter(sure or fits), None)
    is_certain = chosen is not None and chosen.is_certain
    if need.destroys and (need.is_sweeping or (near and not is_certain)):
        return NextStep("destructive", near=near)
    if chosen is None:
        return NextStep("unfound", steps=searches, near=near)
    if not is_certain:
        return NextStep("incomplete", fit=chosen, near=near)
    if chosen.tool.read_only is not True:
        return NextStep("changes", fit=chosen)
    every = (
        chosen.arguments,
        *({**chosen.arguments, **other} for other in chosen.others),
    )
    return NextStep(
        "calls", tuple((chosen.tool.name, arguments) for arguments in every)
    )


def _may_destroy(tool: ToolDefinition, need: Need) -> bool:
    """Return whether the tool can serve a destructive request: it may change something, or its name has the verb."""
    verbs = {concept(word) for word in split_words(tool.original_name or tool.name)}
    return tool.read_only is not True or need.verb in verbs


MOST_NEAR = 3


def _nearest(need: Need, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
    """Return the tools that share the most words with a need; words in a tool's name count double."""
    meant = concepts(" ".join(need.hints)).union(
        *(token[3] for token in need.tokens if token[2] not in WEAK)
    )
    if need.destroys:
        verbs = set(map(concept, DESTRUCTION))
        meant -= verbs
        tools = [
            tool for tool in tools if verbs & concepts(tool.original_name or tool.name)
        ]
    scores: dict[int, int] = {}
    for place, tool in enumerate(tools):
        named = concepts(tool.original_name or tool.name)
        told = concepts(f"{tool.server or ''} {tool.description[:400]}")
        scores[place] = 2 * len(meant & named) + len(meant & told)
    places = sorted(scores, key=lambda place: -scores[place])
    return [tools[place] for place in places[:MOST_NEAR] if scores[place]]


def _queries(need: Need) -> list[str]:
    """Return search queries: first the need's words with their synonyms, then the synonyms alone or the first word."""
    own = need.keywords()[:6]
    meant = [word for word in dict.fromkeys(need.hints) if word not in own]
    both = " ".join([*own, *meant[: 4 if len(own) < 2 else 2]]) or need.text[:60]
    signs = [concept(token[2]) for token in need.tokens if not token[2].isalnum()]
    return list(
        dict.fromkeys((both, " ".join(meant if own else signs) or both.split()[0]))
    )


def _found(answer: str, need: Need) -> list[str]:
    """Return the tools in a result of `search_tools` that match the need: those that it names completely, else the best
    ones.
    """
    try:
        data = json.loads(answer)
    except (ValueError, RecursionError):
        return []
    tools = None
    if isinstance(data, dict):
        tools = data.get("tools")
    listed = []
    if isinstance(tools, list):
        listed = [(str(one.get("name")), one) for one in tools if isinstance(one, dict)]
    meant = concepts(" ".join(need.hints)).union(
        *(token[3] for token in need.tokens if token[2] not in FILLER)
    )
    about = {}
    for name, tool in listed:
        about[name] = meant & concepts(f"{name} {tool.get('description')}")
        if tool.get("match") == "weak":
            about[name] -= _WEAK_CONCEPTS
    return sorted(
        filter(about.get, about), key=lambda name: bool(concepts(name) - WEAK - meant)
    )


def _fits(need: Need, tools: Sequence[ToolDefinition]) -> list[Fit]:
    """Return the tools that match the need; tools whose arguments the need states completely come first.

    If the need only changes values ("and in Paris?"), the tool that was called last comes first.
    """
    if need.earlier is not None:
        earlier = need.earlier[0]
    else:
        earlier = None
    known = {}
    if earlier is not None and _REFERS.search(need.text):
        known = earlier.arguments
    fits = [one for tool in tools if (one := Fit(tool, need, known)).score > 0]
    fits.sort(
        key=lambda one: (
            not one.is_certain,
            len(one.unused),
            len(one.missing),
            -one.score,
        )
    )
    if earlier is not None and _FOLLOWS.match(need.text):
        again = [
            Fit(tool, need, earlier.arguments, follows=True)
            for tool in tools
            if tool.name == earlier.name
        ]
        fits = [one for one in again if one.score > 0 and one.is_certain] + fits
    return fits
