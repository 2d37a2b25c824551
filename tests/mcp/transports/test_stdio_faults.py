"""Every wrong way to answer ends its call with a result or a named error, and the next call works.

The modes are those of `servers/hostile_server.py`. What is not named here as an exception must give the text "fine".
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.history.intake.admission_of_content import judged
from mcpagent.mcp.server_link import ServerLink
from mcpagent.values.messages import Text
from mcpagent.values.tools import Tool, ToolOutput
from tests.mcp.at_once import at_once, one_by_one
from tests.servers.hostile_server import DEEDS, DISCOVER, INITIALIZE, LARGE, LISTS, RAW
from tests.servers.leftovers import nothing_left

SERVER = Path(__file__).resolve().parents[2] / "servers" / "hostile_server.py"


def config(*arguments: str, **settings: Any) -> ServerConfig:
    limits = {"connect_timeout_seconds": 60.0, "timeout_seconds": 60.0, "total_timeout_seconds": 90.0}
    return ServerConfig("h", command=sys.executable, args=(str(SERVER), *arguments), **(limits | settings))


@asynccontextmanager
async def connected(*arguments: str, **settings: Any) -> AsyncIterator[tuple[ServerLink, dict[str, Tool]]]:
    async with nothing_left(), ServerLink(config(*arguments, **settings)) as toolset:
        yield toolset, {tool.name: tool for tool in await toolset.tools()}


def text_of(output: ToolOutput) -> str:
    content = judged(output.content, accepts=frozenset({"image"})).content
    return "\n".join(part.text if isinstance(part, Text) else "[image]" for part in content)


async def next_works(tools: dict[str, Tool]) -> None:
    output = await tools["echo"].run({"text": "next"})
    assert (text_of(output), output.error) == ("next", None)


# --- answers ---

INVALID = 'server "h" sent an invalid answer to tools/call "trouble": '
EXPECTED: dict[str, tuple[str | None, str]] = {
    **{
        f"id-{kind}": ("failed", f"{INVALID}it has no usable id")
        for kind in ("missing", "null", "list", "object", "true", "fraction", "infinite")
    },
    "id-in-text": (None, '"id":999'),
    "result-and-error": ("failed", "both"),
    "result-string": ("failed", f'{INVALID}its "result" is a string, not an object'),
    "result-number": ("failed", f'{INVALID}its "result" is a number, not an object'),
    "result-true": ("failed", f'{INVALID}its "result" is a boolean, not an object'),
    "result-empty": (None, ""),
    "error-null": ("failed", f'{INVALID}its "error" is null'),
    "error-text": ("failed", "it broke"),
    "error-list": ("failed", '["it broke"]'),
    "error-empty": ("failed", "{}"),
    "error-no-code": ("failed", "it broke"),
    "error-no-message": ("failed", '{"code": -32000}'),
    "error-code-fraction": ("failed", "it broke"),
    "error-code-huge": ("failed", "it broke"),
    "error-code-null": ("failed", "it broke"),
    "error-message-list": ("failed", '{"code": 1, "message": ["it", "broke"]}'),
    "error-message-empty": ("failed", "error 1"),
    "error-message-ansi": ("failed", "it broke"),
    "error-data-deep": ("failed", f"{INVALID}its JSON nests too deeply"),
    "error-closed-code": ("failed", "it broke"),
    "error-our-codes": ("failed", 'it broke\n{"outcome": "not_sent", "session_lost": true}'),
    "error-our-answer-code": ("failed", f"{INVALID}it broke"),
    "content-null": (None, ""),
    "content-number": (None, "7"),
    "content-nested": (None, '[{"type": "text", "text": "fine"}]'),
    "block-null": (None, "null"),
    "block-empty": (None, "{}"),
    "text-number": (None, '{"type": "text", "text": 7}'),
    "text-null": (None, '{"type": "text", "text": null}'),
    "text-missing": (None, '{"type": "text"}'),
    "text-ansi": (None, "fine"),
    "image-mime": (None, "[image: text/html, 2 bytes; only png, jpeg, gif and webp can be shown: it cannot be read]"),
    "image-data-list": (None, '{"type": "image", "mimeType": "image/png", "data": [1]}'),
    "audio-bad": (None, "[audio: audio/wav, 1 bytes; its data is not valid Base64]"),
    "link-without-uri": (None, '{"type": "resource_link", "name": "n"}'),
    "link-uri-number": (None, '{"type": "resource_link", "name": "n", "uri": 7}'),
    "resource-text": (None, '{"type": "resource", "resource": "x"}'),
    "resource-blob-bad": (None, '{"type": "resource", "resource": {"uri": "a:b", "blob": 7}}'),
    "is-error-text": ("failed", "no"),
    "is-error-number": ("failed", "no"),
    "structured-list": (None, "[1, 2]"),
    "input-required": (None, ""),
    "nan-structured": (None, '{"n": NaN, "i": -Infinity}'),
    "number-huge": (None, '{"n": Infinity}'),
    **dict.fromkeys(
        (
            *("trailing-comma", "single-quotes", "comment", "unquoted", "cut-in-string", "cut-in-escape"),
            *("raw-newline", "cut-before-id", "bad-escape"),
        ),
        ("failed", f"{INVALID}it is not valid JSON ("),
    ),
    "raw-control": (None, "fine"),
    "line-separators": (None, "fi\n\n\nne"),
    "deep-object": ("failed", f"{INVALID}it is not valid JSON ("),
    "deep-blocks": (None, '{"type":"text","text":"fine","x":[[['),
    "latin-1": (None, "caf\ufffd"),
    "overlong-utf-8": (None, "\ufffd\ufffd"),
    **dict.fromkeys(("id-whole-fraction", "id-exponent", "id-as-text", "id-twice"), (None, "")),
    "parse-error": ("failed", "it broke"),
    "error-null-id-other-code": (
        "failed",
        f"{INVALID}an error without an ID, which may answer another request: it broke",
    ),
    "result-null-and-error": ("failed", "it broke"),
    "error-number": ("failed", "7"),
    "error-true": ("failed", "true"),
    "error-false": ("failed", "false"),
    **{mode: ("failed", "it broke") for mode in RAW if mode.startswith("error-code-") and mode[11].isdigit()},
    **dict.fromkeys(("error-code-text", "error-code-true", "error-code-zero"), ("failed", "it broke")),
    "error-message-number": ("failed", '{"code": 1, "message": 7}'),
    "error-message-null": ("failed", '{"code": 1, "message": null}'),
    "error-data-huge-number": ("failed", f"it broke\n{'9' * 5_000}"),
    "error-code-32042": ("failed", 'it broke\n{"elicitations": 7}'),
    "error-code-32603": ("failed", "it broke; the call may have run: check before you repeat it"),
    "result-of-initialize": (None, ""),
    "result-of-tools-list": (None, ""),
    "is-error-without-text": ("failed", "the tool failed and did not say why"),
    "input-required-for-ever": (None, ""),
    "input-required-odd": (None, ""),
    "result-type-task": ("failed", f"{INVALID}it begins a task and gives no id or no status of it"),
    "task-null": (None, ""),
    "task-odd": ("failed", f"{INVALID}it begins a task and gives no id or no status of it"),
    "content-keyed": (None, '{"0": {"type": "text", "text": "fine"}}'),
    "content-true": (None, "true"),
    "text-list": (None, '{"type": "text", "text": ["fi", "ne"]}'),
    "text-nul": (None, "fi\ufffdne"),
    "text-surrogates-turned": (None, "fi\ufffd\ufffdne"),
    "text-noncharacter": (None, "fine"),
    "image-data-url": (None, "[image]"),
    "image-in-lines": (None, "[image]"),
    "image-empty": (None, "[image: image/png, 0 bytes; its data is not valid Base64]"),
    "resource-both": (None, "[resource a:b]\nfine"),
    "resource-null": (None, '{"type": "resource", "resource": null}'),
    "structured-number": (None, "7"),
    "structured-false": (None, "false"),
    **dict.fromkeys(
        ("python-literals", "undefined", "number-hex", "number-octal", "number-plus", "bom-inside"),
        ("failed", f"{INVALID}it is not valid JSON ("),
    ),
    "number-long-fraction": (None, '{"n": 0.111'),
    "number-exponent-long": (None, '{"n": Infinity}'),
    "many-blocks": (None, "x\nx\nx\nx\n"),
    "many-keys": (None, ""),
    "error-message-long": ("failed", "xxxxxxxxxx"),
}
HEAVY = {"many-blocks", "many-keys", "error-message-long", "many-junk", "ids-of-nobody", "requests-many", "long-junk"}
UNREADABLE = ("key-case", "compressed")
EXPECTED_OF_2026: dict[str, tuple[str | None, str]] = {
    "structured-text": (None, '"fine"'),
    "input-required": ("failed", "it wants roots/list, which is not allowed"),
    "input-required-for-ever": ("failed", f"{INVALID}asks for input more than 10 times"),
    "input-required-odd": ("failed", f"{INVALID}its result is malformed: content: Field required"),
}
"""What is another thing there."""


def check(mode: str, output: ToolOutput, era: str = "") -> None:
    expected = EXPECTED | EXPECTED_OF_2026 if era else EXPECTED
    error, text = expected.get(mode, (None, "fine"))
    assert output.error == error
    assert text_of(output).startswith(text)
    if text in ("", "fine", "it broke"):
        assert text_of(output) == text


@pytest.mark.parametrize("era", ["", pytest.param("modern", marks=pytest.mark.slow)])
async def test_each_answer_ends_its_call_at_once(era: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Over four connections at the same time: some answers are waited for a while, whether another one comes."""

    async def end(*modes: str) -> None:
        failures = []
        async with ServerLink(config(*(("--init", era) if era else ()))) as toolset:
            tools = {tool.name: tool for tool in await toolset.tools()}
            assert toolset.status.protocol_version == ("2026-07-28" if era else "2025-06-18")
            for mode in modes:
                try:
                    async with asyncio.timeout(40):
                        check(mode, await tools["trouble"].run({"text": mode}), era)
                        await next_works(tools)
                except Exception as error:  # noqa: BLE001, every mode is reported
                    error.add_note(mode)
                    failures.append(error)
            assert toolset.status.state == "ready"
        if failures:
            raise ExceptionGroup(f"{len(failures)} of {len(modes)} modes", failures)

    modes = sorted(RAW.keys() - HEAVY - set(UNREADABLE))
    async with nothing_left():
        await at_once(end, [tuple(modes[first::4]) for first in range(4)])
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
async def test_large_answers_too(subtests: pytest.Subtests) -> None:
    async with connected() as (_, tools):
        for mode in sorted(HEAVY):
            with subtests.test(mode):
                check(mode, await tools["trouble"].run({"text": mode}))
                await next_works(tools)


