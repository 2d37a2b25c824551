"""A chat for many users over one agent: its servers, tools and model are shared, each user has a session of his own.

    pip install fastapi uvicorn
    MCPAGENT_MODEL=offline uvicorn examples.web.app:app

    curl localhost:8000/chat/ann --json '{"prompt": "What is 12 * 12?"}'            the answer as JSON
    curl -N localhost:8000/chat/ann/stream --json '{"prompt": "What did I order?"}'  as server-sent events

The model is that of the environment: MCPAGENT_MODEL, or that of the key that is set; `offline` is a stand-in.
Who asks stands in the path here; take it from your sign-in. A whole answer is finished also when nobody waits for it
any more; a stream that is left ends its run.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel

from mcpagent import (
    Agent,
    AgentStateError,
    EventStream,
    InputError,
    LimitError,
    Limits,
    McpAgentError,
    Model,
    ModelError,
    RunContext,
    RunOptions,
    ServerOptions,
    Session,
    events,
    function_tool,
)
from mcpagent.demo import demo_server_config

STATUS: dict[type[McpAgentError], int] = {
    InputError: 422,
    AgentStateError: 409,
    LimitError: 429,
    ModelError: 502,
}
"""What an error is over HTTP; 409: this user is being answered already. All others are ours: 500."""

CALCULATIONS = (
    "calculate",
    "percent_of",
    "convert_units",
    "get_current_time",
    "to_roman_numeral",
    "mix_colours",
)
"""A server and what it keeps is the same one for all users: choose tools that may be."""


@dataclass(frozen=True, slots=True)
class Customer:
    """What tools know of who asks."""

    name: str


ORDERS = {"ann": ["a lamp"], "bob": ["a desk", "two chairs"]}


def my_orders(context: RunContext[Customer]) -> str:
    """List what I have ordered so far: my orders."""
    return f"{context.deps.name} ordered {', '.join(ORDERS.get(context.deps.name, [])) or 'nothing yet'}"


def make_agent(model: str | Model | None = None) -> Agent[Customer]:
    """The one agent; in tool search mode, so what a user's model has found is part of that user's session."""
    return Agent(
        model,
        mcp_config=demo_server_config(),
        tools=[function_tool(my_orders, read_only=True)],
        with_tool_search_mode=True,
        options=RunOptions(
            limits=Limits(turns=20, tokens=200_000),
            servers=ServerOptions(
                selected_tools=[f"demo:{name}" for name in CALCULATIONS]
            ),
        ),
    )


class Chats:
    """The users' sessions: at most `most`; a new one takes the place of the one that was unused for longest."""

    def __init__(self, agent: Agent[Customer], most: int) -> None:
        self._agent = agent
        self._most = most
        self._sessions: dict[str, Session[Customer]] = {}

    def of(self, user: str) -> Session[Customer]:
        """The user's session. Raises `LimitError` for one more user while all others are being answered."""
        session = self._sessions.pop(user, None)
        if session is None:
            self._make_room()
            session = self._agent.session(id=user, deps=Customer(user))
        self._sessions[user] = session  # the last one used
        return session

    def _make_room(self) -> None:
        if len(self._sessions) < self._most:
            return
        idle = next(
            (
                user
                for user, session in self._sessions.items()
                if not session.is_answering
            ),
            None,
        )
        if idle is None:
            raise LimitError(f"{self._most} users are being answered; try again soon")
        del self._sessions[
            idle
        ]  # to keep its history: dump_messages(session.messages), agent.session(messages=...)


class Question(BaseModel):
    prompt: str


async def session_of(
    user: str, request: Request
) -> Session[Customer]:  # not async, it would run in a thread
    chats: Chats = request.app.state.chats
    return chats.of(user)


TheirSession = Annotated[Session[Customer], Depends(session_of)]


async def opened_stream(
    question: Question, session: TheirSession
) -> AsyncIterator[EventStream]:
    """What cannot be asked is refused here, before the first byte. It is left with the response, however that ends."""
    async with session.stream(question.prompt) as stream:
        yield stream


router = APIRouter()


@router.post("/chat/{user}")
async def answer(question: Question, session: TheirSession) -> dict[str, Any]:
    """The answer, why it ended there, and what it took; `dollars` is null for a model whose price is not known."""
    result = await session.run(question.prompt)
    tokens = result.usage.input_tokens + result.usage.output_tokens
    dollars = result.spent.dollars if result.spent.cost_known else None
    return {
        "answer": result.answer,
        "stop": result.stop,
        "tokens": tokens,
        "dollars": dollars,
    }


@router.post("/chat/{user}/stream", response_class=EventSourceResponse)
async def answer_as_events(
    stream: Annotated[EventStream, Depends(opened_stream)],
) -> AsyncIterator[ServerSentEvent]:
    """Events `text` (the next piece), `tool` (a call), at the end one `answer` or one `failed`; their data is JSON."""
    try:
        async for event in stream:
            match event:
                case events.TextDelta(text=text):
                    yield ServerSentEvent(event="text", data=text)
                case events.ToolCallStarted(call=call):
                    yield ServerSentEvent(event="tool", data=call.name)
                case events.RunFinished(answer=whole, stop=stop):
                    yield ServerSentEvent(
                        event="answer", data={"answer": whole, "stop": stop}
                    )
                case _:
                    pass
    except McpAgentError as error:
        yield ServerSentEvent(event="failed", data=document(error))


def document(error: McpAgentError) -> dict[str, Any]:
    """An error as JSON: its one line, and its status."""
    status = next(
        (status for kind, status in STATUS.items() if isinstance(error, kind)), 500
    )
    return {"error": str(error), "status": status}


async def refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, McpAgentError)
    told = document(error)
    return JSONResponse(told, told["status"])


def make_app(agent: Agent[Customer], most_users: int = 1000) -> FastAPI:
    """The application; the agent starts and ends with it."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        async with agent:
            app.state.chats = Chats(agent, most_users)
            yield

    app = FastAPI(lifespan=life)
    app.include_router(router)
    app.add_exception_handler(McpAgentError, refused)
    return app


app = make_app(make_agent())
