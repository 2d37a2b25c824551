# mypy: disable-error-code="import-not-found, no-any-return, misc, unused-ignore"
"""The agents that `benchmarks/loop.py` measures: each takes a history in its own form and answers one turn after it.

A prompt ends with `[calls=N]`. The scripted models, each of its framework's own kind, call `look_up` until N results
follow that prompt, then answer `Done after N calls.`; with an address they are the framework's Chat Completions model.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias

INSTRUCTIONS = (
    "You answer questions about a large archive. Look things up before you answer."
)
RESULT = (
    "What the archive says about it: "
    + "one of its many thousand entries, in full. " * 7
)

_WORDS = random.Random(7)
_TEXT = " ".join(
    _WORDS.choice(("archive", "entry", "of", "the", "year", "found", "was", "a"))
    for _ in range(2_000)
)
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a history, in nobody's form. `text` is a call's only argument; calls and results have an id."""

    kind: Literal["question", "call", "result", "answer"]
    text: str
    call_id: str = ""

    @property
    def arguments(self) -> dict[str, str]:
        return {"query": self.text}


Ask: TypeAlias = Callable[[str], Awaitable[str]]
"""One turn of a conversation: the prompt's answer."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An agent that is ready: what makes a history its own, and what begins a conversation with such a history."""

    native: Callable[[Sequence[Line]], Any]
    begin: Callable[[Any], Awaitable[Ask]]


System: TypeAlias = Callable[[str], AbstractAsyncContextManager[Ready]]
"""An agent by the address of its model; "" for a scripted one."""


def history(length: int, name: str) -> list[Line]:
    """`length` messages of 200 to 500 characters: questions, calls, results and answers. Each text is another one."""

    def text() -> str:
        number = next(_NUMBERS)
        start = number * 37 % 8_000
        return f"{name}, {number}: {_TEXT[start : start + 200 + number * 53 % 300]}"

    lines: list[Line] = []
    while len(lines) + 4 <= length:
        call_id = f"call_{next(_NUMBERS)}"
        lines += [Line("question", text()), Line("call", text(), call_id)]
        lines += [Line("result", text(), call_id), Line("answer", text())]
    while len(lines) < length:
        lines.append(Line("answer" if len(lines) % 2 else "question", text()))
    return lines


def prompts() -> Iterator[str]:
    """Questions of a usual length, without the number of calls that they ask for."""
    for number in count(1):
        yield f"Question {number}: {_TEXT[number % 1_000 : number % 1_000 + 250]} "


async def look_up(query: str) -> str:
    """Looks something up in the archive."""
    return RESULT + query


def _reply(backwards: Iterable[tuple[bool, str]]) -> tuple[str, str]:
    """What a scripted model says: an id and an argument for a call, or "" and an answer.

    `backwards` has, for each message from the last one on, whether it is a result, and its text where it is a prompt.
    """
    done = 0
    for is_result, prompt in backwards:
        if prompt:
            if done == int(prompt.rpartition("[calls=")[2].rstrip("]")):
                return "", f"Done after {done} calls."
            number = next(_NUMBERS)
            return f"call_new_{number}", f"what number {number} is about"
        done += is_result
    raise AssertionError("no prompt was sent")


# -- mcpagent ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def kept_mcpagent_system(address: str) -> AsyncIterator[Ready]:
    """The same, with each step written into a file of sessions before the next one."""
    from mcpagent import Sessions

    with tempfile.TemporaryDirectory() as folder:
        store = Sessions(Path(folder, "sessions.db"))
        async with mcpagent_system(address, sessions=store) as ready:
            yield ready
        store.close()


@asynccontextmanager
async def mcpagent_system(address: str, **options: Any) -> AsyncIterator[Ready]:
    from mcpagent import Agent
    from mcpagent.models import OpenAIChatModel
    from mcpagent.models.base import ModelRequest
    from mcpagent.models.scripted import Answer, ScriptedModel
    from mcpagent.values.messages import Message, ToolCall

    def say(request: ModelRequest) -> Answer:
        scripted.requests.clear()  # so each is the first one, and none is kept
        backwards = (
            (said.role == "tool", said.text if said.role == "user" else "")
            for said in reversed(request.messages)
        )
        call_id, text = _reply(backwards)
        return ToolCall(call_id, "look_up", {"query": text}) if call_id else text

    scripted = ScriptedModel([say])
    model = (
        OpenAIChatModel("m", provider="local", base_url=address)
        if address
        else scripted
    )
    async with Agent(
        model, instructions=INSTRUCTIONS, tools=[look_up], **options
    ) as agent:

        async def begin(messages: list[Message]) -> Ask:
            return agent.session(messages=messages).ask

        yield Ready(_mcpagent_history, begin)
    await model.aclose()


