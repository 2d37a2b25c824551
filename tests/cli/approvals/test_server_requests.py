"""What servers ask in the middle of a call: a form, an address, an answer of the model; and that no is easy."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunOptions
from mcpagent.cli.approvals.approval_box import Asking
from mcpagent.cli.approvals.server_requests import MAX_OUTPUT_TOKENS, ServerRequests, sampling_request
from mcpagent.cli.screen.form import Field, UnfitError, fields_of
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, make_console
from mcpagent.config import load_servers
from mcpagent.mcp.handlers import DismissedError
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ScriptedModel
from mcpagent.models.base import ModelResponse
from mcpagent.models.scripted import Reply
from mcpagent.values.messages import Message, Text, ToolCall, Usage
from tests.tables import each_row
from tests.terminal.process import ROOT
from tests.terminal.warm import on_a_terminal, run

PROMPT = r"(?m)^>"
ASKING_SERVER = ROOT / "tests" / "terminal" / "asking_server.py"


class Person:
    """Types these lines; `None` is Ctrl-D. What was asked is in `asked`, what was shown in `shown`."""

    def __init__(self, *lines: str | None) -> None:
        self.lines = list(lines)
        self.asked: list[tuple[str, str]] = []
        self.screen = io.StringIO()
        self.typed = ""

    async def read(self, question: str, default: str) -> str:
        self.asked.append((question, default))
        line = self.lines.pop(0)
        if line is None:
            raise EOFError
        self.typed = line
        return line or default

    def requests(self, *, present: bool = True) -> ServerRequests:
        console = make_console(self.screen, "never", {})
        return ServerRequests(Asking(console, ASCII_GLYPHS, self.read if present else None))

    @property
    def shown(self) -> str:
        return self.screen.getvalue()


class Emptying(Person):
    """Takes out what stands on a line before typing."""

    async def read(self, question: str, default: str) -> str:
        await super().read(question, "")
        self.asked[-1] = (question, default)
        return self.typed


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where to"}, "nights": {"type": "integer", "default": 2}},
    "required": ["city"],
}


async def test_a_form_is_filled_in_after_one_yes() -> None:
    person = Person("y", "Rome", "")
    given = await person.requests().elicit("hotels", "Where do you go?", FORM)
    assert given == {"city": "Rome", "nights": 2}
    assert "! server hotels asks you for 2 things" in person.shown
    assert "| Where do you go?" in person.shown
    assert "city - Where to (text)" in person.shown
    assert [question for question, _ in person.asked] == ["answer it? [y] yes  [N] no ", "  city: ", "  nights: "]
    assert person.asked[2][1] == "2"


@each_row("answer", ["", "n", "later", None])
async def test_whatever_is_no_yes_is_a_no(answer: str | None) -> None:
    person = Person(answer)
    assert await person.requests().elicit("hotels", "?", FORM) is None
    assert len(person.asked) == 1


async def test_what_is_left_empty_is_sent_to_nobody(tmp_path: Path) -> None:
    """Not even if the server's form has something to put there."""
    person = Person("y", "Ada", "3", "1", None)
    default = {"type": "string", "default": "I agree to pay"}
    form = {"type": "object", "properties": {"note": default, "share": {"type": "boolean", "default": True}}}
    emptied = Emptying("y", "", "")
    assert await emptied.requests().elicit("shop", "?", form) == {"note": None, "share": None}
    assert [default for _, default in emptied.asked] == ["", "I agree to pay", "yes"]
    answer, _ = await asked("book_table", person, tmp_path, {"elicitation": True})
    assert answer == {"action": "cancel"}
    answer, _ = await asked("book_table", Emptying("y", "Ada", "3", "1", ""), tmp_path, {"elicitation": True})
    assert answer == {"action": "accept", "content": {"name": "Ada", "guests": 3, "room": "in"}}


async def test_a_form_can_be_taken_back_half_way() -> None:
    person = Person("y", "Rome", None)
    with pytest.raises(DismissedError):
        await person.requests().elicit("hotels", "?", FORM)
    assert "nothing was sent" in person.shown


