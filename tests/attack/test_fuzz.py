"""Random input of seven kinds: a valid value or an error of one line, in bounded time.

About five minutes in all with `--seeds all`, else a quarter of that.

Each target is given examples until its time is over, 200 after each seed: 0, 1 and so on, the same in each run as far
as it comes, or from `--hypothesis-seed=SEED` on. What fails is printed by Hypothesis, with its seed. It is not made
smaller, which takes minutes for what takes too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from mcpagent import Agent, Recorder, Replay, RunOptions, ScriptedModel, ToolCall
from mcpagent.agents.cards.reading import parse_card
from mcpagent.agents.cards.writing import dump_card
from mcpagent.cli import main
from mcpagent.cli.app import _grammar, command_line
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.settings import read_settings, settable
from mcpagent.config import load_servers
from mcpagent.errors import McpAgentError
from mcpagent.mcp.transports.bytes_to_messages import FLOOD_BYTES, InvalidOutput, MessageReader, decode
from mcpagent.models.base import ModelRequest
from mcpagent.models.imported_histories import read_history
from mcpagent.run.validation import verdict
from tests.models.test_imported_histories import MODELS
from tests.speed import within

pytestmark = [pytest.mark.attack, pytest.mark.slow, pytest.mark.timeout(300)]

SECONDS = 43.0
EXAMPLES = 200
MOST_SECONDS = 1.0
"""Of CPU time, for each example."""


class Fuzz:
    """Runs one target until its time is over, and counts its examples."""

    def __init__(self, first: int, seconds: float) -> None:
        self.examples = 0
        self._seed, self._seconds = first, seconds

    def run(self, strategy: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
        end = time.monotonic() + self._seconds

        def timed(value: Any) -> None:
            self.examples += 1
            started = time.thread_time()
            check(value)
            took = time.thread_time() - started
            assert within(took, MOST_SECONDS), f"{took:.2f} s"

        while time.monotonic() < end:
            number = self._seed
            self._seed += 1
            try:
                seed(number)(
                    settings(
                        max_examples=EXAMPLES,
                        derandomize=False,
                        database=None,
                        deadline=None,
                        print_blob=True,
                        phases=[Phase.generate],
                        suppress_health_check=list(HealthCheck),
                    )(given(strategy)(timed))
                )()
            except BaseException as error:
                error.add_note(f"repeat it with --hypothesis-seed={number}")
                raise


@pytest.fixture
def fuzz(request: pytest.FixtureRequest, share_of_seeds: float) -> Any:
    given_seed = request.config.getoption("--hypothesis-seed", default=None)
    made = Fuzz(int(given_seed or 0), SECONDS * share_of_seeds)
    yield made
    print(f"{request.node.name}: {made.examples} examples")
    assert made.examples >= EXAMPLES


def one_line(error: McpAgentError) -> None:
    assert str(error)
    assert str(error).isprintable(), repr(str(error))


# -- what examples are made of -----------------------------------------------------------------------------------------


def one_of_words(words: str) -> st.SearchStrategy[str]:
    return st.sampled_from(words.split())


ODD = st.sampled_from(
    [
        "",
        "\x1b[2J",
        "\u202e",
        "\ud800",
        "\0",
        "${X}",
        "${env:HOME}",
        "${X:-${Y}}",
        "~",
        "../..",
        "a" * 3_000,
        "é\n",
        "&a *a",
    ]
)
TEXT = st.text(max_size=20) | ODD
NUMBERS = st.integers() | st.floats() | st.sampled_from([0, -1, 10**400, 2**63, 1e308])


def json_of(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON values whose objects have these keys, next to any."""
    leaf = st.none() | st.booleans() | NUMBERS | TEXT
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | TEXT, inner, max_size=5), max_leaves=20
    )


def as_json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):  # numbers of too many digits
        return "{}"