def _mcpagent_history(lines: Sequence[Line]) -> list[Any]:
    from mcpagent.values.messages import Message, Origin, Text, ToolCall, ToolResult

    def called(line: Line) -> ToolCall:
        as_sent = {
            "function": {"name": "look_up", "arguments": json.dumps(line.arguments)}
        }
        return ToolCall(line.call_id, "look_up", line.arguments, provider_data=as_sent)

    forms: Mapping[str, Callable[[Line], Message]] = {
        "question": lambda line: Message("user", (Text(line.text),)),
        "call": lambda line: Message("assistant", (called(line),), Origin("local")),
        "result": lambda line: Message(
            "tool", (ToolResult(line.call_id, "look_up", (Text(line.text),)),)
        ),
        "answer": lambda line: Message(
            "assistant", (Text(line.text),), Origin("local")
        ),
    }
    return [forms[line.kind](line) for line in lines]


# -- pydantic-ai ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def pydantic_ai_system(address: str) -> AsyncIterator[Ready]:
    from pydantic_ai import Agent

    agent = Agent(
        _pydantic_ai_model(address), instructions=INSTRUCTIONS, tools=[look_up]
    )

    async def begin(messages: list[Any]) -> Ask:
        async def ask(prompt: str) -> str:
            nonlocal messages
            result = await agent.run(prompt, message_history=messages)
            messages = result.all_messages()
            return result.output

        return ask

    yield Ready(_pydantic_ai_history, begin)