async def test_what_cannot_be_read_at_all_ends_at_the_limit_and_is_quoted() -> None:
    async def quoted(mode: str) -> None:
        async with ServerLink(config(timeout_seconds=0.8)) as toolset:
            tools = {tool.name: tool for tool in await toolset.tools()}
            output = await tools["trouble"].run({"text": mode})
            assert output.error == "timeout"
            assert "sent other things and nothing of an answer for 0.8 s" in text_of(output)
            assert "; it wrote: " in text_of(output)
            await next_works(tools)

    async with nothing_left():
        await at_once(quoted, UNREADABLE)


def test_every_mode_is_tried() -> None:
    assert EXPECTED.keys() | HEAVY | set(UNREADABLE) <= RAW.keys()
    assert len(RAW) + len(DEEDS) + len(INITIALIZE) + len(DISCOVER) + len(LISTS) > 200


PARTS = '[{"n": 0, "t": "some text", "l": [1, 2]}, {"n": 1, '
EXPECTED_OF_LARGE: dict[str, tuple[str | None, str]] = {
    "large-text": (None, "x" * 4_000_000),
    "large-text-escaped": (None, "\u00e9" * 600_000),
    "large-text-wide": (None, "\u20ac" * 1_300_000),
    "large-many-texts": (None, "x" * 400 + "\n" + "x" * 400),
    "large-many-bad-blocks": (None, '{"type": "text", "text": 7, "x": "xxx'),
    "large-structured": (None, '{"all":[{"n":0,"t":"some text","l":[1,2]},'),  # as written: over the budget for data
    "large-structured-bad": (None, "7"),
    "large-unknown-block": (None, '{"type":"hologram","all":[{"n":0,"t":"some text","l":[1,2]},'),
    "large-image": (None, "[image]"),
    "large-image-bad": (None, "[image: image/png, "),
    "large-blob": (None, "[document: a:b, application/octet-stream, 3,000,000 bytes; not shown]"),
    "large-error-message": ("failed", "x" * 1_000),
    "large-error-data": ("failed", "it broke"),
    "large-error-without-message": ("failed", f'{{"code": 1, "all": {PARTS}'),
    "large-error-list": ("failed", PARTS),
    "large-keys": (None, ""),
    "large-cut": ("failed", f"{INVALID}it is not valid JSON"),
    "large-bad-at-the-end": ("failed", f"{INVALID}it is not valid JSON"),
    "large-pretty": (None, ""),
    "large-deep": (None, '{"type":"text","text":"fine","x":[[['),
    "large-number": (None, '{"n": "999'),
    "large-and-words-before": (None, "x" * 4_000_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
async def test_megabytes_of_it_do_not_hold_the_loop(part: int) -> None:
    async def ends(mode: str) -> None:
        output = await tools["trouble"].run({"text": mode})
        error, text = EXPECTED_OF_LARGE.get(mode, (None, "fine"))
        assert output.error == error
        assert text_of(output).startswith(text)
        await next_works(tools)

    async with connected() as (_, tools):
        await one_by_one(ends, [*LARGE][part::4])


# --- deaths and other deeds ---


async def test_a_large_call_reaches_a_server_that_reads_slowly() -> None:
    """Calls at the same time, each larger than a pipe holds: none is mixed with another."""
    async with connected() as (_, tools):
        texts = [f"{number}" * 300_000 for number in range(5)]
        outputs = await asyncio.gather(*(tools["echo"].run({"text": text}) for text in texts))
        assert [text_of(output) for output in outputs] == texts


DOWN: dict[str, str] = {
    "exit-0": "exited with code 0 during tools/call",
    "exit-1": "exited with code 1 during tools/call",
    "exit-255": "exited with code 255 during tools/call",
    "half-answer-and-exit": "exited with code 1 during tools/call",
    "last-words-and-exit": "exited with code 137 during tools/call",
    "abort": "was ended by signal 6 (SIGABRT) during tools/call",
    "sigterm": "was ended by signal 15 (SIGTERM) during tools/call",
    "sigpipe": "was ended by signal 13 (SIGPIPE) during tools/call",
    "sighup": "was ended by signal 1 (SIGHUP) during tools/call",
    "sigxcpu": "was ended by signal 24 (SIGXCPU) during tools/call",
    "become-another-program": "exited with code 0 during tools/call",
    "close-stdout": "closed the connection during tools/call",
    "close-all": "closed the connection during tools/call",
    "fork-keeps-the-pipe": "exited with code 3 during tools/call",
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
async def test_whatever_a_server_does_the_call_ends_and_the_next_works(
    part: int, capfd: pytest.CaptureFixture[str]
) -> None:
    async with nothing_left():
        await at_once(ends_and_goes_on, [*DEEDS][part::5])
    assert capfd.readouterr() == ("", "")


async def ends_and_goes_on(mode: str) -> None:
    async with ServerLink(config()) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}
        async with asyncio.timeout(50):
            output = await tools["trouble"].run({"text": mode})
        if mode in DOWN:
            assert output.error == "server_down"
            assert f'server "h" {DOWN[mode]} "trouble"' in text_of(output)
            assert "may have run" in text_of(output)
        else:
            assert output.error is None
            assert text_of(output) in ("fine", "f\u00efne \U0001f600")
        if mode != "go-on-as-a-child":  # which may read the next call, and then end
            await next_works(tools)


# --- connecting ---

FAILS: dict[str, str] = {
    **{
        f"version-{kind}": "invalid answer to initialize: its result is malformed: protocolVersion"
        for kind in ("null",)
    },
    "version-missing": "invalid answer to initialize: its result is malformed: protocolVersion",
    "version-number": "invalid answer to initialize: its result is malformed: protocolVersion",
    "version-empty": "Unsupported protocol version from the server:",
    "version-future": "Unsupported protocol version from the server: 2099-01-01",
    "result-null": 'invalid answer to initialize: its "result" is null',
    "result-list": 'invalid answer to initialize: its "result" is a list',
    "result-text": 'invalid answer to initialize: its "result" is a string',
    "result-empty": "invalid answer to initialize: its result is malformed",
    "no-result": 'invalid answer to initialize: it has no "result"',
    "error-empty": "refused initialize: {}",
    "error-text": "refused initialize: go away",
    "error-null": 'invalid answer to initialize: its "error" is null',
    "error-versions": "refused initialize: no",
    "error-versions-odd": "refused initialize: no",
    "cut": "invalid answer to initialize: it is not valid JSON",
    "id-missing": "invalid answer to initialize: it has no usable id",
    "http": "did not answer within 4 s; it wrote: Content-Length: 0",
    "help": "did not answer within 4 s; it wrote: server: error: no command given",
    "dies-when-initialized": "exited with code 4 during",
    "list-of-a-call": "invalid answer to tools/list: its result is malformed: tools",
    "tools-missing": "invalid answer to tools/list: its result is malformed: tools",
    "tools-null": "invalid answer to tools/list: its result is malformed: tools",
    "tools-object": "invalid answer to tools/list: its result is malformed: tools",
    "list-result-null": 'invalid answer to tools/list: its "result" is null',
    "list-error-empty": "failed tools/list: {}",
    "list-cut": "invalid answer to tools/list: it is not valid JSON",
    "tool-schema-deep": "invalid answer to tools/list: its JSON nests too deeply",
}
CONNECTING = [
    *(("--init", mode) for mode in (*INITIALIZE, *DISCOVER, "dies-when-initialized")),
    *(("--list", mode) for mode in LISTS),
]
SOME = {"capabilities-odd", "no-newline", "help", "discover-junk", "tool-null", "cursor-empty", "dies-when-initialized"}
OTHERS = sorted(item for item in CONNECTING if item[1] not in SOME)


async def connects_or_fails(phase: str, mode: str) -> None:
    seconds = 4.0 if mode in ("http", "help", "others-unanswered") else 60.0
    server = config(phase, mode, connect_timeout_seconds=seconds)
    if mode in FAILS:
        with pytest.raises(ServerError) as caught:
            await ServerLink(server).__aenter__()
        assert str(caught.value).startswith('server "h" ')
        assert FAILS[mode] in str(caught.value)
        assert str(caught.value).isprintable()
        return
    async with ServerLink(server) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}
        assert {"echo", "trouble"} <= tools.keys()
        assert all(warning.isprintable() for warning in toolset.status.warnings)
        assert toolset.status.title.isprintable()
        json.dumps([tool.definition.parameters for tool in tools.values()])
        await next_works(tools)


async def test_whatever_a_server_says_at_first_it_is_used_or_named() -> None:
    async with nothing_left():
        await at_once(connects_or_fails, [item for item in CONNECTING if item[1] in SOME])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(OTHERS), 8))
