"""A server that asks, logs, completes and tells of changed resources: `talkative.py stdio`, or over HTTP."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    CallToolResult,
    Completion,
    EmptyResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    NotificationParams,
    ResourceLink,
    SamplingMessage,
    SubscribeRequestParams,
    TextContent,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    nickname: str = "none"


def build() -> MCPServer:
    server = MCPServer("talkative", version="1.0", log_level="CRITICAL")
    subscribed: set[str] = set()
    add_questions(server)
    add_news(server, subscribed)
    add_folders(server)

    @server.prompt()
    def greet(language: str, tone: str = "warm") -> str:
        """Greets."""
        return f"Say hello in {language}, {tone}"

    @server.resource("notes://{day}", name="of a day")
    def of_day(day: str) -> str:
        return f"notes of {day}"

    @server.completion()  # type: ignore[no-untyped-call,untyped-decorator]
    async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
        known = dict((context.arguments if context else None) or {})
        words = {
            "language": ["French", "Finnish", "German", "Fr\x1b[31mench"],
            "day": [f"fr{number}" for number in range(150)],
        }
        if argument.name == "tone":
            return Completion(values=[f"{argument.value} like {known.get('language')}"])
        found = [word for word in words.get(argument.name, []) if word.lower().startswith(argument.value.lower())]
        return Completion(values=found[:100], total=len(found), has_more=len(found) > 100)

    return server


def add_questions(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def ask_person(context: Context) -> str:
        """Asks the person."""
        answer = await context.elicit("Who are \x1b[31myou?", Person)
        return f"{answer.action} {getattr(answer, 'data', None)}"

    @server.tool(structured_output=False)
    async def ask_model(context: Context) -> str:
        """Asks the model."""
        question = SamplingMessage(role="user", content=TextContent(type="text", text="Why?"))
        answer = await context.session.create_message([question], max_tokens=50)
        return f"{answer.role}: {getattr(answer.content, 'text', '')}"

    @server.tool(structured_output=False)
    async def ask_roots(context: Context) -> str:
        """Asks for the folders."""
        return ", ".join(str(root.uri) for root in (await context.session.list_roots()).roots)

    @server.tool(structured_output=False)
    async def ask_roots_first(context: Context) -> str | InputRequiredResult:
        """Asks for the folders, as the 2026 revision does."""
        given = context.input_responses
        if not given:
            return InputRequiredResult(input_requests={"roots": ListRootsRequest()})
        roots = given["roots"]
        assert isinstance(roots, ListRootsResult)
        return str(roots.roots[0].uri)


def add_folders(server: MCPServer) -> None:
    told: list[None] = []

    @server.tool(structured_output=False)
    def changes_of_folders() -> int:
        """How often it was told that the folders changed."""
        return len(told)

    async def changed(_: Any, __: Any) -> None:
        told.append(None)

    server._lowlevel_server.add_notification_handler("notifications/roots/list_changed", NotificationParams, changed)


def add_news(server: MCPServer, subscribed: set[str]) -> None:
    @server.tool(structured_output=False)
    async def work(count: int, context: Context) -> str:
        """Works and tells of it."""
        for number in range(count):
            await context.info({"step": number, "secret": "hunter2-hunter2"}, logger_name="worker")
        return "done"

    @server.tool(structured_output=False)
    async def touch(uri: str, context: Context) -> str:
        """Changes a resource."""
        await context.notify_resource_updated(uri)
        if uri in subscribed:
            await context.session.send_resource_updated(uri)
        return "touched"

    @server.tool(structured_output=False)
    def links() -> CallToolResult:
        """Links that nobody asked for."""
        link = ResourceLink(type="resource_link", uri="http://127.0.0.1:9/never", name="never")
        return CallToolResult(content=[link])

    @server.tool(structured_output=False)
    def leak() -> str:
        """Gives away what it was given."""
        import os

        return f"token is {os.environ.get('API_TOKEN')}"

    async def subscribe(_: Any, params: SubscribeRequestParams) -> EmptyResult:
        subscribed.add(str(params.uri))
        return EmptyResult()

    async def unsubscribe(_: Any, params: UnsubscribeRequestParams) -> EmptyResult:
        subscribed.discard(str(params.uri))
        return EmptyResult()

    low = server._lowlevel_server
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)


if __name__ == "__main__":
    # The 2026 revision takes some of this out; servers of the ones before will have it for years.
    warnings.simplefilter("ignore")
    build().run(sys.argv[1])  # type: ignore[call-overload]