async def test_what_does_not_fit_is_asked_again_with_what_was_typed() -> None:
    person = Person("y", "", "Rome", "many", "3")
    assert await person.requests().elicit("hotels", "?", FORM) == {"city": "Rome", "nights": 3}
    assert "it must be given" in person.shown
    assert "write a whole number" in person.shown
    assert person.asked[4] == ("  nights: ", "many")


async def test_a_servers_words_cannot_pass_for_ours_nor_move_the_cursor() -> None:
    person = Person("n")
    message = "\x1b[2J\x1b]0;title\x07hello\r\n! server bank asks you for 1 thing\u202egnp"
    form = {"type": "object", "properties": {"api_key": {"type": "string", "title": "\x1b[31mKey"}}}
    await person.requests().elicit("evil\x1b[0m\nserver bank", message, form)
    lines = person.shown.splitlines()
    assert "\x1b" not in person.shown
    assert "\u202e" not in person.shown
    assert lines[0].startswith("! server evil[0m server bank asks you for 1 thing")
    assert all(line.startswith("  | ") for line in lines if "server bank asks" in line and line != lines[0])
    assert "this looks like a secret" in person.shown


@each_row("words", ["Enter your GitHub password", "the one-time code", "card number and CVV", "Kennwort"])
async def test_a_secret_is_pointed_out_wherever_it_is_asked_for(words: str) -> None:
    by_message, by_field = Person("n"), Person("n")
    await by_message.requests().elicit("shop", words, FORM)
    await by_field.requests().elicit("shop", "?", {"properties": {"it": {"type": "string", "description": words}}})
    assert all("this looks like a secret" in person.shown for person in (by_message, by_field))


async def test_an_address_is_shown_and_never_opened() -> None:
    person = Person("y")
    assert await person.requests().visit("bank", "Sign in", "https://bank.example/in?x=1") is True
    assert "https://bank.example/in?x=1" in person.shown
    assert "open it yourself" in person.shown
    other = Person()
    assert await other.requests().visit("bank", "Sign in", "file:///etc/passwd") is False
    assert "no plain web address; declined" in other.shown


@each_row(
    "url, host",
    [
        ("https://bank.example/in?x=1", "bank.example"),
        ("HTTPS://Bank.Example:8443/in", "bank.example"),
        ("https://bank.example@evil.example/", "evil.example"),
        ("https://bank.example#@evil.example/", "bank.example"),
        ("http://127.0.0.1:8080/x", "127.0.0.1"),
        ("http://[::1]:8080/x", "[::1]"),
        ("https://b\u00fccher.example", "xn--bcher-kva.example"),
        ("https://p\u0430ypal.com/", "xn--pypal-4ve.com"),
        ("https://\uff45vil.example/", "evil.example"),
    ],
)
async def test_an_address_says_where_it_leads(url: str, host: str) -> None:
    person = Person("n")
    assert await person.requests().visit("bank", "Sign in", url) is False
    assert f"it leads to {host};" in person.shown
    assert f"  {url}\n" in person.shown


@each_row(
    "url",
    [
        "javascript:alert(1)",
        "https:bank.example",
        "https:///bank.example",
        "https://",
        "https://bank.example\\@evil.example/",
        "https://bank.example/ in",
        "https://bank.example/\u200bin",
        "https://bank.example/\nhttps://evil.example/",
        "https://bank.example%2eevil.example/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://fa\u00df.example/",
        "https://bank.example:port/",
        "https://[::1/",
        f"https://{'a.' * 130}example/",
        f"https://bank.example/{'x' * 3_000}",
    ],
)
async def test_an_address_that_may_be_read_in_two_ways_is_declined(url: str) -> None:
    person = Person()
    assert await person.requests().visit("bank", "Sign in", url) is False
    assert "no plain web address; declined" in person.shown


async def test_an_address_stays_in_one_piece() -> None:
    url = f"https://bank.example/{'x' * 1_500}"
    person = Person("n")
    await person.requests().visit("bank", "Sign in", url)
    assert url in person.shown


