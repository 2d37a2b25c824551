"""What the offline stand-in runs by itself: only what is marked as only reading, and only if it is asked for.

Sixty requests over functions that are marked and functions that are not, beside the bundled demo server, written down
before their answers were seen; and sentences that went wrong before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

from mcpagent import Agent, FunctionToolset, RunOptions
from mcpagent.demo import demo_server_config
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ModelRequest, OfflineModel
from mcpagent.offline.turn import answer
from mcpagent.values.messages import ToolDefinition, user_message
from tests.tables import each_row

NOW = datetime(2026, 11, 22, 7, 30, tzinfo=UTC)
TODAY = datetime.now(UTC).date()
"""The demo server looks at the real clock."""

NEXT_WEDNESDAY = TODAY + timedelta(days=(1 - TODAY.weekday()) % 7 + 1)
STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}

ProviderResult: TypeAlias = list[tuple[str, dict[str, Any]]]


def marked(ran: ProviderResult) -> list[Callable[..., str]]:
    """Functions that change nothing."""

    def account_balance(name: str) -> str:
        """Tell the balance of a person's account."""
        ran.append(("account_balance", {"name": name}))
        return "17 crowns"

    def draw_card() -> str:
        """Draw a card from a shuffled deck."""
        ran.append(("draw_card", {}))
        return "queen of hearts"

    def list_bookings() -> str:
        """List all bookings."""
        ran.append(("list_bookings", {}))
        return "room 4 on Monday"

    def get_weather(city: str) -> str:
        """Get the weather in a city."""
        ran.append(("get_weather", {"city": city}))
        return "sunny"

    def lamps_left() -> str:
        """How many lamps are left in stock."""
        ran.append(("lamps_left", {}))
        return "12 lamps"

    def opening_hours(day: Literal["monday", "saturday", "sunday"]) -> str:
        """Opening hours of the shop on a day."""
        ran.append(("opening_hours", {"day": day}))
        return "9 to 5"

    return [account_balance, draw_card, list_bookings, get_weather, lamps_left, opening_hours]


def unmarked(ran: ProviderResult) -> list[Callable[..., str]]:
    """Functions that act, whatever they are called."""

    def get_cash(amount: int) -> str:
        """Get cash from the machine."""
        ran.append(("get_cash", {"amount": amount}))
        return "dispensed"

    def count_vote(candidate: str) -> str:
        """Count a vote for a candidate."""
        ran.append(("count_vote", {"candidate": candidate}))
        return "counted"

    def list_for_sale(address: str) -> str:
        """List a house for sale."""
        ran.append(("list_for_sale", {"address": address}))
        return "listed"

    def read_aloud(text: str) -> str:
        """Read a text aloud through the loudspeaker."""
        ran.append(("read_aloud", {"text": text}))
        return "spoken"

    def get_next_job() -> str:
        """Get the next job and mark it as done."""
        ran.append(("get_next_job", {}))
        return "job 7"

    def check_in_guest(name: str) -> str:
        """Check in a guest."""
        ran.append(("check_in_guest", {"name": name}))
        return "in"

    return [get_cash, count_vote, list_for_sale, read_aloud, get_next_job, check_in_guest]


VALUES = [
    ("What is the account balance of Maria?", "17 crowns"),
    ("tell me the balance of the account of Jonas", "17 crowns"),
    ("Draw a card", "queen of hearts"),
    ("Could you draw a card, please?", "queen of hearts"),
    ("I'd like you to draw a card", "queen of hearts"),
    ("list all bookings", "room 4"),
    ("show me my bookings", "room 4"),
    ("What bookings do I have?", "room 4"),
    ("weather in Oslo", "sunny"),
    ("What's the weather in Lisbon?", "sunny"),
    ("do you know the weather in Oslo?", "sunny"),
    ("How many lamps are left?", "12 lamps"),
    ("hey, how many lamps do we have left?", "12 lamps"),
    ("opening hours on Saturday", "9 to 5"),
    ("what are the opening hours on monday?", "9 to 5"),
    ("Flip a coin for us", "(heads|tails)"),
    ("would you flip a coin?", "(heads|tails)"),
    ("what time is it in Nairobi?", "Africa/Nairobi"),
    ("what time will it be in Tokyo when it is 8pm in Berlin", "Asia/Tokyo"),
    ("What is 23 times 19?", "437"),
    ("how much is 15% of 240", "36"),
    ("is 221 a prime number", "221"),
    ("convert 3 gallons to litres", "11\\.356"),
    ("capital of Norway and capital of Chile", "(?s)Oslo.*Santiago"),
    ("how many days until 2026-12-31?", "39 days"),
    ("what weekday is 1 January 2030", "Tuesday"),
    ("when is the next Wednesday?", f"The next Wednesday after .* is {NEXT_WEDNESDAY}"),
    ("Write 49 in roman numerals", "XLIX"),
    ("reverse the word parcel", "lecrap"),
    ("sort these words: oak, elm, ash", "(?s)ash.*elm.*oak"),
]
"""What is to be answered, and what has to be in the answer."""

