"""The web example: users side by side over one agent, whole answers and streams, over a real server on loopback too."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from examples.web.app import Customer, make_agent, make_app, my_orders
from fastapi import FastAPI

from mcpagent import (
    Agent,
    Limits,
    Message,
    Model,
    ModelError,
    ModelRequest,
    ModelResponse,
    RunOptions,
    ScriptedModel,
    Session,
    Text,
    ToolCall,
    Usage,
    events,
)
from mcpagent.values.events import Emit
from tests.scenes import offered
from tests.servers.everyday import serving
from tests.tables import each_row

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
"""The longest wait for anything here, however busy the machine is."""


def call(name: str, **arguments: Any) -> list[ToolCall]:
    return [ToolCall("", name, arguments)]


PLANS: Mapping[str, Sequence[list[ToolCall] | str]] = {
    "ann": (
        call("search_tools", query="calculate"),
        call("add_tool", tool_names=["calculate"]),
        call("calculate", expression="6 * 7"),
        "ann is done",
    ),
    "bob": (
        call("search_tools", query="my orders"),
        call("add_tool", tool_names=["my_orders"]),
        call("my_orders"),
        "bob is done",
    ),
    "eve": (
        call("search_tools", query="roman numeral"),
        call("add_tool", tool_names=["to_roman_numeral", "my_orders"]),
        [*call("my_orders"), *call("to_roman_numeral", number=9)],
        "eve is done",
    ),
}
"""What the model does for each user, one answer a turn; all are of one length."""


@dataclass
class SideBySide:
    """Gives each user's plan, and every answer only when the requests of all users are there: nobody waits in a row."""

    plans: Mapping[str, Sequence[list[ToolCall] | str]]
    requests: dict[str, list[ModelRequest]] = field(default_factory=dict)
    name: str = "scripted:side-by-side"

    def __post_init__(self) -> None:
        self.all_there = asyncio.Barrier(len(self.plans))

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        user = request.messages[0].text.split()[-1]
        earlier = self.requests.setdefault(user, [])
        earlier.append(request)
        async with asyncio.timeout(SECONDS):
            await self.all_there.wait()
        return await ScriptedModel([self.plans[user][len(earlier) - 1]]).respond(request, emit)

    async def aclose(self) -> None:
        pass


@dataclass
class Held:
    """Says "one ", and "two" when it is let go on; tells what it was asked, and when it was left in between."""

    asked: asyncio.Queue[ModelRequest] = field(default_factory=asyncio.Queue[ModelRequest])
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    name: str = "scripted:held"

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        self.asked.put_nowait(request)
        emit(events.TextDelta("one "))
        try:
            async with asyncio.timeout(SECONDS):
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        emit(events.TextDelta("two"))
        return ModelResponse(Message("assistant", (Text("one two"),)), Usage(requests=1), "end")

    async def aclose(self) -> None:
        pass


def small_agent(model: Model, **options: Any) -> Agent[Customer]:
    """An agent without servers."""
    return Agent[Customer](model, tools=[my_orders], **options)


@asynccontextmanager
async def in_process(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://app", timeout=SECONDS) as client,
    ):
        yield client


