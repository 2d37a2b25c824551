"""How deep a request is: between the loop's step and the provider's SDK stands one function, `respond`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import anthropic
import httpx2
import openai

import mcpagent
from mcpagent import Agent
from mcpagent.models import AnthropicModel, FallbackModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from tests.tables import each_row
from tests.wire.provider import Waits, anthropic_stream, chat_stream, failed, message_item, responses_stream, text_block

OURS = Path(str(mcpagent.__file__)).parent
SDKS = tuple(str(Path(str(sdk.__file__)).parent) for sdk in (anthropic, openai))
CALL = '{"tool": "double", "arguments": {"n": 4}}'
REFUSED = failed(400, {"error": {"message": "this model does not support tools"}})


def below_step() -> list[str]:
    """Who waits below the loop's `step`, outermost first: functions of ours by name, the frames of an SDK as one.

    A request has a task of its own, for which `step` waits, so this task has all of them.
    """
    path: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if file.startswith(SDKS):
            path += ["SDK"] if path[-1:] != ["SDK"] else []
        elif Path(file).is_relative_to(OURS) and Path(file).stem != "answer_size":  # it counts what the SDK reads
            path.append(name)
        frame = frame.f_back
    assert any("step" in waiting(task.get_coro()) for task in asyncio.all_tasks()), "not called by the loop"
    return path[::-1]


def waiting(coroutine: Any) -> list[str]:
    """The functions of ours in which a task waits, the outermost first."""
    names: list[str] = []
    while (code := getattr(coroutine, "cr_code", None)) is not None:
        names += [code.co_name] if Path(code.co_filename).is_relative_to(OURS) else []
        coroutine = coroutine.cr_await
    return names


class _Heard(httpx2.AsyncByteStream):
    """An answer's body that notes who waits for it, piece by piece."""

    def __init__(self, content: bytes, seen: list[list[str]]) -> None:
        self._content, self._seen = content, seen

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), 200):
            self._seen.append(below_step())
            yield self._content[start : start + 200]


class Watching(httpx2.AsyncBaseTransport):
    """Gives its answers in order and keeps, for each request and each piece of an answer, who waits for it."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self._answers = list(answers)
        self.sent: list[list[str]] = []
        self.read: list[list[str]] = []
        self.http_client = httpx2.AsyncClient(transport=self)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(below_step())
        answer = self._answers.pop(0)
        kind = {"content-type": answer.headers["content-type"]}
        return httpx2.Response(answer.status_code, headers=kind, stream=_Heard(answer.content, self.read))


def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


def chat(watching: Watching, **options: Any) -> HttpModel:
    return OpenAIChatModel("m", api_key="k", http_client=watching.http_client, sleep=Waits(), **options)


LOCAL = {"base_url": "http://localhost:1/v1", "provider": "ollama"}
ANSWERS: dict[str, tuple[httpx2.Response, ...]] = {
    "anthropic": (failed(529), anthropic_stream(text_block("It is 8."))),
    "openai": (failed(500), responses_stream(message_item("It is 8."))),
    "openai-chat": (failed(429), chat_stream({"content": "It is 8."})),
    "a local server": (failed(503), chat_stream({"content": "It is "}, {"content": "8."})),
    "prompted calls": (REFUSED, chat_stream({"content": CALL}), chat_stream({"content": '{"answer": "It is 8."}'})),
    "in one piece": (httpx2.Response(200, json={"choices": [{"message": {"content": "It is 8."}}]}),),
}


def made(name: str, watching: Watching) -> HttpModel:
    match name:
        case "anthropic":
            return AnthropicModel("m", api_key="k", http_client=watching.http_client, sleep=Waits())
        case "openai":
            return OpenAIResponsesModel("m", api_key="k", http_client=watching.http_client, sleep=Waits())
        case "openai-chat":
            return chat(watching)
        case _:
            return chat(watching, **LOCAL)


@each_row("name", list(ANSWERS))
async def test_one_function_stands_between_the_loop_and_the_sdk(name: str) -> None:
    watching = Watching(*ANSWERS[name])
    async with Agent(made(name, watching), tools=[double]) as agent:
        assert await agent.ask("Twice four?") == "It is 8."
    assert watching.sent == [["respond", "SDK"]] * len(ANSWERS[name])
    piece = ["respond"] if name == "in one piece" else ["respond", "SDK"]  # a whole body is read without the SDK
    assert len(watching.read) > 0
    assert watching.read[-1] == piece
    assert all(waiting in (piece, ["respond", "SDK"]) for waiting in watching.read)


async def test_a_chain_adds_its_own() -> None:
    watching = Watching(*ANSWERS["anthropic"])
    async with Agent(FallbackModel([made("anthropic", watching)])) as agent:
        assert await agent.ask("Twice four?") == "It is 8."
    assert watching.sent == [["respond", "respond", "SDK"]] * 2