ORDERS = [
    ("Get 50 cash from the machine", "get_cash"),
    ("could you get me 50 in cash from the machine?", "get_cash"),
    ('Count a vote for the candidate "Lea"', "count_vote"),
    ('list the house "3 Mill Lane" for sale', "list_for_sale"),
    ('Read the text "good night" aloud', "read_aloud"),
    ("get the next job", "get_next_job"),
    ('check in the guest "Ida"', "check_in_guest"),
    ("add a note: water the ferns", "add_note"),
]
"""What is not marked is named, and not run."""

ABOUT_DOING = [
    "How can I draw a card?",
    "tell me how to draw a card",
    "When did you draw a card?",
    "Who drew a card?",
    "Who may list all bookings?",
    "Where would I list the bookings?",
    "Did anybody list all bookings?",
    "May I draw a card?",
    "Which of us should draw a card?",
    "Has a coin been flipped?",
    "Was a card drawn?",
    "we draw a card",
    "I flipped a coin",
    "Is there a way to draw a card?",
    "It is fun to flip a coin",
    "What would happen if you draw a card",
    "drawing a card",
    "How is a password generated?",
    "flipping coins",
    "When can we get 50 cash from the machine?",
    "What time is it in Washington?",
    "what is 0x1f in decimal",
]
"""What orders nothing, or cannot be known: nothing is run."""


@pytest.mark.slow
async def test_of_sixty_requests_no_action_is_wrong_and_one_answer_of_48_at_most(tmp_path: Path) -> None:
    ran: ProviderResult = []
    config = demo_server_config()
    config["mcpServers"]["demo"]["cwd"] = str(tmp_path)
    wrong: list[str] = []
    acted: list[str] = []
    async with Agent(
        OfflineModel(lambda: NOW),
        tools=[FunctionToolset(marked(ran), read_only=True), FunctionToolset(unmarked(ran))],
        mcp_config=config,
        with_tool_search_mode=True,
        options=RunOptions(servers=ServerOptions(startup_seconds=None)),
    ) as agent:
        cases = [(prompt, says, True) for prompt, says in VALUES]
        cases += [(prompt, f"I would call `{name}`", False) for prompt, name in ORDERS]
        cases += [(prompt, "", False) for prompt in ABOUT_DOING]
        assert len(cases) == 60
        for prompt, says, may_run in cases:
            ran.clear()
            session = agent.session()
            said = await session.ask(prompt)
            results = [result for message in session.messages for result in message.tool_results]
            called = [one.name for one in results if one.name not in ("search_tools", "add_tool")]
            if (called and not may_run) or {name for name, _ in ran} & {one.__name__ for one in unmarked(ran)}:
                acted.append(f"{prompt} -> {called}: {said.splitlines()[0]}")
            elif not re.search(says, said):
                wrong.append(f"{prompt} -> {called}: {said.splitlines()[0]}")
    assert acted == []
    assert len(wrong) <= 1, wrong


def _unmarked(name: str, description: str, *strings: str, **numbers: dict[str, Any]) -> ToolDefinition:
    properties = {**dict.fromkeys(strings, STRING), **numbers}
    return ToolDefinition(name, description, {"type": "object", "properties": properties, "required": [*properties]})


