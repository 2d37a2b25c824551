"""A server's questions, messages and changes reach the client whose call caused them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import (
    CompletionArgument,
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
)

from mcp import MCPError
from mcpagent.config import ServerConfig
from mcpagent.mcp.server_options import ServerOptions
from tests.gateway.behind import Scene, folders, gateway, text_of
from tests.servers.everyday import serving
from tests.servers.talkative import build
from tests.tables import each_row

VERSIONS = ["legacy", "auto"]

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


class Answering:
    """A client's callbacks, and what they were asked."""

    def __init__(self, action: str = "accept") -> None:
        self.action = action
        self.asked: list[Any] = []
        self.heard: list[Any] = []
        self.changed = asyncio.Event()

    async def elicit(self, _: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        content: Any = {"name": "Ada"} if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)  # type: ignore[arg-type]

    async def sample(self, _: Any, params: Any) -> CreateMessageResult:
        self.asked.append(params.messages[0].content.text)
        content = TextContent(type="text", text="Because.")
        return CreateMessageResult(role="assistant", content=content, model="small")

    async def roots(self, _: Any) -> ListRootsResult:
        self.asked.append("roots")
        return ListRootsResult(roots=[Root(uri="file:///home/me/project")])  # type: ignore[arg-type]

    async def log(self, params: Any) -> None:
        self.heard.append(params)
        self.changed.set()

    async def hear(self, message: Any) -> None:
        self.heard.append(message)
        self.changed.set()

    async def until(self, kind: str) -> Any:
        """The first notification of this method."""
        async with asyncio.timeout(20):
            while True:
                for message in self.heard:
                    if getattr(message, "method", "") == kind:
                        return message
                self.changed.clear()
                await self.changed.wait()

    def callbacks(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
            "logging_callback": self.log,
            "message_handler": self.hear,
        }


@contextlib.asynccontextmanager
async def talking(tmp_path: Path, era: Any = "legacy", **options: Any) -> AsyncIterator[Scene]:
    """A gateway in front of the server that asks."""
    options = {"mode": "all", **options}
    async with serving(lambda _: build().streamable_http_app()) as address:
        config = ServerConfig("talk", url=f"{address}/mcp", era=era)
        stored = ServerOptions.stored(folders(tmp_path))
        async with gateway(config, stored=stored, **options) as scene:
            await scene.gateway._common.settled()
            yield scene


@each_row("version", VERSIONS)
async def test_questions_reach_the_client_and_its_answers_the_server(version: str, tmp_path: Path) -> None:
    person = Answering()
    async with talking(tmp_path) as scene, scene.client(version, **person.callbacks()) as client:
        asked = await client.call_tool("talk__ask_person", {})
        assert text_of(asked) == "accept name='Ada' nickname='none'"
        assert text_of(await client.call_tool("talk__ask_model", {})) == "assistant: Because."
        assert text_of(await client.call_tool("talk__ask_roots", {})) == "file:///home/me/project"
        assert person.asked == ["Who are \x1b[31myou?", "Why?", "roots"]


@each_row("version", VERSIONS)
async def test_a_question_of_the_2026_revision_reaches_the_client(version: str, tmp_path: Path) -> None:
    person = Answering()
    async with talking(tmp_path, era="auto") as scene, scene.client(version, **person.callbacks()) as client:
        assert text_of(await client.call_tool("talk__ask_roots_first", {})) == "file:///home/me/project"


@each_row("version", VERSIONS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refused_question_is_refused_at_the_server(version: str, action: str, tmp_path: Path) -> None:
    person = Answering(action)
    async with talking(tmp_path / version) as scene, scene.client(version, **person.callbacks()) as client:
        assert text_of(await client.call_tool("talk__ask_person", {})) == f"{action} None"


async def test_a_client_that_answers_nothing_is_not_asked(tmp_path: Path) -> None:
    async with talking(tmp_path) as scene, scene.client("legacy") as client:
        with pytest.raises(MCPError, match="not supported"):
            await client.call_tool("talk__ask_person", {})


async def test_a_state_that_the_gateway_did_not_issue_is_refused(tmp_path: Path) -> None:
    async with talking(tmp_path) as scene, scene.client() as client:
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool("talk__links", {}, request_state="made up", input_responses={})


@each_row("version", VERSIONS)
async def test_completions_pass_through(version: str, tmp_path: Path) -> None:
    async with talking(tmp_path) as scene, scene.client(version) as client:
        prompt = PromptReference(type="ref/prompt", name="talk__greet")
        found = await client.complete(prompt, {"name": "language", "value": "F"})
        assert found.completion.values == ["French", "Finnish", "Fr\x1b[31mench"]
        template = ResourceTemplateReference(type="ref/resource", uri="notes://{day}")
        found = await client.complete(template, {"name": "day", "value": "fr"})
        assert (len(found.completion.values), found.completion.total) == (100, 150)
        told = CompletionArgument(name="tone", value="w").model_dump()
        found = await client.complete(prompt, told, context_arguments={"language": "French"})
        assert found.completion.values == ["w like French"]


async def test_messages_and_changed_resources_reach_a_client(tmp_path: Path) -> None:
    person = Answering()
    async with talking(tmp_path) as scene, scene.client("legacy", **person.callbacks()) as client:
        assert text_of(await client.call_tool("talk__work", {"count": 2})) == "done"
        logged = [message for message in person.heard if hasattr(message, "data")]
        assert [message.data["step"] for message in logged] == [0, 1]
        assert {message.logger for message in logged} == {"talk.worker"}
        await client.subscribe_resource("notes://monday")
        await client.call_tool("talk__touch", {"uri": "notes://monday"})
        updated = await person.until("notifications/resources/updated")
        assert str(updated.params.uri) == "notes://monday"


async def test_a_client_that_wants_errors_alone_gets_no_other_messages(tmp_path: Path) -> None:
    person = Answering()
    async with talking(tmp_path) as scene, scene.client("legacy", **person.callbacks()) as client:
        await client.set_logging_level("error")
        await client.call_tool("talk__work", {"count": 2})
        assert [message for message in person.heard if hasattr(message, "data")] == []


async def test_a_changed_folder_is_reported_to_the_servers(tmp_path: Path) -> None:
    person = Answering()
    async with talking(tmp_path) as scene, scene.client("legacy", **person.callbacks()) as client:
        assert text_of(await client.call_tool("talk__changes_of_folders", {})) == "0"
        await client.send_roots_list_changed()
        async with asyncio.timeout(20):
            while text_of(await client.call_tool("talk__changes_of_folders", {})) == "0":
                pass


async def test_an_error_of_the_client_reaches_the_server_that_asked(tmp_path: Path) -> None:
    class Wrong(ElicitResult):
        action: str = "perhaps"  # type: ignore[assignment]

    async def elicit(*_: Any) -> ElicitResult:
        return Wrong()

    async with talking(tmp_path) as scene, scene.client("legacy", elicitation_callback=elicit) as client:
        with pytest.raises(MCPError, match="invalid result"):
            await client.call_tool("talk__ask_person", {})
        assert not (await client.call_tool("talk__links", {})).is_error
