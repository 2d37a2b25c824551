"""The parts of a question, which are answered, and what is only an apology."""

from __future__ import annotations

from mcpagent.values.limits.question_parts import is_apology, missing_parts, parts_of
from mcpagent.values.messages import Text, ToolCall, ToolResult
from tests.tables import each_row


@each_row(
    "question, parts",
    [
        ("What time is it in Tokyo?", ("What time is it in Tokyo?",)),
        (
            "What time is it in Tokyo and what is the capital of Peru?",
            ("What time is it in Tokyo", "what is the capital of Peru?"),
        ),
        ("Roll a die, then flip a coin.", ("Roll a die", "flip a coin.")),
        ("Encode hello and then reverse it", ("Encode hello", "reverse it")),
        ("Is 97 prime? What is 12 times 3?", ("Is 97 prime?", "What is 12 times 3?")),
        ("Please do:\n- convert 5 km to miles\n- count the words", ("convert 5 km to miles", "count the words")),
        ("1. Weather in Rome\n2) Weather in Paris", ("Weather in Rome", "Weather in Paris")),
        ("What is the sum of 1 and 2?", ("What is the sum of 1 and 2?",)),
        ("Compare salt and pepper", ("Compare salt and pepper",)),
        ("Thanks!", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_the_parts_of_a_question(question: str, parts: tuple[str, ...]) -> None:
    assert parts_of(question) == parts


def made(name: str, result: str, *, failed: bool = False, **arguments: object) -> tuple[ToolCall, ToolResult]:
    call = ToolCall("c", name, dict(arguments))
    return call, ToolResult("c", name, (Text(result),), error="failed" if failed else None)


def test_a_part_is_missing_until_a_good_result_is_about_it() -> None:
    parts = ("Weather in Rome", "Weather in Paris")
    assert missing_parts(parts, []) == parts
    rome = made("get_weather", "Sunny.", location="Rome")
    assert missing_parts(parts, [rome]) == ("Weather in Paris",)
    failed = made("get_weather", "No such place.", failed=True, location="Paris")
    assert missing_parts(parts, [rome, failed]) == ("Weather in Paris",)
    assert missing_parts(parts, [rome, made("get_weather", "Rain.", location="Paris")]) == ()


def test_names_of_tools_are_words_too() -> None:
    parts = parts_of("Roll a die, then flip a coin.")
    assert missing_parts(parts, [made("roll_dice", "4"), made("flip_coin", "heads")]) == ()
    assert missing_parts(parts, [made("flip_coin", "heads")]) == ("Roll a die",)


@each_row(
    "text, apology",
    [
        ("I'm sorry, but I can't assist with that.", True),
        ("I’m sorry, but I can’t help.", True),
        ("Sorry, something went wrong.", True),
        ("I apologize for the inconvenience.", True),
        ("Unfortunately, I do not have that.", True),
        ("As an AI, I cannot assist with this request.", True),
        ("It is 12:00 in Tokyo.", False),
        ("Rome is sunny. I am not sorry about it.", False),
        ("", False),
        ("I'm sorry " + "x" * 500, False),
    ],
)
def test_what_is_only_an_apology(text: str, apology: bool) -> None:
    assert is_apology(text) is apology
