"""`--system`, `--instruction` and `--append-system`: what the model is sent as its instructions."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from mcpagent import ScriptedModel
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, Terminal, make_console
from mcpagent.errors import InputError
from mcpagent.prompt.builder import built_in_instructions


def system_sent(tmp_path: Path, **changes: Any) -> str:
    model = ScriptedModel(["answer"])
    console = make_console(io.StringIO(), "never", {})
    environ = {"MCPAGENT_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    servers = tmp_path / "mcp_servers.json"
    servers.write_text('{"mcpServers": {}}', "utf-8")
    options = Options(environ=environ, folder=tmp_path, config=(servers,), **changes)
    ask_once(options, "question", Terminal(console, console, ASCII_GLYPHS), model=model)
    return model.requests[0].system


def test_the_instructions_are_those_that_were_chosen(tmp_path: Path) -> None:
    file = tmp_path / "instruction.md"
    file.write_text("Answer in one word.\n", "utf-8")
    card = tmp_path / "brief.md"
    card.write_text("---\nname: brief\nmodel: offline\n---\nSay as little as you can.\n", "utf-8")
    built_in = built_in_instructions()
    for changes, opening in (
        ({}, built_in),
        ({"system": "Be brief."}, "Be brief."),
        ({"instruction": file}, "Answer in one word."),
        ({"append_system": "In French."}, f"{built_in}\n\nIn French."),
        ({"system": "Be brief.", "append_system": "In French."}, "Be brief.\n\nIn French."),
        ({"card": card}, "Say as little as you can."),
        ({"card": card, "append_system": "In French."}, "Say as little as you can.\n\nIn French."),
        ({"card": card, "system": "Be brief."}, "Be brief."),
    ):
        sent = system_sent(tmp_path, **changes)
        assert sent == opening or sent.startswith(f"{opening}\n\n"), (changes, sent)


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'^no file ".*nothing.md"; --instruction names a text file$'):
        system_sent(tmp_path, instruction=tmp_path / "nothing.md")
    with pytest.raises(InputError, match="--system and --instruction both set the instructions; write one of them"):
        system_sent(tmp_path, instruction=tmp_path / "nothing.md", system="Be brief.")