def _pydantic_ai_model(address: str) -> Any:
    from pydantic_ai.messages import (
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    if address:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel(
            "m", provider=OpenAIProvider(base_url=address, api_key="none")
        )

    async def say(messages: list[Any], _info: Any) -> ModelResponse:
        firsts = (message.parts[0] for message in reversed(messages))
        call_id, text = _reply(
            (
                isinstance(part, ToolReturnPart),
                part.content if isinstance(part, UserPromptPart) else "",
            )
            for part in firsts
        )
        part = (
            ToolCallPart("look_up", {"query": text}, call_id)
            if call_id
            else TextPart(text)
        )
        # Given, since otherwise it counts the words of the whole history.
        return ModelResponse(
            parts=[part], usage=RequestUsage(input_tokens=10, output_tokens=5)
        )

    return FunctionModel(say)


def _pydantic_ai_history(lines: Sequence[Line]) -> list[Any]:
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    forms: Mapping[str, Callable[[Line], Any]] = {
        "question": lambda line: ModelRequest(
            parts=[UserPromptPart(line.text)], instructions=INSTRUCTIONS
        ),
        "call": lambda line: ModelResponse(
            parts=[ToolCallPart("look_up", json.dumps(line.arguments), line.call_id)],
            model_name="m",
        ),
        "result": lambda line: ModelRequest(
            parts=[ToolReturnPart("look_up", line.text, line.call_id)],
            instructions=INSTRUCTIONS,
        ),
        "answer": lambda line: ModelResponse(
            parts=[TextPart(line.text)], model_name="m"
        ),
    }
    return [forms[line.kind](line) for line in lines]


# -- openai-agents ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def openai_agents_system(address: str) -> AsyncIterator[Ready]:
    from agents import Runner

    agent = _openai_agents_agent(address)

    async def begin(items: list[Any]) -> Ask:
        async def ask(prompt: str) -> str:
            nonlocal items
            result = await Runner.run(
                agent, [*items, {"role": "user", "content": prompt}]
            )
            items = result.to_input_list()
            return result.final_output

        return ask

    yield Ready(_openai_agents_history, begin)


@asynccontextmanager
async def kept_openai_agents_system(address: str) -> AsyncIterator[Ready]:
    """The same with its own store of conversations, `SQLiteSession`, in a file."""
    from agents import Runner, SQLiteSession

    with tempfile.TemporaryDirectory() as folder:
        agent = _openai_agents_agent(address)

        async def begin(items: list[Any]) -> Ask:
            session = SQLiteSession(
                f"conversation {next(_NUMBERS)}", Path(folder, "sessions.db")
            )
            await session.add_items(items)

            async def ask(prompt: str) -> str:
                return (await Runner.run(agent, prompt, session=session)).final_output

            return ask

        yield Ready(_openai_agents_history, begin)


def _openai_agents_agent(address: str) -> Any:
    from agents import Agent, function_tool, set_tracing_disabled

    set_tracing_disabled(True)
    tools = [function_tool(look_up)]
    return Agent(
        name="archive",
        instructions=INSTRUCTIONS,
        tools=tools,
        model=_openai_agents_model(address),
    )


def _openai_agents_model(address: str) -> Any:
    from agents import Model, ModelResponse, OpenAIChatCompletionsModel, Usage
    from openai import AsyncOpenAI
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

    if address:
        return OpenAIChatCompletionsModel(
            "m", AsyncOpenAI(base_url=address, api_key="none")
        )

    class Scripted(Model):
        async def get_response(self, *_: Any, **given: Any) -> ModelResponse:
            call_id, text = _reply(
                (
                    item.get("type") == "function_call_output",
                    item["content"] if item.get("role") == "user" else "",
                )
                for item in reversed(given["input"])
            )
            line = Line("call" if call_id else "answer", text, call_id)
            kind = ResponseFunctionToolCall if call_id else ResponseOutputMessage
            said = kind.model_validate(_openai_agents_item(line))
            return ModelResponse(
                output=[said], usage=Usage(requests=1), response_id=None
            )

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    return Scripted()


def _openai_agents_item(line: Line) -> dict[str, Any]:
    """As `to_input_list()` gives it."""
    match line.kind:
        case "question":
            return {"content": line.text, "role": "user"}
        case "call":
            about = {
                "call_id": line.call_id,
                "name": "look_up",
                "type": "function_call",
            }
            return {"arguments": json.dumps(line.arguments), **about}
        case "result":
            return {
                "call_id": line.call_id,
                "output": line.text,
                "type": "function_call_output",
            }
        case "answer":
            content = [{"annotations": [], "text": line.text, "type": "output_text"}]
            about = {"role": "assistant", "status": "completed", "type": "message"}
            return {"id": f"msg_{next(_NUMBERS)}", "content": content, **about}


def _openai_agents_history(lines: Sequence[Line]) -> list[Any]:
    return [_openai_agents_item(line) for line in lines]


# -- fast-agent -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def fast_agent_system(address: str) -> AsyncIterator[Ready]:
    from fast_agent.agents.agent_types import AgentConfig
    from fast_agent.agents.tool_agent import ToolAgent
    from fast_agent.config import LoggerSettings, Settings
    from fast_agent.core import Core

    quiet = LoggerSettings(
        type="none",
        progress_display=False,
        show_chat=False,
        show_tools=False,
        streaming="none",
    )
    core = Core(settings=Settings(logger=quiet))
    model = _fast_agent_model(address)
    await core.initialize()

    async def begin(messages: list[Any]) -> Ask:
        # An agent is one conversation there.
        agent = ToolAgent(AgentConfig("archive", INSTRUCTIONS), [look_up], core.context)
        await agent.attach_llm(model)
        agent.load_message_history(messages)
        return agent.send

    yield Ready(_fast_agent_history, begin)
    await core.cleanup()


def _fast_agent_model(address: str) -> Callable[..., Any]:
    from fast_agent.llm.internal.passthrough import PassthroughLLM
    from fast_agent.llm.provider.openai.llm_generic import GenericLLM

    class Scripted(PassthroughLLM):
        async def _apply_prompt_provider_specific(
            self, multipart_messages: list[Any], *_: Any, **__: Any
        ) -> Any:
            call_id, text = _reply(
                (
                    bool(said.tool_results),
                    ""
                    if said.tool_results or said.role != "user"
                    else said.first_text(),
                )
                for said in reversed(multipart_messages)
            )
            return _fast_agent_message(
                Line("call" if call_id else "answer", text, call_id)
            )

    def made(agent: Any, **options: Any) -> Any:
        if not address:
            return Scripted(agent=agent, **options)
        return GenericLLM(
            agent=agent,
            name=agent.name,
            api_key="none",
            base_url=address,
            model="m",
            **options,
        )

    return made


def _fast_agent_message(line: Line) -> Any:
    from fast_agent.types import LlmStopReason, PromptMessageExtended
    from mcp_types import (
        CallToolRequest,
        CallToolRequestParams,
        CallToolResult,
        TextContent,
    )

    text: list[Any] = [TextContent(type="text", text=line.text)]
    match line.kind:
        case "question":
            return PromptMessageExtended(role="user", content=text)
        case "call":
            params = CallToolRequestParams(name="look_up", arguments=line.arguments)
            calls = {line.call_id: CallToolRequest(method="tools/call", params=params)}
            return PromptMessageExtended(
                role="assistant",
                content=[],
                tool_calls=calls,
                stop_reason=LlmStopReason.TOOL_USE,
            )
        case "result":
            return PromptMessageExtended(
                role="user",
                content=[],
                tool_results={line.call_id: CallToolResult(content=text)},
            )
        case "answer":
            return PromptMessageExtended(
                role="assistant", content=text, stop_reason=LlmStopReason.END_TURN
            )


def _fast_agent_history(lines: Sequence[Line]) -> list[Any]:
    return [_fast_agent_message(line) for line in lines]


SYSTEMS: dict[str, System] = {
    "mcpagent": mcpagent_system,
    "mcpagent-kept": kept_mcpagent_system,
    "pydantic-ai-slim": pydantic_ai_system,
    "openai-agents": openai_agents_system,
    "openai-agents-kept": kept_openai_agents_system,
    "fast-agent-mcp": fast_agent_system,
}