@asynccontextmanager
async def over_loopback(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with serving(lambda _: app) as address, httpx2.AsyncClient(base_url=address, timeout=SECONDS) as client:
        yield client


def sessions(app: FastAPI) -> dict[str, Session[Customer]]:
    chats = app.state.chats
    return {user: chats.of(user) for user in ("ann", "bob", "eve")}


async def ask(client: httpx2.AsyncClient, user: str, prompt: str = "go on") -> httpx2.Response:
    return await client.post(f"/chat/{user}", json={"prompt": prompt})


async def told(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
    """Each server-sent event as its name and its data."""
    name = ""
    async for line in lines:
        kind, _, value = line.partition(": ")
        if kind == "event":
            name = value
        elif kind == "data":
            yield name, json.loads(value)


def refusal(response: httpx2.Response) -> str:
    """The error of a refused request, which is one line of JSON."""
    assert "\n" not in response.text
    document = response.json()
    assert document["status"] == response.status_code
    assert "\n" not in document["error"]
    return str(document["error"])


@pytest.mark.parametrize("connect", [over_loopback, pytest.param(in_process, marks=pytest.mark.slow)])
async def test_three_users_are_answered_side_by_side_and_nothing_of_theirs_mixes(connect: Any) -> None:
    model = SideBySide(PLANS)
    app = make_app(make_agent(model))
    async with connect(app) as client:
        answers = await asyncio.gather(*(ask(client, user, f"I am {user}") for user in PLANS))
        assert [response.json()["answer"] for response in answers] == ["ann is done", "bob is done", "eve is done"]
        theirs = sessions(app)
        found = {user: list(session.discovered_tools) for user, session in theirs.items()}
        results = {
            user: [result.text for message in session.messages for result in message.tool_results]
            for user, session in theirs.items()
        }
    assert found == {"ann": ["calculate"], "bob": ["my_orders"], "eve": ["to_roman_numeral", "my_orders"]}
    assert results["ann"][2:] == ["6 * 7 = 42"]
    assert results["bob"][2:] == ["bob ordered a desk, two chairs"]
    assert results["eve"][2:] == ["eve ordered nothing yet", "9 is IX"]
    for user, requests in model.requests.items():
        assert len(requests) == len(PLANS[user])
        assert offered(requests[-1]) == ["search_tools", "add_tool", *found[user]]
        words = " ".join(message.text for request in requests for message in request.messages)
        assert not any(f"I am {other}" in words for other in PLANS if other != user)


@pytest.mark.slow
async def test_the_stand_in_answers_each_user_with_what_is_theirs() -> None:
    """The example as it is started without a key: the demo server, and rules in the place of a model."""
    async with in_process(make_app(make_agent("offline"))) as client:
        answers = await asyncio.gather(*(ask(client, user, "List my orders.") for user in PLANS))
        sum_of_ann = await ask(client, "ann", "What is 12 * 12?")
    documents = [response.json() for response in answers]
    assert [document["answer"].splitlines()[0] for document in documents] == [
        "ann ordered a lamp",
        "bob ordered a desk, two chairs",
        "eve ordered nothing yet",
    ]
    assert {document["stop"] for document in documents} == {"answered"}
    assert all(document["tokens"] > 0 and document["dollars"] == 0 for document in documents)
    assert sum_of_ann.json()["answer"].startswith("12 * 12 = 144")


async def test_a_second_request_of_a_user_is_refused_while_others_are_answered() -> None:
    model = Held()
    app = make_app(small_agent(model))
    async with over_loopback(app) as client:
        first = asyncio.create_task(ask(client, "ann"))
        await asyncio.wait_for(model.asked.get(), SECONDS)
        refused = [await ask(client, "ann", "and now?"), await client.post("/chat/ann/stream", json={"prompt": "now?"})]
        other = asyncio.create_task(ask(client, "bob"))
        model.go_on.set()
        assert (await first).json()["answer"] == (await other).json()["answer"] == "one two"
        assert [message.text for message in sessions(app)["ann"].messages] == ["go on", "one two"]
        assert (await ask(client, "ann")).status_code == 200
    for response in refused:
        assert response.status_code == 409
        assert "answering already" in refusal(response)


async def test_a_stream_comes_piece_by_piece() -> None:
    model = Held()
    async with (
        over_loopback(make_app(small_agent(model))) as client,
        client.stream("POST", "/chat/ann/stream", json={"prompt": "count"}) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        pieces = told(response.aiter_lines())
        assert await anext(pieces) == ("text", "one ")
        model.go_on.set()  # not before the first piece is here
        rest = [piece async for piece in pieces]
    assert rest == [("text", "two"), ("answer", {"answer": "one two", "stop": "answered"})]


async def test_a_client_that_goes_away_frees_its_session() -> None:
    model = Held()
    app = make_app(small_agent(model))
    async with over_loopback(app) as client:
        async with client.stream("POST", "/chat/ann/stream", json={"prompt": "count"}) as response:
            assert await anext(told(response.aiter_lines())) == ("text", "one ")
        await asyncio.wait_for(model.left.wait(), SECONDS)
        model.go_on.set()
        assert (await ask(client, "ann", "again")).json()["answer"] == "one two"
        assert [message.text for message in sessions(app)["ann"].messages] == ["count", "again", "one two"]


OVERLOADED = ModelError("scripted: overloaded (529)", provider="scripted", status=529, retryable=True)
SPENT = ModelResponse(Message("assistant", tuple(call("my_orders"))), Usage(900, 100, requests=1), "tool_calls")


@each_row(
    "prompt, replies, options, status, words",
    [
        (" ", [], {}, 422, "prompt is empty"),
        ("go on", [OVERLOADED], {}, 502, "overloaded"),
    ],
)
async def test_an_error_is_one_line_of_json_with_its_status(
    prompt: str, replies: list[Any], options: dict[str, Any], status: int, words: str
) -> None:
    agent = small_agent(ScriptedModel([*replies, *replies, "fine again"]), **options)
    async with over_loopback(make_app(agent)) as client:
        whole = await ask(client, "ann", prompt)
        async with client.stream("POST", "/chat/ann/stream", json={"prompt": prompt}) as response:
            if response.status_code == 200:  # it had begun: the error is its last event
                *_, (kind, document) = [piece async for piece in told(response.aiter_lines())]
                assert kind == "failed"
            else:
                document = json.loads(await response.aread())
        assert whole.status_code == document["status"] == status
        assert words in refusal(whole)
        assert document["error"] == refusal(whole)
        assert (await ask(client, "ann")).json()["answer"] == "fine again"


async def test_a_limit_is_the_end_of_an_answer_and_its_reason() -> None:
    agent = small_agent(ScriptedModel([SPENT, SPENT, "fine again"]), options=RunOptions(limits=Limits(tokens=1000)))
    async with over_loopback(make_app(agent)) as client:
        whole = (await ask(client, "ann", "go on")).json()
        assert (whole["answer"], whole["stop"], whole["tokens"]) == ("", "max_tokens", 1000)
        async with client.stream("POST", "/chat/ann/stream", json={"prompt": "go on"}) as response:
            *_, told_last = [piece async for piece in told(response.aiter_lines())]
        assert told_last == ("answer", {"answer": "", "stop": "max_tokens"})
        assert (await ask(client, "ann")).json()["answer"] == "fine again"


async def test_a_stream_that_cannot_begin_is_refused_with_its_status() -> None:
    async with in_process(make_app(small_agent(ScriptedModel([])))) as client:
        response = await client.post("/chat/ann/stream", json={"prompt": ""})
    assert response.status_code == 422
    assert "prompt is empty" in refusal(response)


async def test_the_longest_unused_session_makes_room_and_one_that_answers_does_not() -> None:
    model = Held()
    app = make_app(small_agent(model), most_users=2)
    async with in_process(app) as client:
        model.go_on.set()
        for user in ("ann", "bob", "ann", "eve"):  # bob's is unused for longest when eve comes
            await ask(client, user, f"I am {user}")
        kept = app.state.chats.of("ann").messages
        assert [message.text for message in kept if message.role == "user"] == ["I am ann", "I am ann"]
        model.go_on.clear()
        model.asked = asyncio.Queue()
        busy = [asyncio.create_task(ask(client, user)) for user in ("ann", "eve")]
        for _ in busy:
            await asyncio.wait_for(model.asked.get(), SECONDS)
        refused = await ask(client, "bob")
        model.go_on.set()
        assert [response.status_code for response in await asyncio.gather(*busy)] == [200, 200]
        assert refused.status_code == 429
        assert "2 users are being answered" in refusal(refused)
        await ask(client, "bob")
        assert [message.text for message in app.state.chats.of("bob").messages] == ["go on", "one two"]


@pytest.mark.slow
def test_the_command_that_the_example_names_serves_it(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    with subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "examples.web.app:app", "--port", "0"],
        cwd=ROOT,
        env={**kept, "MCPAGENT_HOME": str(tmp_path), "MCPAGENT_MODEL": "offline"},
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        told: list[str] = []
        try:
            assert server.stderr is not None
            answer = None
            for line in server.stderr:
                told.append(line)
                if found := re.search(r"http://[\d.:]+", line):
                    answer = httpx2.post(f"{found[0]}/chat/ann", json={"prompt": "List my orders."}, timeout=SECONDS)
                    break
        finally:
            server.terminate()
            told.append(server.communicate(timeout=SECONDS)[1])
    assert answer is not None, "".join(told)
    assert answer.json()["answer"].startswith("ann ordered a lamp"), "".join(told)
    assert "Traceback" not in "".join(told)
