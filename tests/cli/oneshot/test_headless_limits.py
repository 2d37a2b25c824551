"""What one answer may cost, what it did cost, and answers that have to fit a JSON Schema."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from mcpagent.cli.app import run as run_command_line
from mcpagent.cli.chat.status_line import Status, status_line
from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.number_formats import money
from mcpagent.cli.common.options import Options, command
from mcpagent.cli.oneshot.agent_options import make_agent
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.oneshot.prompts import answer_schema
from mcpagent.cli.screen.lines import usage_line
from mcpagent.cli.screen.terminal import Glyphs, Terminal, make_console
from mcpagent.config import ServersConfig
from mcpagent.errors import ConfigError, OutputError
from mcpagent.models import ScriptedModel
from mcpagent.models.base import Model, ModelResponse
from mcpagent.values.events import RunFinished
from mcpagent.values.limits.run_limits import MOST_TURNS, Limits
from mcpagent.values.messages import Message, Spent, Text, ToolCall, Usage
from tests.cli.event_schema import DOCUMENTS
from tests.tables import each_row
from tests.terminal.process import SMALL_SERVER, environment, server_option
from tests.terminal.warm import run
from tests.values.limits.endless import Endless

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX pipes")

WEATHER = Message("assistant", (ToolCall("1", "get_weather", {"city": "Rome"}),))


def priced(message: Message, tokens: int, dollars: float | None) -> ModelResponse:
    stop: Any = "tool_calls" if message.tool_calls else "end"
    return ModelResponse(message, Usage(tokens - 1, 1, requests=1), stop, dollars)


def words(text: str) -> Message:
    return Message("assistant", (Text(text),))


def ask(tmp_path: Path, model: Model, **changes: Any) -> tuple[int, str]:
    err = io.StringIO()
    silent = make_console(io.StringIO(), "auto", {})
    chosen = Options(
        server=(f"small='{sys.executable}' '{SMALL_SERVER}' good",),
        environ={"MCPAGENT_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        folder=tmp_path,
    )
    terminal = Terminal(silent, make_console(err, "auto", {}), Glyphs())
    return ask_once(replace(chosen, **changes), "question", terminal, model=model), err.getvalue()


# --- limits -----------------------------------------------------------------------------------------------------------


UNKNOWN = "the price of this model, or of a tool that its provider ran, is not known"


@each_row(
    "limit, dollars, said",
    [
        ({"max_tokens": 100}, 0.1, "stopped after 100 tokens without an answer (--set max_tokens=100)"),
        ({"max_cost": 0.1}, 0.1, "stopped after $0.1000 without an answer (--max-cost 0.1)"),
        ({"max_cost": 0.0}, 0.1, "stopped after $0.1000 without an answer (--max-cost 0)"),
        ({"max_cost": 9.0}, None, f"stopped without an answer: {UNKNOWN}, so a limit of dollars cannot be kept"),
        (
            {"max_calls": 1},
            0.1,
            "stopped after 1 tool call (--set max_calls=1); the answer is what the model knew by then",
        ),
        ({"max_turns": 1}, 0.1, "stopped after 1 turn (--max-turns 1); the answer is what the model knew by then"),
    ],
)
def test_a_limit_ends_the_run_with_what_there_is(
    limit: dict[str, float], dollars: float | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked_for_more = limit.keys() & {"max_calls", "max_turns"}
    again = [priced(WEATHER, 100, dollars)] if "max_calls" in limit else []
    for output in ("json", "stream-json", "text"):
        model = ScriptedModel([priced(WEATHER, 100, dollars), *again, words("18 degrees, I think")])
        code, told = ask(tmp_path, model, output=output, approve="all", **limit)
        assert code == 7
        assert said in told
        out = capsys.readouterr().out
        if output == "text":
            assert out == ("18 degrees, I think\n" if asked_for_more else "")
            continue
        *_, document = (json.loads(line) for line in out.splitlines())
        assert (document["result"], document["is_error"]) == ("18 degrees, I think" if asked_for_more else "", True)
        assert sum(document["usage"][kind] for kind in ("input_tokens", "output_tokens")) == 100 * (1 + len(again))
        assert document["stop_reason"] in {"max_turns", "max_tool_calls", "max_tokens", "max_dollars"}
        if output == "stream-json":
            [reached] = [item for item in map(json.loads, out.splitlines()) if item["type"] == "limit_reached"]
            assert f"max_{reached['limit']}" == document["stop_reason"]
            assert (reached["scope"], reached["used"] is None) == ("run", dollars is None)


def test_an_answer_that_takes_too_long_is_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for output in ("text", "json"):
        code, told = ask(
            tmp_path, Endless(hangs_at=2, tool="get_weather"), output=output, approve="all", max_seconds=0.5
        )
        assert code == 7
        assert "seconds (--set max_seconds=0.5); the answer is what the model knew by then" in told
        out = capsys.readouterr().out
        if output == "text":
            assert out == "step 1\nstep 2\n"
        else:
            assert json.loads(out)["result"] == "step 2"
        assert output == "text" or json.loads(out)["stop_reason"] == "max_seconds"


def test_the_flags_make_one_value(tmp_path: Path) -> None:
    options = Options(max_turns=5, max_calls=4, max_tokens=3, max_cost=0.0, max_seconds=1.5, model="offline")
    assert (Options().max_turns, Limits().of_run().turns) == (None, MOST_TURNS)
    agent = make_agent(options, Configuration(ServersConfig()), print)
    assert agent._runtime.definition.options.limits == Limits(5, 4, 3, sys.float_info.min, 1.5)
    assert agent._runtime.definition.options.session_limits == Limits()


NAMES = ("max_turns", "large_result_tokens")


@each_row(
    "arguments, environ, settings, expected",
    [
        ([], {}, {}, (None, None)),
        (["--max-turns", "100", "--set", "large_result_tokens=10000"], {}, {}, (100, 10_000)),
        ([], {"MCPAGENT_MAX_TURNS": "100", "MCPAGENT_LARGE_RESULT_TOKENS": "10000"}, {}, (100, 10_000)),
        ([], {}, {"max_turns": 100, "large_result_tokens": 10_000}, (100, 10_000)),
    ],
)
def test_a_limit_that_somebody_names_is_named_also_if_it_is_the_usual_one(
    arguments: list[str],
    environ: dict[str, str],
    settings: dict[str, int],
    expected: tuple[int | None, int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Options] = []
    app = typer.Typer()

    @command(app, "look", NAMES)
    def look(options: Options) -> int:
        found.append(options)
        return 0

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    typer.main.get_command(app)(arguments, standalone_mode=False, default_map=settings)
    assert [(options.max_turns, options.large_result_tokens) for options in found] == [expected]


def test_an_answer_within_its_limits_is_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel([priced(WEATHER, 100, 0.25), priced(words("it is warm"), 100, 0.5)])
    code, _ = ask(tmp_path, model, max_tokens=101, max_cost=0.3, output="json", allow=("*",))
    document = json.loads(capsys.readouterr().out)
    assert (code, document["result"]) == (0, "it is warm")
    assert (document["cost_usd"], document["cost_known"]) == (0.75, True)


@each_row(
    "flag, value, said",
    [
        ("--timeout", "nan", "less than or equal to 1000000000000"),
        ("--max-cost", "nan", "less than or equal to 1000000000000"),
        ("--timeout", "0.05", "greater than or equal to 0.1"),
        ("--max-cost", "-1", "greater than or equal to 0"),
        ("--max-cost", "inf", "less than or equal to 1000000000000"),
        ("--set", "max_seconds=0", "greater than or equal to 0.1"),
        ("--set", "max_seconds=nan", "less than or equal to 1000000000000"),
        ("--set", "max_calls=0", "greater than or equal to 1"),
        ("--set", "max_tokens=1.5", "a valid integer"),
        ("--set", "max_seconds=1" + "0" * 400, "less than or equal to 1000000000000"),
        ("--max-cost", "1e999", "less than or equal to 1000000000000"),
        ("--max-turns", "1" + "0" * 400, "less than or equal to"),
        ("--set", "max_calls=" + "9" * 5_000, "exceeded maximum size"),
    ],
)
def test_a_limit_is_a_number(flag: str, value: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["ask", "hi there", flag, value]) == 2
    assert said in capsys.readouterr().err


def test_what_costs_nothing_is_within_every_limit_of_money(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = [priced(WEATHER, 100, 0.0), priced(words("18 degrees"), 100, 0.0)]
    ask(tmp_path, ScriptedModel(replies), max_cost=0.0, approve="all")
    assert capsys.readouterr().out == "18 degrees\n"


def test_an_estimate_asks_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel([], name="openai:gpt-4o")
    for mode in ("on", "off"):
        assert ask(tmp_path, model, dry_run=True, tool_search=mode, output="json") == (0, "")
    searching, all_offered = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert searching.keys() - {"type", "schema"} == set(DOCUMENTS["estimate"].names)
    assert searching["tools_offered"] == ["search_tools", "add_tool"]
    assert all_offered["input_tokens"] == all_offered["input_tokens_with_every_tool"]
    assert len(all_offered["tools_offered"]) == 4
    assert 0 < searching["cost_usd"] < 0.01
    assert ask(tmp_path, ScriptedModel([], name="x:y"), dry_run=True) == (0, "")
    assert "price not known" in capsys.readouterr().out
    assert not model.requests


def test_a_run_that_a_limit_ends_says_so_also_where_a_document_was_wanted(
    tmp_path: Path, schema_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitting = '{"city": "Rome", "degrees": 1}'
    for replies, structured in ((["what I know", "no more"], None), ([fitting], json.loads(fitting))):
        model = ScriptedModel([WEATHER, *replies])
        assert ask(tmp_path, model, json_schema=schema_file, max_turns=1, output="json")[0] == 7
        document = json.loads(capsys.readouterr().out)
        assert (document["stop_reason"], document.get("structured")) == ("max_turns", structured)
        assert {request.tool_choice for request in model.requests[1:]} == {"none"}
        model = ScriptedModel([WEATHER, *replies])
        code, told = ask(tmp_path, model, json_schema=schema_file, max_turns=1)
        assert code == 7
        assert ("without an answer" in told, "the answer is" in told) == (structured is None, structured is not None)
        out = capsys.readouterr().out  # words are no document
        assert out == "" if structured is None else json.loads(out) == structured


@each_row("tokens, is_aside", [(500, True), (10_000, False), (0, False)])
def test_a_result_of_more_tokens_than_were_named_is_read_in_pieces(
    tokens: int, is_aside: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = Message("assistant", (ToolCall("1", "get_weather", {"city": "Rome " * 2_000}),))
    model = ScriptedModel([long, "Mild."])
    assert ask(tmp_path, model, approve="all", large_result_tokens=tokens)[0] == 0
    assert capsys.readouterr().out == "Mild.\n"
    [result] = model.requests[1].messages[2].tool_results
    offered = [tool.name for tool in model.requests[1].tools]
    assert (result.set_aside is not None, "read_large_output" in offered) == (is_aside, is_aside)


def test_a_price_that_is_not_known_is_no_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(tmp_path, ScriptedModel([priced(words("x"), 100, None)]), output="json")
    document = json.loads(capsys.readouterr().out)
    assert (document["cost_usd"], document["cost_known"]) == (None, False)


def test_money_is_on_the_usage_line_and_the_status_line() -> None:
    assert [money(value) for value in (0.0, 0.0214, 3.404)] == ["$0.000", "$0.021", "$3.40"]
    assert (money(0.0, known=False), money(0.02, known=False)) == ("$?", "$0.020+?")
    usage = Usage(input_tokens=100)
    finished = RunFinished("a", "answered", 1, usage, 0.1, (), Spent(usage, 0.0214))
    assert usage_line(finished, 0, Glyphs()).plain.endswith("100 ms · $0.021")
    status = Status("x:y", used=100, spent=Spent(usage, 0.02) + Spent(usage, 0.001))
    assert status_line(status, Glyphs(), 80) == " y │ ctx 100 │ $0.021 │ ask "


# --- answers that fit -------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA), "utf-8")
    return path


def test_an_answer_that_does_not_fit_is_asked_for_again(
    tmp_path: Path, schema_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel(['{"city": "Rome"}', 'Here:\n```json\n{"city": "Róma", "degrees": 18}\n```'])
    code, _ = ask(tmp_path, model, json_schema=schema_file)
    assert (code, capsys.readouterr().out) == (0, '{"city": "Róma", "degrees": 18}\n')
    first, second = model.requests
    assert first.output is not None
    assert first.output.schema == SCHEMA
    assert '"required":["city","degrees"]' in first.system
    assert "'degrees' is a required property" in second.messages[-1].text


def test_after_two_attempts_it_is_an_error(
    tmp_path: Path, schema_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OutputError, match=r"^no answer that fits --json-schema: the answer: it is no JSON"):
        ask(tmp_path, ScriptedModel(["x", "y"]), json_schema=schema_file, output="json")
    document = json.loads(capsys.readouterr().out)
    assert (document["error"]["kind"], document["error"]["exit_code"]) == ("answer", 1)


def test_the_document_is_in_the_result(tmp_path: Path, schema_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = [priced(words("no"), 10, 0.1), priced(words('{"city": "Rome", "degrees": 1}'), 10, 0.1)]
    ask(tmp_path, ScriptedModel(replies), json_schema=schema_file, output="stream-json")
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [item["type"] for item in told].count("init") == 1
    assert told[-1]["structured"] == {"city": "Rome", "degrees": 1}
    assert told[-1]["cost_usd"] == 0.2
    assert told[-1].keys() - {"type", "schema"} <= set(DOCUMENTS["result"].names)


@each_row(
    "content, said",
    [
        ("{", r"s\.json:1:2: it ends in the middle of its JSON; write the rest"),
        ("{nosuch}", r"s\.json:1:2: expecting property name enclosed in double quotes$"),
        ("\udce4", r"s\.json: not UTF-8; save the file as UTF-8$"),
        ("[]", "expected an object"),
        ('{"type": 3}', "no JSON Schema"),
        ('{"$ref": "#"}', "no JSON Schema that can be used: it refers to itself without an end$"),
        ('{"allOf": [{"$ref": "#"}]}', "no JSON Schema that can be used: it refers to itself without an end$"),
        (
            '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}',
            "no JSON Schema that can be used: it refers to itself without an end$",
        ),
        ('{"$ref": "https://example.com/s.json"}', "a reference leads out of it: https://example.com/s.json$"),
        ('{"$ref": "#/$defs/none"}', r"\$ref #/\$defs/none leads to no schema$"),
    ],
)
def test_a_file_that_is_no_schema_is_told_before_anything_is_asked(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(content, "utf-8", "surrogateescape")
    with pytest.raises(ConfigError, match=said):
        answer_schema(path)
    with pytest.raises(ConfigError, match=r"^--json-schema .*missing\.json: not found; create it or name anoth"):
        answer_schema(tmp_path / "missing.json")
    with pytest.raises(ConfigError, match=r"^--json-schema .*: is a folder; name a file in it$"):
        answer_schema(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locale", "expected"),
    [({}, '{"city": "Köln"}\n'), ({"PYTHONIOENCODING": "ascii"}, '{"city": "K\\u00f6ln"}\n')],
)
def test_a_document_comes_whole_through_any_locale(
    locale: dict[str, str], expected: str, tmp_path: Path, schema_file: Path
) -> None:
    script = (
        "import io, sys\nfrom pathlib import Path\nfrom mcpagent.cli.oneshot.headless import ask_once\n"
        "from mcpagent.cli.common.options import Options\n"
        "from mcpagent.cli.screen.terminal import open_terminal\n"
        "from mcpagent.models import ScriptedModel\nterminal = open_terminal('auto', {})\n"
        "options = Options(json_schema=Path(sys.argv[1]), quiet=True)\n"
        """sys.exit(ask_once(options, 'q', terminal, model=ScriptedModel(['{"city": "K\\u00f6ln"}'])))"""
    )
    schema_file.write_text("{}", "utf-8")
    (tmp_path / "none.json").write_text('{"mcpServers": {}}', "utf-8")
    given = {"MCPAGENT_CONFIG": "none.json", "PYTHONUTF8": "0", "LC_ALL": "C.UTF-8", **locale}
    done = subprocess.run(
        [sys.executable, "-c", script, str(schema_file)],
        cwd=tmp_path,
        env=environment(tmp_path / "home", given),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected.encode()


@pytest.mark.slow
def test_the_flags_reach_the_run(tmp_path: Path, schema_file: Path) -> None:
    question = ["-p", "what is the weather in Rome?", "-m", "offline", "-q", *server_option("good")]
    stopped = run([*question, "--set", "max_tokens=1"], tmp_path)
    assert (stopped.returncode, stopped.stdout) == (7, "")
    assert "--set max_tokens=1" in stopped.stderr
    free = run([*question, "--json-schema", str(schema_file)], tmp_path, env={"MCPAGENT_MAX_COST": "1"})
    assert free.returncode == 1  # the offline model writes no JSON
    assert "no answer that fits --json-schema" in free.stderr


@pytest.mark.slow
def test_what_a_flag_names_is_told_by_that_flag(tmp_path: Path) -> None:
    asked = ["ask", "hello", "-m", "offline", "-q", *server_option("good", "small")]
    said = {
        "nosuch": '! always_load: no tool "nosuch"',
        "nosuch*": '! always_load, server small: the pattern "nosuch*" matches none of the 4 tools',
    }
    for name, line in said.items():
        done = run([*asked, "--set", f"always_load={name}"], tmp_path)
        assert (done.returncode, done.stderr.splitlines()) == (0, [line])
    for flag in ("--json-schema", "--replay", "--config", "--card"):
        done = run([*asked, flag, "nofile.md"], tmp_path)
        [line] = done.stderr.splitlines()
        assert (done.returncode, "Errno" in line, "nofile.md" in line, ";" in line or ":" in line[7:]) == (
            3,
            False,
            True,
            True,
        )