PROMISES = [
    (_unmarked("get_weather", "Weather for a city.", "city"), "weather in Oslo"),
    (_unmarked("list_orders", ""), "list the orders"),
    (_unmarked("lamps_left", "How many lamps are left in stock."), "how many lamps are left?"),
    (_unmarked("my_orders", "List my orders."), "list my orders"),
    (_unmarked("add", "Adds two numbers.", a=INTEGER, b=INTEGER), "add 2 and 3"),
    (_unmarked("find_user", "Finds a user and removes it.", "name"), 'find the user "bob"'),
    (_unmarked("convert_points", "Convert loyalty points into a voucher.", points=INTEGER), "convert 500 points"),
    (_unmarked("get_next_job", "Get the next job and mark it as done."), "Get the next job"),
    (_unmarked("get_cash", "Get cash from the machine.", amount=INTEGER), "Get 200 cash from the machine"),
    (_unmarked("count_vote", "Count a vote for a candidate.", "candidate"), 'Count a vote for candidate "Bob"'),
    (_unmarked("compute_payroll", "Compute payroll for a month.", "month"), 'Compute payroll for month "May"'),
    (
        _unmarked("convert_account", "Convert an account to premium.", "user"),
        'Convert account of user "bob" to premium',
    ),
    (_unmarked("find_and_hide_file", "Find a file and hide it.", "name"), 'Find file "a.txt" and hide it'),
    (_unmarked("fetch_and_acknowledge_alarm", "Fetch the alarm."), "Fetch the alarm and acknowledge it"),
    (_unmarked("read_aloud", "Read a text aloud.", "text"), 'Read aloud the text "hello"'),
    (_unmarked("get_married", "Get married to a person.", "name"), 'Get married to the person "bob"'),
    (
        _unmarked("find_and_replace", "Find a word in all files.", "word"),
        'Find and replace "cat" in all files',
    ),
]
"""Tools whose names and descriptions begin with reading verbs, and a request for each."""


@each_row("tool, prompt", PROMISES)
def test_only_a_tool_that_is_marked_so_runs_by_itself_whatever_its_words_promise(
    tool: ToolDefinition, prompt: str
) -> None:
    def asked(read_only: bool | None, server: str | None) -> list[str]:
        offered = (replace(tool, read_only=read_only, server=server),)
        message = answer(ModelRequest("", (user_message(prompt),), offered), NOW)
        assert message.tool_calls or f"I would call `{tool.name}`" in message.text
        return [call.name for call in message.tool_calls]

    for server in (None, "shop"):
        assert [asked(mark, server) for mark in (None, False, True)] == [[], [], [tool.name]]


@each_row(
    "form",
    [
        "Why would we ever {}?",
        "How would I {}?",
        "How can we {}?",
        "When did we {}?",
        "Where do I {}?",
        "Who can {}?",
        "Who told you to {}?",
        "Which of us can {}?",
        "Did we {}?",
        "May I {}?",
        "Should we {}?",
        "Can we {}?",
        "Have we {}?",
        "Is it wise to {}?",
        "Is there a way to {}?",
        "What happens when I {}?",
        "What would it cost to {}?",
        "I wonder whether to {}",
        "Explain how to {}",
        "Tell me how to {}",
        "Could you tell me when to {}?",
        "Imagine you {}",
        "If I asked you to {}, what would happen?",
        "My boss said to {}. Is that right?",
        "Never {}",
        "Write a story in which you {}",
        "Translate to French: {}",
        "Tell me about the time you had to {}",
        "It would be bad to {}",
        "Nobody should {}",
        "Refuse to {}",
        "Pretend to {}",
        "Was it legal to {}?",
        "What does '{}' mean?",
        "He said: {}",
        "I forgot to {}",
        "Remind me not to {}",
        "Please don't {}",
        "I'd rather you didn't {}",
        "Cancel the plan to {}",
    ],
)
def test_a_question_about_doing_runs_nothing_even_what_only_reads(form: str) -> None:
    balance = replace(_unmarked("look_up_balance", "Look up the balance of an account.", "name"), read_only=True)
    cash = replace(_unmarked("get_cash", "Get cash from the machine.", amount=INTEGER), read_only=True)
    for order in ('look up the balance of "Bob"', "get 200 cash from the machine"):
        asked = [
            answer(ModelRequest("", (user_message(said),), (balance, cash)), NOW)
            for said in (order, form.format(order))
        ]
        assert [bool(message.tool_calls) for message in asked] == [True, False]
