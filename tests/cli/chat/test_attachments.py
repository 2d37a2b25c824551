"""What a question takes along: files, images, resources, and the prompts of servers."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from mcpagent import Agent, RunOptions
from mcpagent.cli.chat.attachments import left_as_words, marks, named_prompt, server_prompt, with_attachments
from mcpagent.cli.chat.completions import ChatCompleter, Words
from mcpagent.config import ServerConfig
from mcpagent.errors import InputError
from mcpagent.history.intake.files import read_file
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ScriptedModel
from mcpagent.utilities.text.for_model import fenced
from mcpagent.values import messages
from mcpagent.values.messages import Audio, Image, Text
from tests.made_files import pdf, wav
from tests.mcp.lists.test_shown_tools import FORGED
from tests.mcp.lists.test_shown_tools import SERVER as SMUGGLER
from tests.tables import each_row
from tests.terminal.process import SMALL_SERVER
from tests.utilities.text.test_for_model import taken_apart

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    server = ServerConfig("small", command=sys.executable, args=[str(SMALL_SERVER), "offers"])
    async with Agent(
        ScriptedModel(["seen"]), mcp_config=[server], options=RunOptions(servers=ServerOptions(startup_seconds=None))
    ) as agent:
        yield agent


@each_row(
    "line, found",
    [
        ("look at @a.txt", ["a.txt"]),
        ("@\"two words.txt\" and @'other file'", ["two words.txt", "other file"]),
        (r"@two\ words.txt", ["two words.txt"]),
        ("@a.txt @a.txt", ["a.txt"]),
        ("write to me@example.org", []),
        ("an @ alone", []),
        ("@files:note://today please", ["files:note://today"]),
    ],
)
def test_an_at_sign_at_the_start_of_a_word_names_something(line: str, found: list[str]) -> None:
    assert marks(line) == found


@given(st.text(max_size=200))
def test_any_line_can_be_looked_through(line: str) -> None:
    assert all(mark for mark in marks(line))


async def test_a_file_is_added_to_the_question_in_a_fence(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n", "utf-8")
    (tmp_path / "two words.md").write_text("has ``` inside", "utf-8")
    prompt, told = await with_attachments('compare @a.txt, @"two words.md".', agent, tmp_path)
    assert prompt == (
        'compare @a.txt, @"two words.md".\n\na.txt:\n```\nhello\n```\n\ntwo words.md:\n````\nhas ``` inside\n````'
    )
    assert told == ["a.txt  5 characters", "two words.md  14 characters"]


async def test_an_image_goes_as_an_image(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    prompt, told = await with_attachments("what is @dot.png", agent, tmp_path)
    assert prompt == [Text("what is @dot.png"), Image("image/png", base64.b64encode(PNG).decode())]
    assert told == ["dot.png  1 image"]
    assert await agent.ask(prompt) == "seen"
    model = agent._runtime.model
    assert isinstance(model, ScriptedModel)
    assert model.requests[0].messages[-1].parts == tuple(prompt)


async def test_a_pdf_and_a_recording_go_as_files(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf())
    (tmp_path / "a.wav").write_bytes(wav())
    prompt, told = await with_attachments("summarise @report.pdf and @a.wav.", agent, tmp_path)
    assert prompt == [
        Text("summarise @report.pdf and @a.wav."),
        messages.Document("application/pdf", base64.b64encode(pdf()).decode(), "report.pdf"),
        Audio("audio/wav", base64.b64encode(wav()).decode(), "a.wav"),
    ]
    assert told == ["report.pdf  1 document", "a.wav  1 audio"]


async def test_what_cannot_be_added_is_said_and_nothing_is_asked(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(b"\0\1\2")
    (tmp_path / "big.txt").write_bytes(b"x" * 1_000_001)
    (tmp_path / "sub").mkdir()
    for name, words in {
        "b.bin": "binary file",
        "big.txt": "larger than 1 MB",
        "sub": "is a folder",
        "./missing.txt": "no file",
        "small:note://never": "no",
    }.items():
        with pytest.raises(InputError, match=words):
            await with_attachments(f"see @{name}", agent, tmp_path)
    assert await with_attachments("ask @someone about it", agent, tmp_path) == ("ask @someone about it", [])


async def test_what_is_no_file_is_told_though_it_is_sent(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello", "utf-8")
    assert left_as_words("@a.txt, and @small:note://never are taken along", agent, tmp_path) == ""
    assert left_as_words("@nofile.txt hi", agent, tmp_path) == "no such file: @nofile.txt; sent as typed"
    assert left_as_words("@b @a.txt @c @none:x @\x1b[2J @e", agent, tmp_path) == (
        "no such file: @b, @c, @none:x and 2 more; sent as typed"
    )
    assert "\x1b" not in left_as_words("@\x1b[2J", agent, tmp_path)


async def test_a_large_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG[:8] + b"\0" * 80_000_000)
    with pytest.raises(InputError, match="larger than 80 MB"):
        read_file(path)


async def test_resources_of_servers_come_along(agent: Agent, tmp_path: Path) -> None:
    prompt, told = await with_attachments("see @small:note://today and @small:picture://dot", agent, tmp_path)
    assert isinstance(prompt, list)
    words, picture = prompt
    assert isinstance(words, Text)
    assert "water the plants" in words.text
    assert isinstance(picture, Image)
    assert told[0].startswith("small:note://today  ")
    assert told[1] == "small:picture://dot  1 image"


async def test_a_servers_prompt_is_a_command_with_arguments(agent: Agent) -> None:
    assert named_prompt("/small:review text=x", agent.servers) == ("small", "review", "text=x")
    assert named_prompt("/other:review", agent.servers) is None
    assert named_prompt("see /small:review", agent.servers) is None
    [words] = await server_prompt(agent, "small", "review", 'text="two words" tone=kind')
    assert isinstance(words, Text)
    assert words.text == "What is the weather in Tokyo? prompt review text=two words tone=kind"
    [plain] = await server_prompt(agent, "small", "greeting", "")
    assert isinstance(plain, Text)
    for name, typed, problem in [
        ("review", "", "needs text"),
        ("review", "a b", "write text=... tone=..."),
        ("review", "text=x other=y", 'no argument "other"; it takes text, tone'),
        ("greeting", "x", "takes no arguments"),
        ("revew", "x", 'no prompt "revew"; did you mean review'),
        ("review", 'text="open', "check the quotes"),
    ]:
        with pytest.raises(InputError, match=problem):
            await server_prompt(agent, "small", name, typed)


@each_row("text", [*FORGED, "one line", "two\nlines", "```\ncode\n```\nand words"])
async def test_a_servers_prompt_is_its_words_alone_and_set_apart_beside_others(text: str, tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text(json.dumps(text), "utf-8")
    server = ServerConfig("odd", command=sys.executable, args=[str(SMUGGLER), str(tmp_path / "text.json")])
    options = ServerOptions(startup_seconds=None)
    async with Agent(ScriptedModel([]), mcp_config=[server], options=RunOptions(servers=options)) as agent:
        [words] = await server_prompt(agent, "odd", "mine", "")
        assert words == Text(text)
        [apart] = await server_prompt(agent, "odd", "mine", "", alone=False)
        assert isinstance(apart, Text)
        assert apart.text == fenced(text, "Prompt mine of the server odd")
        prompt, _ = await with_attachments("see @odd:notes://plain now", agent, tmp_path)
    assert isinstance(prompt, str)
    block = prompt.removeprefix("see @odd:notes://plain now\n\nodd:notes://plain:\n")
    assert taken_apart(f"{block}\nours")[1] == "ours"


async def test_what_hides_in_a_file_or_a_resource_stays_there_and_the_typed_line_is_as_it_was_typed(
    tmp_path: Path,
) -> None:
    (tmp_path / "text.json").write_text(json.dumps("re\u200bsource"), "utf-8")
    (tmp_path / "rules.md").write_text("ru\u200bles\U000e0041 \u202e👩\u200d💻", "utf-8")
    server = ServerConfig("odd", command=sys.executable, args=[str(SMUGGLER), str(tmp_path / "text.json")])
    options = ServerOptions(startup_seconds=None)
    async with Agent(ScriptedModel([]), mcp_config=[server], options=RunOptions(servers=options)) as agent:
        prompt, _ = await with_attachments("my\u200b words @rules.md @odd:notes://plain", agent, tmp_path)
    assert isinstance(prompt, str)
    assert prompt.startswith("my\u200b words @rules.md @odd:notes://plain\n\nrules.md:\n```\nrules 👩\u200d💻\n```\n\n")
    assert "\nresource\n" in prompt


# --- completion -------------------------------------------------------------------------------------------------------


def offered(line: str, folder: Path) -> list[str]:
    words = Words(
        folder,
        commands=[("/tools", "the tools"), ("/tool", "one tool"), ("/mcp", "servers")],
        values={"/mcp": ("on", "off"), "/export": ("md", "html")},
        tools=["get_weather", "fail_\x1b[31malways"],
        servers=["small"],
        prompts=[("small:review", "Review\x1b]0;x\x07 a text")],
        arguments={"small:review": ("text", "tone")},
        resources=[("small:note://today", "today")],
    )
    document = Document(line)
    return [
        f"{line[: len(line) + item.start_position]}{item.text}"
        for item in ChatCompleter(lambda: words).get_completions(document, CompleteEvent())
    ]


def test_tab_completes_commands_tools_servers_prompts_and_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "two words.txt").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.txt").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "evil\x1b[31m.txt").touch()
    assert offered("/to", tmp_path) == ["/tools", "/tool"]
    assert offered("/tool wea", tmp_path) == ["/tool get_weather"]
    assert offered("/why not get", tmp_path) == ["/why not get_weather"]
    assert offered("/mcp o", tmp_path) == ["/mcp on", "/mcp off"]
    assert offered("/mcp off s", tmp_path) == ["/mcp off small"]
    assert offered("/export h", tmp_path) == ["/export html"]
    assert offered("/rev", tmp_path) == ["/small:review"]
    assert offered("/small:review text=x t", tmp_path) == ["/small:review text=x tone="]
    assert offered("see @", tmp_path) == [
        "see @sub/",
        "see @notes.txt",
        'see @"two words.txt"',
        "see @small:",
    ]
    assert offered("see @sub/i", tmp_path) == ["see @sub/inner.txt"]
    assert offered('see @"two', tmp_path) == ['see @"two words.txt"']
    assert offered("see @.h", tmp_path) == ["see @.hidden"]
    assert offered("see @small:no", tmp_path) == ["see @small:note://today"]
    assert offered("mail me@", tmp_path) == []
    assert offered("what is /to", tmp_path) == []