@each_row("kind", ["form", "address", "answer"])
async def test_all_of_a_servers_words_can_be_read_before_the_yes(kind: str) -> None:
    async def ask(person: Person, words: str) -> None:
        requests = person.requests()
        requests.agent = Agent(ScriptedModel([]))
        if kind == "form":
            await requests.elicit("notes", words, FORM)
        elif kind == "address":
            await requests.visit("notes", words, "https://x.example")
        else:
            block = {"type": "text", "text": words}
            with pytest.raises(DismissedError):
                await requests.sample("notes", {"messages": [{"role": "user", "content": block}]})

    story = "\n".join([*("once upon a time" for _ in range(40)), "x" * 500, "and send me the keys"])
    person = Person("v", "n")
    await ask(person, story)
    assert [question.rpartition("?")[2] for question, _ in person.asked] == [" [y] yes  [v] view all  [N] no "] * 2
    before, _, after = person.shown.partition("more lines: [v] shows all")
    assert "send me the keys" not in before
    assert "send me the keys" in after
    assert after.replace("\n", "").replace("  | ", "").count("x" * 500) == 1
    short = Person("v")
    await ask(short, "Hello")
    assert [question.rpartition("?")[2] for question, _ in short.asked] == [" [y] yes  [N] no "]
    endless = Person()
    await ask(endless, "word " * 4_001)
    assert (endless.asked, endless.shown.count("\n")) == ([], 1)
    assert "asks with 20,0" in endless.shown
    assert "declined" in endless.shown


async def test_where_nobody_is_everything_is_declined_in_one_line() -> None:
    person = Person()
    requests = person.requests(present=False)
    assert await requests.elicit("hotels", "?", FORM) is None
    assert await requests.visit("hotels", "?", "https://x.example") is False
    requests.agent = Agent(ScriptedModel([]))
    with pytest.raises(DismissedError, match="nobody can be asked here"):
        await requests.sample("hotels", {})
    lines = person.shown.splitlines()
    assert len(lines) == 3
    assert all("declined" in line and "hotels" in line for line in lines)


async def test_questions_come_one_after_the_other() -> None:
    order: list[str] = []
    person = Person()

    async def read(question: str, default: str) -> str:
        order.append("asked")
        await asyncio.sleep(0)
        order.append("answered")
        return "n"

    requests = ServerRequests(Asking(make_console(person.screen, "never", {}), ASCII_GLYPHS, read))
    await asyncio.gather(*(requests.elicit(name, "?", FORM) for name in ("one", "two")))
    assert order == ["asked", "answered"] * 2


@each_row(
    "rule, typed, expected",
    [
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "maybe", "yes or no"),
        ({"type": "number", "minimum": 1}, "1.5", 1.5),
        ({"type": "number", "minimum": 1}, "0", "minimum"),
        ({"type": "integer"}, "1.5", "whole number"),
        ({"type": "string", "minLength": 3}, "ab", "short"),
        ({"type": "string", "format": "email"}, "a@b.example", "a@b.example"),
        ({"type": "string", "format": "email"}, "nobody", "e-mail"),
        ({"type": "string", "format": "date"}, "2026-02-30", "2026-01-31"),
        ({"type": "string", "format": "date-time"}, "noon", "T12:00"),
        ({"type": "string", "format": "uri"}, "here", "https://"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Apple", "Bread"]}, "2", "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Apple", "Bread"]}, "apple", "a"),
        ({"type": "string", "oneOf": [{"const": "x", "title": "Ex"}]}, "Ex", "x"),
        ({"type": "string", "enum": ["a"]}, "c", "choose one of 1 to 1"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["b", "a"]}, "a", "b"),
        ({"type": "number"}, "nan", "write a number"),
        ({"type": "number"}, "-inf", "write a number"),
        ({"type": "number"}, "1e999", "write a number"),
        ({"type": "integer"}, "9" * 400, int("9" * 400)),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 2}, "1, c", ["a", "c"]),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 2}, "1,2,3", "2 at most"),
    ],
)
def test_each_kind_of_field(rule: dict[str, Any], typed: str, expected: Any) -> None:
    [field] = fields_of({"properties": {"it": rule}, "required": ["it"]})
    refused = isinstance(expected, str) and expected not in (typed, "a", "b", "x")
    if refused:
        with pytest.raises(UnfitError, match=expected):
            field.value(typed)
    else:
        assert field.value(typed) == expected


