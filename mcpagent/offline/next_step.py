"""Decide the next step for one need: search, add, call or finish. A pure function of the steps so far."""

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
_SURE = 3.2  # a tool that was discovered for something else must fit this well to be used without a search
_FOLLOWS = re.compile(r"(?i)^\W*(?:and|or|what about|how about)\b")
_REFERS = re.compile(r"(?i)\b(?:it|its|there|that|this|same)\b")


@dataclass(frozen=True, slots=True)
class NextStep:
    """The calls to make now, by name and arguments.

    Without calls, `why` is the reason, `fit` the match of the need, and `steps` are the calls already made. `near` are
    the tools that are nearest to a need that rules do not serve.
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
        """True if the need is served, or will be by these calls."""
        return self.why in ("calls", "done")

    @property
    def looks(self) -> bool:
        """True if the calls only look for a tool."""
        return any(name in VIRTUAL for name, _ in self.calls)


def choose(need: Need, offered: Sequence[ToolDefinition]) -> NextStep:
    """Return the next step for a need."""
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
    """Return whether a request that destroys can mean a tool: it changes something, or its name has the verb."""
    verbs = {concept(word) for word in split_words(tool.original_name or tool.name)}
    return tool.read_only is not True or need.verb in verbs


MOST_NEAR = 3


def _nearest(need: Need, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
    """Return the tools that share most words with a need, those in a tool's name counting double."""
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
    """Return search queries: the need's words with their hints, then the hints alone or the first word."""
    own = need.keywords()[:6]
    meant = [word for word in dict.fromkeys(need.hints) if word not in own]
    both = " ".join([*own, *meant[: 4 if len(own) < 2 else 2]]) or need.text[:60]
    signs = [concept(token[2]) for token in need.tokens if not token[2].isalnum()]
    return list(
        dict.fromkeys((both, " ".join(meant if own else signs) or both.split()[0]))
    )


def _found(answer: str, need: Need) -> list[str]:
    """Return the tools in the answer of `search_tools` that match the need; those it names fully, then the best."""
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
    """Return the tools that match the need, the ones first for which the need states all arguments.

    If the need only gives other values ("and in Paris?"), the tool that was called last comes before all others.
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
