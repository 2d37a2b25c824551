"""Conversations over what the sources give: begun with the tools there are, and told when these change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mcpagent.catalog import Catalog, ToolSearch
from mcpagent.conversation import Conversation
from mcpagent.errors import ConfigError
from mcpagent.events import Emit, Notice
from mcpagent.messages import Message
from mcpagent.models.base import Model, search_cost, search_problem
from mcpagent.prompt.builder import category_line, system_prompt, tool_search_section
from mcpagent.recording.tape import Change, Opening, Setting, Tape
from mcpagent.session import Session, ToolsUpdate
from mcpagent.sources import ToolSources, about
from mcpagent.tool_algebra import listed
from mcpagent.tools import Tool
from mcpagent.virtual_tools.tool_search import tool_search_tools

if TYPE_CHECKING:
    from mcpagent.mcp.lists import ToolsDifference
    from mcpagent.mcp.toolset import McpToolset


class Conversations:
    """Begins an agent's conversations. `current` is the one its `ask` goes on with, None before the agent has started.

    `model` gives the model that is asked at the moment. What changes before anything was said is part of the beginning:
    an empty conversation is begun anew, so that its system prompt names what there is. Later it is told instead.
    """

    def __init__(
        self, sources: ToolSources, tape: Tape, setting: Setting, *, model: Callable[[], Model], emit: Emit
    ) -> None:
        self.current: Session | None = None
        self.search = setting.search or ToolSearch(enabled="marked")
        self.instructions = setting.instructions
        self._pinned = setting.pinned
        self._sources = sources
        self._tape = tape
        self._model = model
        self._emit = emit
        self._told_of_execution = False

    # -- beginning ----------------------------------------------------------------------------------------------------

    async def start(self) -> Session:
        """Begins the first conversation, now that the sources are open."""
        self.search = self._possible_search()
        self.current = await self.begin()
        return self.current

    async def begin(self, messages: Sequence[Message] = (), *, keep_open: bool = False) -> Session:
        """A conversation that goes on after these messages, over what the toolsets list now."""
        return self._begin(messages, await self._sources.from_toolsets(), keep_open=keep_open)

    def begin_anew(self, session: Session, messages: Sequence[Message] = ()) -> None:
        """Makes a conversation with this history the current one, over the tools that the session has."""
        self.current = self._begin(messages, session.listed)

    def go_on(self, session: Session, messages: Sequence[Message]) -> None:
        """`begin_anew`, and it stays the same conversation to those who know it by its `thread_id`.

        Its beginning stays too, unless the tools are now found in another way: thoughts and caches stand on it.
        """
        following = self._begin(messages, session.listed, after=session.catalog if messages else None)
        if messages and _how_found(following.catalog) == _how_found(session.catalog):
            following.conversation.system = session.conversation.system
        self.current = replace(following, thread_id=session.thread_id)

    def _begin(
        self,
        messages: Sequence[Message],
        from_toolsets: list[Tool],
        *,
        keep_open: bool = False,
        after: Catalog | None = None,
    ) -> Session:
        """Names, categories and the system prompt are fixed here. `after` is what the same conversation had so far."""
        sources, conversation = self._sources, Conversation(messages=messages, keep_open=keep_open)
        live = Opening(
            sources.all(from_toolsets),
            sources.statuses,
            sources.descriptions,
            sources.unavailable,
            sources.expects_deferred,
        )
        opening = self._tape.opening(live)
        catalog = Catalog(
            opening.tools,
            search=self.search,
            pinned=self._pinned,
            server_descriptions=opening.descriptions,
            unavailable=opening.unavailable,
            expects_deferred=opening.expects_deferred,
            after=after,
            search_cost=lambda: search_cost(self._model()),
        )
        section = ""
        if catalog.searching:
            catalog.options = self._possible_execution(catalog)
            catalog.virtual = tool_search_tools(catalog, conversation)
            lines = [category_line(item.name, item.description, item.tools) for item in catalog.categories()]
            loads = catalog.options.load == "search"
            section = tool_search_section(lines, loads=loads, provider_searches=catalog.provider_searches)
        conversation.system = system_prompt(self.instructions, section)
        return Session(conversation, catalog, from_toolsets)

    def _possible_search(self) -> ToolSearch:
        """The tool search asked for; with words alone, and one warning, where its word vectors are not installed."""
        if self.search.strategy != "hybrid":
            return self.search
        from mcpagent.search import ToolIndex

        try:
            ToolIndex("hybrid")
        except ConfigError as error:
            self._emit(Notice(f'{error}; tool search uses "bm25" instead', "warning"))
            return replace(self.search, strategy="bm25")
        return self.search

    def _possible_execution(self, catalog: Catalog) -> ToolSearch:
        """The catalogue's tool search; with our own search, and one warning, where the model's provider cannot."""
        if not catalog.provider_searches:
            return catalog.options
        deferred = [tool.definition for tool in catalog.deferred.values()]
        problem = search_problem(self._model(), catalog.provider_strategy, deferred)
        if not problem:
            return catalog.options
        if not self._told_of_execution:
            self._told_of_execution = True
            self._emit(Notice(f'tool search: {problem}; mcpagent searches instead (execution "local")', "warning"))
        return replace(catalog.options, execution="local")

    # -- what changes -------------------------------------------------------------------------------------------------

    def joined(self, toolset: McpToolset) -> bool:
        """A server that connected late: its tools are known from now on. False where they cannot be, or not yet."""
        name, session = toolset.config.name, self.current
        if session is None:  # it will begin with this server
            return False
        catalog = session.catalog
        try:
            tools = self._sources.of_server(toolset)
        except ConfigError as error:
            self.lost(name, str(error))
            self._emit(Notice(str(error), "warning"))
            return False
        catalog.server_descriptions[name] = about(toolset)
        catalog.unavailable.pop(name, None)
        line = category_line(name, catalog.server_descriptions[name], len(tools)).removeprefix("- ")
        text = f"A server has connected, its tools can be used from now on: {line}."
        self._update(session, lambda _: text)
        return True

    def lost(self, name: str, reason: str) -> None:
        """A server that cannot be used."""
        if self.current is not None:
            catalog = self.current.catalog
            catalog.unavailable[name] = reason
            self._tape.changed(Change(None, "", catalog.server_descriptions, catalog.unavailable))

    def changed(self, toolset: McpToolset, _difference: ToolsDifference) -> None:
        """A server whose list of tools changed: what is new can be found, what is gone is withdrawn.

        The toolset has told the listener.
        """
        if self.current is not None:
            name = toolset.config.name
            self._update(self.current, lambda update: _changed_tools(name, update))

    def more_functions(self) -> None:
        """Functions that were added to the sources while the agent lives."""
        if self.current is not None:
            self._update(self.current, _more_tools)

    async def list_again(self, session: Session) -> None:
        """Brings the catalogue up to date with the toolsets; tells the model where that changes what it has."""
        self._replay_changes(session)
        tools = await self._sources.from_toolsets()
        if tools == session.listed:
            return
        session.listed = tools
        self._update(session, _more_tools)

    def _update(self, session: Session, say: Callable[[ToolsUpdate], str]) -> None:
        """Brings the session up to date with all sources, and keeps that in the recording."""
        if session is self.current and not session.conversation.parts:
            self.go_on(session, ())
            return
        tools, said = self._sources.all(session.listed), ""

        def tell(update: ToolsUpdate) -> str:
            nonlocal said
            said = say(update)
            return said

        session.update(tools, tell)
        catalog = session.catalog
        self._tape.changed(Change(tools, said, catalog.server_descriptions, catalog.unavailable))

    def _replay_changes(self, session: Session) -> None:
        for change in self._tape.changes():
            catalog, said = session.catalog, change.said
            catalog.server_descriptions.update(change.descriptions)
            catalog.unavailable.clear()
            catalog.unavailable.update(change.unavailable)
            if change.tools is not None:
                session.update(change.tools, lambda _, said=said: said)  # type: ignore[misc]


def _how_found(catalog: Catalog) -> tuple[bool, bool, str]:
    return catalog.searching, catalog.provider_searches, catalog.options.load


def _more_tools(update: ToolsUpdate) -> str:
    return f"More tools can be used from now on: {listed(update.new)}." if update.new else ""


def _changed_tools(server: str, update: ToolsUpdate) -> str:
    parts = [
        f"{what}: {listed(names)}"
        for what, names in (("new", update.new), ("gone", update.gone), ("changed", update.changed))
        if names
    ]
    return f'The server "{server}" changed its tools; {"; ".join(parts)}.' if parts else ""