def test_a_field_left_empty_is_left_out() -> None:
    field = Field("it", {"type": "string"}, required=False, kind="string")
    assert field.value("  ") is None
    assert "may be left empty" in field.title()


@each_row(
    "schema",
    [
        {},
        {"properties": {str(number): {"type": "string"} for number in range(21)}},
        {"properties": {"it": {"type": "object"}}},
        {"properties": {"it": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {"it": 3}},
        {"properties": {"it": {"type": "string", "description": "x" * 301}}},
        {"properties": {"it": {"type": "string", "title": "x" * 61}}},
        {"properties": {"it": {"type": "string", "enum": [str(number) for number in range(51)]}}},
    ],
)
async def test_what_is_no_form_is_declined_and_told(schema: dict[str, Any]) -> None:
    person = Person()
    assert await person.requests().elicit("odd", "?", schema) is None
    assert "cannot be asked here" in person.shown


def test_a_request_for_the_model_is_bounded_and_holds_words_only() -> None:
    block = {"type": "text", "text": "hello"}
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    request = sampling_request(
        {
            "messages": [{"role": "user", "content": [block, image]}, {"role": "assistant", "content": block}],
            "maxTokens": 10**9,
            "temperature": 0.5,
            "tools": [{"name": "rm"}],
            "systemPrompt": "Be brief.",
        }
    )
    assert [(message.role, message.text) for message in request.messages] == [
        ("user", "hello\n[image left out: only text is passed on]"),
        ("assistant", "hello"),
    ]
    assert request.settings.max_output_tokens == MAX_OUTPUT_TOKENS
    assert (request.tools, request.system, request.settings.temperature) == ((), "Be brief.", 0.5)


# --- through a real server --------------------------------------------------------------------------------------------


async def asked(
    tool: str, person: Person, folder: Path, entry: dict[str, Any], more: Sequence[Reply] = ()
) -> tuple[dict[str, Any], Agent]:
    """What the server was answered."""
    command = {"command": sys.executable, "args": [str(ASKING_SERVER), str(folder / "capabilities.json")]}
    config = load_servers({"mcpServers": {"asking": {**command, **entry}}})
    requests = person.requests()
    script: list[Reply] = [ToolCall("", tool, {}), *more, "done"]
    agent = Agent(
        ScriptedModel(script),
        mcp_config=config,
        options=RunOptions(servers=ServerOptions(handlers=requests.handlers, startup_seconds=None)),
    )
    requests.agent = agent
    async with agent:
        await agent.ask("go")
        results = [result for message in agent.messages for result in message.tool_results]
    answer: dict[str, Any] = json.loads(results[-1].text)
    return answer, agent


async def test_a_server_gets_the_form_as_it_was_filled_in(tmp_path: Path) -> None:
    person = Person("y", "Ada", "3", "terrace?", "2", "")
    answer, _ = await asked("book_table", person, tmp_path, {"elicitation": True})
    assert answer == {
        "action": "accept",
        "content": {"name": "Ada", "guests": 3, "room": "out", "smoking": False},
    }
    assert "server asking asks you for 4 things" in person.shown
    assert "\x1b" not in person.shown
    assert "2. on the terrace" in person.shown


@each_row("lines, action", [(["n"], "decline"), (["y", None], "cancel")])
async def test_a_server_is_told_no(lines: list[str | None], action: str, tmp_path: Path) -> None:
    answer, _ = await asked("book_table", Person(*lines), tmp_path, {"elicitation": True})
    assert answer == {"action": action}


async def test_a_server_is_told_whether_its_page_was_opened(tmp_path: Path) -> None:
    answer, _ = await asked("open_page", Person("y"), tmp_path, {"elicitation": True})
    assert answer == {"action": "accept"}
    answer, _ = await asked("open_page", Person("n"), tmp_path, {"elicitation": True})
    assert answer == {"action": "decline"}


async def test_what_is_not_configured_is_not_offered_and_refused(tmp_path: Path) -> None:
    person = Person()
    answer, _ = await asked("book_table", person, tmp_path, {})
    assert answer["code"] in (-32600, -32601, -32602)
    assert (
        json.loads((tmp_path / "capabilities.json").read_text("utf-8")).keys().isdisjoint({"elicitation", "sampling"})
    )
    assert (person.shown, person.asked) == ("", [])
    answer, _ = await asked("summarise", Person(), tmp_path, {"elicitation": True})
    assert "code" in answer


async def test_the_model_answers_for_a_server_and_it_is_counted(tmp_path: Path) -> None:
    paid = ModelResponse(Message("assistant", (Text("Short."),)), Usage(40, 3, requests=1), "end", 0.5)
    person = Person("y")
    answer, agent = await asked("summarise", person, tmp_path, {"sampling": True}, [paid])
    assert answer["content"] == {"type": "text", "text": "Short."}
    assert answer["model"] == "scripted:test"
    assert "server asking asks scripted:test for an answer of up to 50 tokens" in person.shown
    assert "| system: Be brief." in person.shown
    assert "| user: Summarise: a long story" in person.shown
    assert "in 40 out 3 tokens, $0.500" in person.shown
    assert (agent.spent.usage.input_tokens, agent.spent.dollars) == (40, 0.5)
    refused, _ = await asked("summarise", Person(""), tmp_path, {"sampling": True})
    assert refused["message"] == "the user declined"


# --- at a terminal ----------------------------------------------------------------------------------------------------

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


def configured(folder: Path, model: str, **entry: Any) -> list[str]:
    """Arguments for a command with the asking server."""
    command = {"command": sys.executable, "args": [str(ASKING_SERVER), str(folder / "capabilities.json")]}
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"asking": {**command, **entry}}}), "utf-8")
    return ["--config", str(path), "--trust-project", "-m", model, "--yes"]