def damaged(texts: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """The text as bytes, at times with a piece cut out, doubled or put in another's place."""

    def damage(text: str, piece: bytes, places: tuple[int, int]) -> bytes:
        data = text.encode("utf-8", "surrogatepass")
        start, end = sorted(place % (len(data) + 1) for place in places)
        return data[:start] + piece + data[end:]

    cut = st.tuples(st.integers(0, 10_000), st.integers(0, 10_000))
    whole = texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
    return st.binary(max_size=300) | whole | whole | st.builds(damage, texts, st.binary(max_size=8), cut)


def nested(opening: str, closing: str) -> st.SearchStrategy[str]:
    return st.builds(
        lambda count, ends: opening * count + closing * (count * ends), st.integers(0, 20_000), st.booleans()
    )


# -- targets -----------------------------------------------------------------------------------------------------------

ENTRY_KEYS = one_of_words(
    "command cmd args env envFile cwd url serverUrl headers timeout type transport disabled enabled approval trust "
    "alwaysLoad enabled_tools roots oauth defer_loading max_result_bytes proxy description era"
)
SERVERS = st.builds(
    lambda value, name: as_json({name: value}),
    st.dictionaries(
        TEXT, st.dictionaries(ENTRY_KEYS, json_of(ENTRY_KEYS), max_size=6) | json_of(ENTRY_KEYS), max_size=4
    ),
    st.sampled_from(["mcpServers", "servers", "mcp_servers", "mcp", "context_servers"]),
)
GOOD = {"command": "true"}
WELL_FORMED = st.fixed_dictionaries(
    {"command": TEXT},
    optional={"args": st.lists(TEXT), "env": st.dictionaries(TEXT, TEXT), "cwd": TEXT, "timeout": NUMBERS},
)
BESIDE_A_GOOD_ONE = st.dictionaries(one_of_words("a b c"), WELL_FORMED).map(
    lambda entries: as_json({"mcpServers": {**entries, "good": GOOD}}).encode()
)
SETTING_NAMES = sorted(settable(command_line()))
TOML = st.lists(
    st.builds(
        lambda key, value: f"{key} = {value}",
        st.sampled_from(SETTING_NAMES) | TEXT,
        (json_of(TEXT).map(as_json) | TEXT),
    ),
    max_size=6,
).map("\n".join)
ONE_SETTING = st.builds(
    lambda key, value: f"{key} = {value}".encode(),
    st.sampled_from(SETTING_NAMES),
    st.sampled_from(["true", "3", "'on'", "['x']"]),
)


def test_configuration(fuzz: Fuzz, tmp_path: Path) -> None:
    known = settable(command_line())
    environ = {"MCPAGENT_HOME": str(tmp_path / "home")}
    servers, toml = tmp_path / "any.json", tmp_path / "project" / ".mcpagent.toml"
    user = tmp_path / "home" / "config" / "config.toml"
    for folder in (toml.parent, user.parent):
        folder.mkdir(parents=True)

    def check(given_bytes: tuple[str, bytes]) -> None:
        kind, data = given_bytes
        try:
            if kind != "settings":
                servers.write_bytes(data)
                loaded = load_servers(servers, environ={"HOME": "/h"})
                assert kind == "servers" or any(server.name == "good" for server in loaded.servers)
                assert all(bool(server.command) != bool(server.url) for server in loaded.servers)
                assert all(server.name.isprintable() for server in loaded.servers)
            else:
                user.write_bytes(data)
                read = read_settings(toml.parent, environ, known)
                assert all(line.isprintable() for line in read.warnings)
                assert read.values.keys() <= known.keys()
        except McpAgentError as error:
            one_line(error)

    beside = st.tuples(st.just("beside a good one"), BESIDE_A_GOOD_ONE)
    files = st.tuples(st.just("servers"), damaged(SERVERS | nested("[", "]") | nested('{"a":', "}")))
    lines = st.tuples(st.just("settings"), damaged(TOML | nested("a = [", "]")) | ONE_SETTING)
    fuzz.run(files | beside | lines, check)


CARD_KEYS = one_of_words(
    "name description model instruction servers tools mcp_servers mcp_connect tool_search agents limits default "
    "request_params api_key type skills use_history strategy enabled eager_tools target url base_url trust"
)


def test_cards(fuzz: Fuzz, tmp_path: Path) -> None:
    def check(card: tuple[bytes, str]) -> None:
        data, suffix = card
        try:
            path = tmp_path / f"x{suffix}"
            parsed = parse_card(data.decode("utf-8", "replace"), path)
            if parsed is not None:
                again = parse_card(dump_card(parsed, "md" if suffix == ".md" else "yaml"), path)
                assert repr(again) == repr(parsed)  # which also compares nan
        except McpAgentError as error:
            one_line(error)

    fields = st.dictionaries(CARD_KEYS, json_of(CARD_KEYS), max_size=6)
    # JSON is YAML; lines with a key each are what people write.
    lines = fields.map(lambda card: "\n".join(f"{key}: {as_json(value)}" for key, value in card.items()))
    yaml = fields.map(as_json) | lines | st.text(alphabet="ab:- \n\t&*!<>|[]{}'\"#%@`,?~0123456789.e", max_size=200)
    markdown = st.builds(lambda front, body: f"---\n{front}\n---\n{body}", yaml, TEXT)
    fuzz.run(st.tuples(damaged(markdown | yaml | nested("[", "]")), st.sampled_from([".md", ".yaml", ".yml"])), check)


def warm(city: str) -> str:
    """How warm it is."""
    return f"18 in {city}"


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, item in items for found in [(*path, step), *places(item, (*path, step))]]


