"""What passes between a session and a transport: every answer to its request, in whatever order, and to nobody else."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.client.session import ClientSession
from mcp.client.subscriptions import listen
from mcp.shared.message import SessionMessage
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from mcp import MCPError
from mcpagent.config import Era
from mcpagent.mcp.pending_requests import Attempts, RawResult
from mcpagent.mcp.protocol_version import agree_on_era
from mcpagent.mcp.server_notifications import ServerNews
from mcpagent.mcp.tasks import FollowedTasks
from mcpagent.mcp.transports.dispatcher import AT_ONCE, MessageDispatcher, relayed
from mcpagent.mcp.transports.open_requests import ANONYMOUS_SECONDS
from tests.loop_holds import Turns, counted_turns
from tests.tables import each_row

pytestmark = pytest.mark.anyio

Raw = dict[str, Any]
MODERN = {
    "supportedVersions": [LATEST_MODERN_VERSION],
    "capabilities": {"tools": {"listChanged": True}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}
HANDSHAKE = {
    "protocolVersion": LATEST_HANDSHAKE_VERSION,
    "capabilities": {},
    "serverInfo": {"name": "scripted", "version": "1"},
}


@dataclass
class Wire:
    """The server's end: what was `sent` to it, and `say` for what it says, each `taken`. Also the relay's observer."""

    sent: list[Any] = field(default_factory=list)
    waiting: asyncio.Queue[SessionMessage | None] = field(default_factory=asyncio.Queue)
    reported: list[ServerNews] = field(default_factory=list)
    is_over: bool = False
    answer: Callable[[types.JSONRPCRequest], Raw | types.ErrorData | None] = lambda _: None
    taken: Callable[[], object] = lambda: None

    def say(self, **message: Any) -> None:
        self.waiting.put_nowait(
            SessionMessage(types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0"} | message))
        )

    def hang_up(self) -> None:
        self.waiting.put_nowait(None)

    @asynccontextmanager
    async def transport(
        self,
    ) -> AsyncIterator[tuple[AsyncIterator[SessionMessage | Exception], Callable[[SessionMessage], Awaitable[None]]]]:
        async def messages() -> AsyncIterator[SessionMessage | Exception]:
            while (item := await self.waiting.get()) is not None:
                held = [item]
                del item
                yield held.pop()
                self.taken()

        yield messages(), self._sent

    async def _sent(self, item: SessionMessage) -> None:
        self.sent.append(item.message)
        if isinstance(item.message, types.JSONRPCRequest) and (answer := self.answer(item.message)) is not None:
            kind = "error" if isinstance(answer, types.ErrorData) else "result"
            self.say(id=item.message.id, **{kind: answer})

    def report(self, news: ServerNews) -> None:
        self.reported.append(news)

    def junk(self, text: str) -> None:
        self.reported.append(ServerNews("warning", text))

    def ended(self) -> None:
        self.is_over = True
        self.taken()


@asynccontextmanager
async def connected(wire: Wire) -> AsyncIterator[MessageDispatcher]:
    async with relayed(wire.transport(), wire, Attempts(), FollowedTasks(), ()) as relay:
        yield relay


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  what is waited for happens in this loop, a step or two later
            await asyncio.sleep(0)


async def settled() -> None:
    """All that is ready to run has run."""
    for _ in range(20):
        await asyncio.sleep(0)


def requests(wire: Wire, method: str) -> list[types.JSONRPCRequest]:
    return [item for item in wire.sent if isinstance(item, types.JSONRPCRequest) and item.method == method]


Step = tuple[Literal["answer", "answer as text", "answer twice", "refuse", "cancel", "stranger", "progress"], int]
KINDS = st.sampled_from(["answer", "answer as text", "answer twice", "refuse", "cancel", "stranger", "progress"])


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 8), steps=st.lists(st.tuples(KINDS, st.integers(0, 7)), max_size=30))
def test_each_request_gets_its_own_answer_and_no_other(count: int, steps: list[Step]) -> None:
    asyncio.run(_asked_and_answered(count, steps))


@dataclass
class Asking:
    """So many requests under way, and how each is to end."""

    wire: Wire
    tasks: list[asyncio.Task[Raw]] = field(default_factory=list)
    ids: dict[int, types.RequestId] = field(default_factory=dict)
    heard: dict[int, list[float]] = field(default_factory=dict)
    told: dict[int, list[float]] = field(default_factory=dict)
    outcome: dict[int, str] = field(default_factory=dict)

    async def begin(self, relay: MessageDispatcher, count: int) -> None:
        self.heard |= {number: [] for number in range(count)}
        self.told |= {number: [] for number in range(count)}
        self.tasks = [asyncio.create_task(self._ask(relay, number)) for number in range(count)]
        await until(lambda: len(self.wire.sent) == count)
        self.ids = {item.params["number"]: item.id for item in requests(self.wire, "x/ask") if item.params}

    async def _ask(self, relay: MessageDispatcher, number: int) -> Raw:
        async def hear(progress: float, total: float | None, message: str | None) -> None:
            self.heard[number].append(progress)

        return await relay.send_raw_request("x/ask", {"number": number}, {"on_progress": hear})

    async def take(self, kind: str, number: int, place: int) -> None:
        if kind == "stranger":
            self.wire.say(id=10_000 + place, result={"for": "nobody"})
        elif kind == "progress":
            params = {"progressToken": self.ids[number], "progress": place}
            self.wire.say(method="notifications/progress", params=params)
            self.told[number] += [place] if number not in self.outcome else []
        elif kind == "cancel":
            await until(self.wire.waiting.empty)
            if number not in self.outcome:
                self.tasks[number].cancel()
                self.outcome[number] = "cancelled"
            await asyncio.wait({self.tasks[number]}, timeout=5)
        else:
            refusal = {"error": {"code": -5, "message": str(number)}}
            for _ in range(2 if kind == "answer twice" else 1):
                request_id = str(self.ids[number]) if kind == "answer as text" else self.ids[number]
                self.wire.say(id=request_id, **(refusal if kind == "refuse" else {"result": {"of": number}}))
            self.outcome.setdefault(number, "refused" if kind == "refuse" else "answered")


async def _asked_and_answered(count: int, steps: list[Step]) -> None:
    wire = Wire()
    asking = Asking(wire)
    async with connected(wire) as relay:
        await asking.begin(relay, count)
        for place, (kind, chosen) in enumerate(steps):
            await asking.take(kind, chosen % count, place)
        wire.hang_up()
        ended = await asyncio.wait_for(asyncio.gather(*asking.tasks, return_exceptions=True), 5)
    for number, end in enumerate(ended):
        how = asking.outcome.get(number, "closed")
        if how == "answered":
            assert end == {"of": number}
        elif how == "cancelled":
            assert isinstance(end, asyncio.CancelledError)
        else:
            expected = (-5, str(number)) if how == "refused" else (types.CONNECTION_CLOSED, "Connection closed")
            assert isinstance(end, MCPError)
            assert (end.code, end.error.message) == expected
    assert asking.heard == asking.told
    cancelled = [item.params["requestId"] for item in wire.sent if item.method == "notifications/cancelled"]
    assert sorted(cancelled) == sorted(
        asking.ids[number] for number, how in asking.outcome.items() if how == "cancelled"
    )
    assert wire.is_over


async def test_nothing_is_sent_over_a_connection_that_ended() -> None:
    wire = Wire()
    async with connected(wire) as relay:
        wire.hang_up()
        await until(lambda: wire.is_over)
        with pytest.raises(MCPError) as error:
            await relay.send_raw_request("x/ask", None)
    assert error.value.code == types.CONNECTION_CLOSED
    assert wire.sent == []


async def test_a_request_that_is_cancelled_before_it_is_sent_is_not_sent() -> None:
    wire = Wire()
    async with connected(wire) as relay:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await relay.send_raw_request("x/ask", None)
        await settled()
    assert scope.cancelled_caught
    assert wire.sent == []


@each_row("end", ["answered", "closed"])
async def test_a_request_that_has_ended_is_not_cancelled_any_more(end: str) -> None:
    """Its answer is there, and the task that waits for it is cancelled before it has run."""
    wire = Wire()
    async with connected(wire) as relay:
        asking = asyncio.create_task(relay.send_raw_request("x/ask", None))
        await until(lambda: bool(wire.sent))
        wire.taken = asking.cancel
        if end == "answered":
            wire.say(id=wire.sent[0].id, result={})
        else:
            wire.hang_up()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asking, 5)
        await settled()
    assert [item.method for item in wire.sent] == ["x/ask"]


@each_row(
    "echo, is_its_own",
    [
        (1, True),
        ("1", True),
        ("001", False),
        ("+1", False),
        (" 1", False),
        ("\u0661", False),
        (10, False),
        ("1.0", False),
        ("one", False),
        ("", False),
        (-1, False),
    ],
)
async def test_which_ids_name_a_request(echo: types.RequestId, is_its_own: bool) -> None:
    wire, heard = Wire(), list[float]()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with connected(wire) as relay:
        asking = asyncio.create_task(relay.send_raw_request("x/ask", None, {"on_progress": hear}))
        await until(lambda: bool(wire.sent))
        assert wire.sent[0].id == 1
        for token in (echo, True, None, 1.0, [1], {"1": 1}):
            wire.say(method="notifications/progress", params={"progressToken": token, "progress": 5})
        wire.say(id=echo, result={"of": "this"})
        wire.hang_up()
        await asyncio.wait({asking}, timeout=5)
        end = asking.exception() or asking.result()
    assert (end == {"of": "this"}, heard) == (is_its_own, [5] if is_its_own else [])


@each_row("first", ["answered", "cancelled"])
async def test_an_answer_without_an_id_ends_the_request_that_it_must_be_for(first: str) -> None:
    """Of two: the other one if one is answered; it may have been for one that nobody waits for any more."""
    wire = Wire()
    async with connected(wire) as relay:
        asking = [asyncio.create_task(relay.send_raw_request("x/ask", None)) for _ in range(2)]
        await until(lambda: len(wire.sent) == 2)
        wire.say(id=None, error={"code": -32603, "message": "of one of them"})
        await until(wire.waiting.empty)
        if first == "answered":
            wire.say(id=wire.sent[0].id, result={})
        else:
            asking[0].cancel()
        _, waiting = await asyncio.wait(asking, timeout=ANONYMOUS_SECONDS + 0.3)
        assert (asking[1] in waiting) == (first == "cancelled")
        if waiting:
            wire.say(id=wire.sent[1].id, result={"well": True})
            assert await asyncio.wait_for(asking[1], 5) == {"well": True}
        else:
            assert "of one of them" in str(asking[1].exception())


async def test_a_connection_outlives_whoever_fails_to_hear_of_progress() -> None:
    wire = Wire()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        raise ZeroDivisionError

    async with connected(wire) as relay:
        asking = asyncio.create_task(relay.send_raw_request("x/ask", None, {"on_progress": hear}))
        await until(lambda: bool(wire.sent))
        wire.say(method="notifications/progress", params={"progressToken": wire.sent[0].id, "progress": 1})
        wire.say(id=wire.sent[0].id, result={"well": True})
        assert await asyncio.wait_for(asking, 5) == {"well": True}
        assert not wire.is_over


async def test_no_notification_makes_a_task() -> None:
    """A flood of them may not starve the answers behind it."""
    wire, made = Wire(), list[Any]()
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> asyncio.Task[Any]:
        made.append(work)
        return asyncio.Task(work, loop=loop, **how)

    async with connected(wire) as relay, ClientSession(dispatcher=relay):
        loop.set_task_factory(factory)
        try:
            for method in (
                "progress",
                "message",
                "tools/list_changed",
                "resources/updated",
                "elicitation/complete",
                "x",
            ):
                for meta in ({}, {"io.modelcontextprotocol/subscriptionId": "listen-0"}):
                    params = {"progressToken": "whose?", "_meta": meta}
                    wire.say(method=f"notifications/{method}", params=params)
            await until(wire.waiting.empty)
            await settled()
        finally:
            loop.set_task_factory(None)
        assert not wire.is_over
    assert made == []


async def test_an_answer_is_not_kept_until_the_next_message() -> None:
    """It may be large."""
    wire = Wire()
    async with connected(wire) as relay:
        asking = asyncio.create_task(relay.send_raw_request("x/ask", None))
        await until(lambda: bool(wire.sent))
        item = SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=wire.sent[0].id, result={"much": "x"}))
        kept = weakref.ref(item.message)
        wire.waiting.put_nowait(item)
        del item
        assert await asyncio.wait_for(asking, 5) == {"much": "x"}
        del asking
        await settled()
        assert kept() is None
        assert not wire.is_over


async def test_a_subscription_that_is_granted_and_ended_at_once_was_granted() -> None:
    """What a server says of it, and its answer, are heard in their order."""
    wire = Wire()

    def answer(request: types.JSONRPCRequest) -> Raw | None:
        if request.method == "server/discover":
            return MODERN
        meta = {"io.modelcontextprotocol/subscriptionId": request.id}
        granted = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        wire.say(method="notifications/subscriptions/acknowledged", params=granted)
        wire.say(method="notifications/tools/list_changed", params={"_meta": meta})
        return {"_meta": meta, "resultType": "complete"}

    wire.answer = answer
    async with connected(wire) as relay, ClientSession(dispatcher=relay) as session:
        await agree_on_era(session, "auto")
        async with asyncio.timeout(5), listen(session, tools_list_changed=True) as subscription:
            assert subscription.honored.tools_list_changed
            assert len([change async for change in subscription]) == 1
    assert [news.text for news in wire.reported if news.kind == "list"] == ["tools"]


def unsupported(*versions: str) -> types.ErrorData:
    data = {"supported": list(versions), "requested": LATEST_MODERN_VERSION}
    return types.ErrorData(code=types.UNSUPPORTED_PROTOCOL_VERSION, message="not this one", data=data)


REFUSED = types.ErrorData(code=types.METHOD_NOT_FOUND, message="what is that?")
OLD = "2024-11-05"


@each_row(
    "era, discover, initialize, spoken",
    [
        ("auto", [MODERN], [], ["server/discover"]),
        ("auto", [REFUSED], [HANDSHAKE], ["server/discover", "initialize"]),
        ("auto", [{"nonsense": 1}], [HANDSHAKE], ["server/discover", "initialize"]),
        ("auto", [MODERN | {"supportedVersions": [OLD]}], [HANDSHAKE], ["server/discover", "initialize"]),
        ("auto", [unsupported(OLD)], [HANDSHAKE], ["server/discover", "initialize"]),
        ("auto", [unsupported("2099-01-01")], [], ["server/discover"]),
        ("auto", [unsupported(LATEST_MODERN_VERSION), MODERN], [], ["server/discover"] * 2),
        ("auto", [unsupported(LATEST_MODERN_VERSION)] * 2, [], ["server/discover"] * 2),
        (
            "auto",
            [REFUSED, MODERN],
            [unsupported(LATEST_MODERN_VERSION)],
            ["server/discover", "initialize", "server/discover"],
        ),
        (
            "auto",
            [REFUSED, REFUSED],
            [unsupported(LATEST_MODERN_VERSION)] * 2,
            ["server/discover", "initialize", "server/discover", "initialize"],
        ),
        ("auto", [REFUSED], [REFUSED], ["server/discover", "initialize"]),
        ("legacy", [], [HANDSHAKE], ["initialize"]),
        ("legacy", [], [unsupported(LATEST_MODERN_VERSION)], ["initialize"]),
    ],
)
async def test_the_era_that_is_agreed_on(
    era: Era, discover: list[Any], initialize: list[Any], spoken: list[str]
) -> None:
    wire = Wire()
    answers: Mapping[str, list[Any]] = {"server/discover": [*discover], "initialize": [*initialize]}
    wire.answer = lambda request: answers[request.method].pop(0)
    async with connected(wire) as relay, ClientSession(dispatcher=relay) as session:
        last = (initialize if spoken[-1] == "initialize" else discover)[-1]
        if isinstance(last, types.ErrorData):
            with pytest.raises(MCPError) as error:
                await asyncio.wait_for(agree_on_era(session, era), 5)
            assert error.value.error.message == last.message
        else:
            await asyncio.wait_for(agree_on_era(session, era), 5)
            is_modern = spoken[-1] == "server/discover"
            assert session.protocol_version == (LATEST_MODERN_VERSION if is_modern else LATEST_HANDSHAKE_VERSION)
    assert [item.method for item in wire.sent if isinstance(item, types.JSONRPCRequest)] == spoken
    notified = [item.method for item in wire.sent if isinstance(item, types.JSONRPCNotification)]
    assert notified == (["notifications/initialized"] if last is HANDSHAKE else [])


async def test_requests_of_a_session_carry_what_its_era_demands() -> None:
    """The session stays the SDK's for this: fields and headers of requests follow its revisions."""
    wire = Wire()
    wire.answer = lambda request: (
        MODERN if request.method == "server/discover" else {"content": [], "resultType": "complete"}
    )
    async with connected(wire) as relay, ClientSession(dispatcher=relay) as session:
        await agree_on_era(session, "auto")
        call = types.CallToolRequest(params=types.CallToolRequestParams(name="read", arguments={"path": "a"}))
        await asyncio.wait_for(session.send_request(call, RawResult), 5)
    (sent,) = requests(wire, "tools/call")
    assert sent.params is not None
    assert sent.params["_meta"]["io.modelcontextprotocol/protocolVersion"] == LATEST_MODERN_VERSION
    assert {name: sent.params[name] for name in ("name", "arguments")} == {"name": "read", "arguments": {"path": "a"}}


async def test_a_flood_of_notifications_leaves_the_loop_between_them() -> None:
    """The transport has them all at once, and waits for nothing between two."""
    turns = Turns()
    wire = Wire(taken=turns.add)
    async with connected(wire), counted_turns(turns):
        for number in range(20 * AT_ONCE):
            wire.say(method="notifications/message", params={"level": "info", "data": number})
        await until(lambda: len(wire.reported) == 20 * AT_ONCE)
    assert 1 < turns.most <= AT_ONCE