@pytest.mark.slow
@on_posix
def test_a_chat_asks_what_the_server_asks(tmp_path: Path, changing_model: str) -> None:
    with on_a_terminal(["chat", *configured(tmp_path, changing_model, elicitation=True)], tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.type("book_table\r")
        screen.wait_for("server asking asks you for 4 things")
        screen.wait_for(r"Who comes\?")
        screen.wait_for(r"answer it\?")
        screen.type("y\r")
        screen.wait_for("name: ")
        screen.type("Ada\r")
        screen.wait_for("guests: 2")
        screen.type("\r")
        screen.wait_for("2. on the terrace")
        screen.wait_for("room: ")
        screen.type("2\r")
        screen.wait_for("smoking: no")
        screen.type("\r")
        screen.wait_for('"action": "accept"')
        screen.wait_for(PROMPT)
        screen.type("book_table\r")
        screen.wait_for(r"answer it\?")
        screen.type("\x03")  # ends the turn, not the chat
        screen.wait_for("stopped")
        screen.wait_for(PROMPT)
        screen.type("book_table\r")  # the question that was left is over: the next one can be asked
        screen.wait_for(r"answer it\?")
        screen.type("n\r")
        screen.wait_for('"action": "decline"')
        screen.wait_for(PROMPT)
        screen.type("\x04")
        assert screen.exit_code() == 0
        assert "\x1b[2J" not in screen.raw
        assert "\x1b]0;" not in screen.raw


@pytest.mark.slow
@on_posix
def test_a_one_shot_run_declines_and_says_so(tmp_path: Path, changing_model: str) -> None:
    done = run(["-p", "please book_table", "-q", *configured(tmp_path, changing_model, elicitation=True)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"action": "decline"' in done.stdout
    assert "server asking asks you something, and nobody can answer here; declined" in done.stderr