def test_recordings(fuzz: Fuzz, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def record() -> None:
        model = ScriptedModel([ToolCall("1", "warm", {"city": "Oslo"}), "the answer is 18", "again"])
        async with Agent(model, tools=[warm], options=RunOptions(wrappers=[Recorder(path)])) as agent:
            await agent.ask("how warm?")
            await agent.ask("really?")

    async def replay() -> None:
        async with asyncio.timeout(20), Agent(options=RunOptions(wrappers=[Replay(path)])) as agent:
            await agent.ask("how warm?")
            await agent.ask("really?")
            asked = [message.text for message in agent.messages if message.role == "user"]
            assert asked == ["how warm?", "really?"]  # a recording puts no words into a person's mouth

    asyncio.run(record())
    known = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    keys = st.sampled_from(
        sorted({step for line in known for way in places(line) for step in way if isinstance(step, str)})
    )
    changes = st.tuples(st.integers(0, 1_000), st.integers(0, 1_000), json_of(keys), st.booleans())

    def edited(steps: list[tuple[int, int, Any, bool]]) -> str:
        lines = json.loads(json.dumps(known))
        for which, place, value, removes in steps:
            line = lines[which % len(lines)]
            if not (ways := places(line)):
                continue
            *way, last = ways[place % len(ways)]
            for step in way:
                line = line[step]
            if removes:
                del line[last]
            else:
                line[last] = value
        return "\n".join(map(as_json, lines)) + "\n"

    def check(data: bytes) -> None:
        path.write_bytes(data)
        try:
            asyncio.run(replay())
        except McpAgentError as error:
            one_line(error)

    whole = st.lists(changes, min_size=1, max_size=3).map(edited)
    lines_of_anything = st.lists(json_of(keys).map(as_json), max_size=5).map("\n".join)
    fuzz.run(damaged(whole) | damaged(whole | lines_of_anything), check)


HISTORY_KEYS = one_of_words(
    "role type content tool_calls tool_call_id call_id output name arguments parts id text source url input function "
    "is_error thinking signature summary encrypted_content image_url media_type data refusal status"
)
HISTORY_WORDS = one_of_words(
    "user assistant tool system developer message function_call function_call_output reasoning c1 text tool_use "
    "tool_result thinking image image_url input_text output_text base64 tool_call {} end"
)


def test_histories(fuzz: Fuzz) -> None:
    value = st.recursive(
        HISTORY_WORDS | st.none() | st.booleans() | NUMBERS | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HISTORY_KEYS, inner, max_size=5),
        max_leaves=15,
    )
    message = st.dictionaries(HISTORY_KEYS, HISTORY_WORDS | value, max_size=6) | value
    spoken = st.fixed_dictionaries({"role": one_of_words("user assistant"), "content": TEXT})

    def check(messages: list[Any]) -> None:
        try:
            history = read_history([{"role": "user", "content": "x"}, *messages])
            assert history.messages[0].text.startswith("x")
            for model in MODELS.values():
                body = model.request_body(ModelRequest(history.system, tuple(history.messages)))
                json.dumps(body, allow_nan=False)
        except McpAgentError as error:
            one_line(error)

    fuzz.run(st.lists(message, max_size=6) | st.lists(spoken, max_size=6), check)


FRAME_KEYS = one_of_words(
    "jsonrpc id method params result error code message data content progressToken progress requestId _meta tools"
)