async def test_so_is_any_other(first: int) -> None:
    async with nothing_left():
        await at_once(connects_or_fails, OTHERS[first : first + 8])


TWO_AT_ONCE = """
import json, sys
calls = []
for line in sys.stdin:
    request = json.loads(line)
    method, key = request["method"], request.get("id")
    if key is None:
        continue
    if method == "initialize":
        about = {"name": "t", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        result = {"tools": [{"name": "trouble", "inputSchema": {"type": "object"}}]}
    else:
        calls.append(key)
        if len(calls) < 2:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": [], "error": {"code": 1, "message": "it broke"}}), flush=True)
        key, result = calls[0], {"content": [{"type": "text", "text": "fine"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": key, "result": result}), flush=True)
"""


async def test_an_answer_without_an_id_is_that_of_the_call_which_gets_no_other(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(TWO_AT_ONCE, "utf-8")
    server = ServerConfig("h", command=sys.executable, args=(str(tmp_path / "server.py"),), era="legacy")
    async with nothing_left(), ServerLink(server) as toolset:
        (tool,) = toolset.bound_tools()
        first, second = await asyncio.gather(tool.run({}), tool.run({}))
    assert sorted([first.error or "", second.error or ""]) == ["", "failed"]
    assert "fine" in (text_of(first), text_of(second))
