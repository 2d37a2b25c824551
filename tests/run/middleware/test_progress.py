"""Small models are told the question, the results so far and what is missing; an apology has one retry."""

from __future__ import annotations

from typing import Any

from mcpagent import Agent, RunOptions
from mcpagent.models import ModelSettings, OpenAIChatModel
from tests.wire.provider import PlayedProvider, chat_stream

SORRY = chat_stream({"content": "I'm sorry, but I can't assist with that."})
BOTH = "What time is it in Tokyo and what is the capital of Peru?"


def time_in(city: str) -> str:
    """Tells the time in a city."""
    return f"12:00 in {city}"


def capital_of(country: str) -> str:
    """Tells the capital of a country."""
    return f"Lima, {country}"


def call(name: str, arguments: str) -> Any:
    function = {"name": name, "arguments": arguments}
    return chat_stream({"tool_calls": [{"index": 0, "id": f"c{arguments}", "type": "function", "function": function}]})


TOKYO = call("time_in", '{"city": "Tokyo"}')
PERU = call("capital_of", '{"country": "Peru"}')


async def ask(provider: PlayedProvider, prompt: str = BOTH, profile: Any = "small") -> str:
    model = OpenAIChatModel("m", provider="vllm", base_url="http://localhost:1/v1", http_client=provider.http_client)
    options = RunOptions(settings=ModelSettings(profile=profile))
    async with Agent(model, tools=[time_in, capital_of], options=options) as agent:
        return await agent.ask(prompt)


def last_words(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


async def test_after_the_first_result_the_missing_part_is_named() -> None:
    provider = PlayedProvider(TOKYO, PERU, chat_stream({"content": "12:00, and Lima."}))
    assert await ask(provider) == "12:00, and Lima."
    told = last_words(provider.bodies[1])
    assert BOTH in told
    assert "- time_in(city='Tokyo'): 12:00 in Tokyo" in told
    assert "Still missing: what is the capital of Peru?" in told
    assert provider.bodies[2]["messages"][-1]["role"] == "tool"


async def test_a_question_of_one_part_has_no_note() -> None:
    provider = PlayedProvider(TOKYO, chat_stream({"content": "12:00."}))
    await ask(provider, "What time is it in Tokyo?")
    assert provider.bodies[1]["messages"][-1] == {**provider.bodies[1]["messages"][-1], "role": "tool"}
    assert last_words(provider.bodies[1]) == "12:00 in Tokyo"


async def test_a_repeated_call_is_answered_with_the_results_and_what_is_missing() -> None:
    provider = PlayedProvider(TOKYO, TOKYO, PERU, chat_stream({"content": "12:00, and Lima."}))
    assert await ask(provider) == "12:00, and Lima."
    told = last_words(provider.bodies[2])
    assert "was made 2 times in a row" in told
    assert "12:00 in Tokyo" in told
    assert "Still missing: what is the capital of Peru?" in told


async def test_an_apology_after_a_good_result_is_not_the_answer() -> None:
    provider = PlayedProvider(TOKYO, SORRY, chat_stream({"content": "It is 12:00."}))
    assert await ask(provider, "What time is it in Tokyo?") == "It is 12:00."
    told = last_words(provider.bodies[2])
    assert told.startswith("The question is: What time is it in Tokyo?")
    assert "Answer the question now in words, from these results." in told


async def test_a_second_apology_is_taken() -> None:
    provider = PlayedProvider(TOKYO, SORRY, SORRY)
    assert (await ask(provider, "What time is it in Tokyo?")).startswith("I'm sorry")
    assert len(provider.bodies) == 3


async def test_an_apology_without_a_result_is_the_answer() -> None:
    provider = PlayedProvider(SORRY)
    await ask(provider, "What time is it in Tokyo?")
    assert len(provider.bodies) == 1


async def test_an_apology_after_repeated_calls_has_a_retry_too() -> None:
    provider = PlayedProvider(TOKYO, TOKYO, TOKYO, SORRY, chat_stream({"content": "It is 12:00."}))
    assert await ask(provider, "What time is it in Tokyo?") == "It is 12:00."
    final = last_words(provider.bodies[3])
    assert "12:00 in Tokyo" in final
    assert "Answer now with what you have" in final


async def test_a_large_model_is_told_nothing_of_it() -> None:
    provider = PlayedProvider(TOKYO, SORRY)
    assert (await ask(provider, BOTH, "large")).startswith("I'm sorry")
    assert len(provider.bodies) == 2
    assert last_words(provider.bodies[1]) == "12:00 in Tokyo"