def test_frames(fuzz: Fuzz) -> None:
    body = st.dictionaries(FRAME_KEYS, json_of(FRAME_KEYS), max_size=5)
    frame = st.builds(lambda rest: as_json({"jsonrpc": "2.0", **rest}), body)
    lines = st.lists(frame | nested("[", "]") | nested('{"a":', "}") | TEXT, max_size=4).map("\n".join)

    def read(pieces: list[bytes]) -> list[Any]:
        reader = MessageReader(50_000)
        found = [message for piece in pieces for line in reader.lines(piece) for message in decode(line)]
        return found + list(reader.end())

    def check(given_bytes: tuple[bytes, int]) -> None:
        data, place = given_bytes
        messages = read([data])
        assert all(message.text.isprintable() for message in messages if isinstance(message, InvalidOutput))
        cut = place % (len(data) + 1)
        in_two = read([data[:cut], data[cut:]])
        if len(data) >= FLOOD_BYTES:  # of a flood of other lines only some are looked at
            in_two, messages = (
                [one for one in found if not isinstance(one, InvalidOutput)] for found in (in_two, messages)
            )
        assert repr(in_two) == repr(messages)

    fuzz.run(st.tuples(damaged(lines), st.integers(0, 10_000)), check)


SCHEMA_KEYS = one_of_words(
    "type properties required enum const $ref $defs definitions items prefixItems additionalProperties allOf anyOf "
    "oneOf not if then else pattern patternProperties propertyNames minLength maxItems minimum multipleOf uniqueItems "
    "contains minContains dependentRequired dependentSchemas unevaluatedProperties unevaluatedItems format $id $anchor "
    "$dynamicRef $dynamicAnchor $schema a b"
)
SCHEMA_WORDS = st.sampled_from(
    ["object", "array", "string", "#", "#/$defs/a", "#/properties/a", "#a", "^(a+)+$", "[", "a{9999}", "a", "http://x"]
)


def test_schemas(fuzz: Fuzz) -> None:
    schema = st.recursive(
        SCHEMA_WORDS | st.none() | st.booleans() | NUMBERS | TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SCHEMA_KEYS, inner, max_size=6),
        max_leaves=40,
    )
    documents = st.dictionaries(SCHEMA_KEYS, schema, max_size=8)
    values = st.dictionaries(
        st.sampled_from("ab") | TEXT, json_of(st.sampled_from("ab")) | st.just("a" * 2_000), max_size=4
    )

    def check(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
        found = verdict(*pair)
        assert len(found.problem) < 3_000
        assert len(found.unchecked) < 200
        assert found.unchecked.isprintable()

    fuzz.run(st.tuples(documents, values), check)


GRAMMAR = _grammar(command_line())
STARTS_OR_TALKS = {"demo", "worker", "login", "edit", "import", "doctor"}
COMMANDS = sorted(
    {*GRAMMAR.commands, "list", "show", "add", "remove", "enable", "disable", "check", "search", "call", "test", "path"}
    | {"set", "forget", "tokens", "lint", "eval", "learned", "logs", "logout"}
)
OPTIONS = sorted(set(GRAMMAR.options) - {"--debug", "--server", "--model", "-m", "--timeout"})
VALUES = [
    "0",
    "-1",
    "1e9",
    "nan",
    "auto",
    "on",
    "off",
    "json",
    "text",
    "x.json",
    "offline",
    "always",
    "x=y",
    "--",
    "-",
    ".",
]


def test_command_line(fuzz: Fuzz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("MCPAGENT_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    for name, value in {"MCPAGENT_HOME": "home", "HOME": "home", "MCPAGENT_MODEL": "offline"}.items():
        monkeypatch.setenv(name, str(tmp_path / value) if value == "home" else value)
    monkeypatch.setenv("MCPAGENT_TIMEOUT", "20")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.json").write_text('{"mcpServers": {"gone": {"command": "/nowhere/to-be-found"}}}')

    def check(arguments: list[str]) -> None:
        out, err = io.StringIO(), io.StringIO()
        with (
            open(os.devnull, encoding="utf-8") as nothing,
            monkeypatch.context() as patched,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patched.setattr(sys, "stdin", nothing)
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        assert ended.value.code in {*ExitCode}, (ended.value.code, err.getvalue())
        assert "Traceback (most" not in out.getvalue() + err.getvalue(), err.getvalue()
        if ended.value.code:
            assert err.getvalue() or out.getvalue()

    def is_harmless(words: list[str]) -> bool:
        return not STARTS_OR_TALKS & set(words) and not any("://" in word or "\0" in word for word in words)

    word = st.sampled_from(COMMANDS) | st.sampled_from(OPTIONS) | st.sampled_from(VALUES) | TEXT
    command = st.sampled_from(sorted({*GRAMMAR.commands} - STARTS_OR_TALKS)).map(lambda name: [name])
    lines = st.builds(lambda first, rest: first + rest, command | st.just([]), st.lists(word, max_size=6))
    fuzz.run(lines.filter(is_harmless), check)
