"""Agent cards: what is read, what is refused and with which words, and that a dump loads as the same card."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent import Agent, ConfigError, Limits, ToolSearch
from mcpagent.agents.cards.card import AgentCard, CardError, ToolSearchConfig
from mcpagent.agents.cards.reading import FOREIGN, load_card, load_cards, parse_card
from mcpagent.agents.cards.teams import card_servers, read_team
from mcpagent.agents.cards.writing import dump_card, save_card
from mcpagent.config import load_servers
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import AnthropicModel, FallbackModel, ModelSettings, OpenAIChatModel, ScriptedModel, resolve_model
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.toolsets.definition import RunOptions
from mcpagent.values.approval import PendingCall
from mcpagent.values.events import Event, Notice, RequestSent, RunFinished, ServerFailed, SubagentEvent
from tests.scenes import CountedTools, call, offered, results
from tests.tables import each_row

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "cards"
PATIENT = ServerOptions(startup_seconds=None)
PYTHON = {"command": sys.executable, "args": ["-m", "mcpagent.demo.server"]}


def read(fields: str, form: str = "md") -> AgentCard:
    """The card with these fields, as Markdown or as YAML."""
    text = f"---\n{fields}\n---\nYou help.\n" if form == "md" else f"{fields}\ninstruction: You help.\n"
    card = parse_card(text, Path(f"PATH.{form}"))
    assert card is not None
    return card


def refused(fields: str, form: str) -> tuple[str, str]:
    with pytest.raises(CardError) as caught:
        read(fields, form)
    assert "\n" not in str(caught.value)
    return caught.value.message.replace(f"PATH.{form}", "PATH"), caught.value.details


# -- tool_search (F1)

EAGER = "tool_search:\n  eager_tools:\n    github: "


@each_row("form", ["md", "yaml"])
@each_row(
    "fields, message, details",
    [
        ("tool_search: true", "'tool_search' must be a mapping in PATH", "Write 'tool_search: {enabled: true}'."),
        ("tool_search: bm25", "'tool_search' must be a mapping in PATH", "Got: str"),
        ("tool_search: [bm25]", "'tool_search' must be a mapping in PATH", "Got: list"),
        (
            "tool_search: {foo: 1, enabled: true}",
            "Unsupported fields for 'tool_search' in PATH",
            "Unknown fields: foo. Allowed: enabled, scope, strategy, eager_tools",
        ),
        ("tool_search: {enabled: 1}", "'tool_search.enabled' must be a boolean in PATH", "Got: 1"),
        ('tool_search: {enabled: "yes"}', "'tool_search.enabled' must be a boolean in PATH", "Got: 'yes'"),
        (
            "tool_search: {scope: all}",
            "'tool_search.scope' must be 'mcp' in PATH",
            "Got: 'all'. Only MCP tools can be deferred in this version",
        ),
        (
            "tool_search: {strategy: embedding}",
            "'tool_search.strategy' must be one of auto, bm25, regex in PATH",
            "Got: 'embedding'",
        ),
        (
            "tool_search: {strategy: [bm25]}",
            "'tool_search.strategy' must be one of auto, bm25, regex in PATH",
            "Got: ['bm25']",
        ),
        (
            "tool_search: {eager_tools: [a]}",
            "'tool_search.eager_tools' must be a mapping of server name to patterns in PATH",
            "Got: list",
        ),
        (
            'tool_search: {eager_tools: {"": [a]}}',
            "'tool_search.eager_tools' keys must be non-empty server names in PATH",
            "Got: ''",
        ),
        (
            "tool_search: {eager_tools: {1: [a]}}",
            "'tool_search.eager_tools' keys must be non-empty server names in PATH",
            "Got: 1",
        ),
        (
            EAGER + "search_*",
            "'tool_search.eager_tools.github' must be a list of patterns in PATH",
            "Write ['search_*'].",
        ),
        (
            EAGER + '[a, ""]',
            "'tool_search.eager_tools.github[1]' must be a non-empty string pattern in PATH",
            "Got: ''",
        ),
        (EAGER + "[7]", "'tool_search.eager_tools.github[0]' must be a non-empty string pattern in PATH", "Got: 7"),
    ],
)
def test_a_malformed_block_is_refused_in_these_words(fields: str, message: str, details: str, form: str) -> None:
    assert refused(fields, form) == (message, details)


@each_row("form", ["md", "yaml"])
def test_a_valid_block_is_read_in_order(form: str) -> None:
    card = read('tool_search: {enabled: true, strategy: bm25, eager_tools: {b: ["search_*", get], a: []}}', form)
    assert card.tool_search == ToolSearchConfig(True, "mcp", "bm25", {"b": ("search_*", "get"), "a": ()})
    assert card.tool_search is not None
    assert list(card.tool_search.eager_tools) == ["b", "a"]
    assert read("name: x", form).tool_search is None


@each_row(
    "fields, message, details",
    [
        (
            "toolsearch: 1",
            "Unsupported fields for type 'agent' in PATH",
            "Unknown fields: toolsearch (did you mean 'tool_search'?)",
        ),
        ("servers: github", "'servers' must be a list of strings in PATH", "Got: str"),
        ("agents: [1]", "'agents' must be a list of strings in PATH", "Got: list"),
        ("default: 1", "'default' must be a boolean in PATH", "Got: int"),
        ("limits: many", "'limits' must be a mapping in PATH", "Got: str"),
        (
            "limits: {turns: many}",
            "'limits' cannot be used in PATH",
            "Limits.turns: expected a whole number, 1 or more, or None, got str 'many'",
        ),
        (
            "limits: {turns: 0}",
            "'limits' cannot be used in PATH",
            "Limits.turns: expected a whole number, 1 or more, or None, got 0",
        ),
        (
            "limits: {turns: true}",
            "'limits' cannot be used in PATH",
            "Limits.turns: expected a whole number, 1 or more, or None, got True",
        ),
        (
            "limits: {seconds: .nan}",
            "'limits' cannot be used in PATH",
            "Limits.seconds: expected a number above 0 or None, got nan",
        ),
        (
            "limits: {steps: 3}",
            "'limits' has an unknown key in PATH",
            "Got: 'steps'. There are turns, tool_calls, tokens, dollars, seconds",
        ),
        ("large_result_tokens: -1", "'large_result_tokens' must be 0 or more in PATH", "Got: -1"),
        ("mcp_servers: []", "'mcp_servers' must be a mapping in PATH", "Got: list"),
        ("tools: {a: b}", "'tools.a' must be a list of patterns in PATH", "Write ['b']."),
        (
            "mcp_connect: [{name: a}]",
            "'mcp_connect[0]' needs a target in PATH",
            "Write {target: https://... or a command}.",
        ),
        (
            "type: router",
            "'type' must be 'agent' in PATH",
            "Got: 'router'. Other kinds of agents have no counterpart here; name the members in 'agents'",
        ),
        ("schema_version: 2", "'schema_version' must be 1 in PATH", "Got: 2"),
        ("model: [a]", "'model' must be a string in PATH", "Got: list"),
    ],
)
@each_row("form", ["md", "yaml"])
def test_other_fields_are_refused_in_these_words(fields: str, message: str, details: str, form: str) -> None:
    assert refused(fields, form) == (message, details)


@each_row(
    "text, words",
    [
        ("---\nname: [\n---\n", "PATH.md:3:1 is not YAML: "),
        ("---\ntools:\n  a:\n  - *_x\n---\n", "put a pattern that begins with a special character in quotes"),
        ("---\ntools:\n  a:\n  - !x\n---\n", "put a pattern that begins with a special character in quotes"),
        ("---\nname: a\nname: b\n---\n", 'PATH.md:3:1 is not YAML: "name" is given twice'),
        (f"---\na: {'[' * 20_000}\n---\n", "PATH.md:2:67 is not YAML: it nests deeper than 64 levels"),
        ("---\na: &x [1]\nb: *x\n---\n", "an alias (*) is not allowed"),
        ("---\n- a\n---\n", "PATH.md must hold a mapping: Got: list"),
        ("---\n1: a\n---\n", "Field names must be strings in PATH.md: Got: 1"),
        ("---\ninstruction: a\n---\nb\n", "'instruction' and a text below the fields in PATH.md"),
        ("---\nname: a\n---\nhi\n---USER\nb\n", "'---USER' is not supported in PATH.md"),
        ("---\nname: !!python/object/apply:os.system [ls]\n---\n", "is not YAML"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text: str, words: str) -> None:
    with pytest.raises(CardError) as caught:
        parse_card(text, Path("PATH.md"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "one card.md").write_bytes("\ufeff---\r\nmodel: offline\r\n---\r\n---SYSTEM\r\nYou é.\r\n".encode())
    (tmp_path / "notes.md").write_text("# No card\n")
    (tmp_path / "SKILL.md").write_text("---\nname: skill\n---\n")
    (tmp_path / "two.yaml").write_text("name: second\n")
    cards = load_cards(tmp_path)
    assert list(cards) == ["one_card", "second"]
    assert cards["one_card"].instruction == "You é."
    (tmp_path / "three.yml").write_text("name: second\n")
    with pytest.raises(CardError, match=r"Two cards are named 'second'"):
        load_cards(tmp_path)
    for path, words in [
        ("two.yml", "does not exist: did you mean 'two.yaml'?"),
        ("notes.md", "has no front matter"),
        ("SKILL.md", "is a skill"),
        ("a.txt", "is not an agent card"),
    ]:
        with pytest.raises(CardError) as caught:
            load_card(tmp_path / path)
        assert words in str(caught.value)
    with pytest.raises(CardError, match="is not a folder"):
        load_cards(tmp_path / "nope")


def test_files_that_are_no_cards(tmp_path: Path) -> None:
    (tmp_path / "large.md").write_bytes(b"-" * 1_000_001)
    (tmp_path / "latin.md").write_bytes("---\nname: é\n---\n".encode("latin-1"))
    (tmp_path / "folder.md").mkdir()
    for path, words in [
        ("large.md", "is larger than 1 MB: this cannot be an agent card"),
        ("latin.md", "is not UTF-8: save the file as UTF-8"),
        ("folder.md", "cannot be read: "),
        ("no/such/card.md", "does not exist: create it or give another path"),
    ]:
        with pytest.raises(CardError) as caught:
            load_card(tmp_path / path)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


@each_row(
    "text, words",
    [
        ("---\nname: \x00\n---\n", "PATH.md is not YAML: "),
        ("---\n---\nHello\n", ""),
        ("---\nmcp_connect: [text]\n---\n", "'mcp_connect' must be a list of mappings in PATH.md"),
        ("---\ndescription: 2026-01-01\n---\n", ""),
    ],
)
def test_rare_front_matter(text: str, words: str) -> None:
    if not words:
        assert parse_card(text, Path("PATH.md")) is not None
        return
    with pytest.raises(CardError) as caught:
        parse_card(text, Path("PATH.md"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_servers_of_a_card_from_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}')
    write_team(tmp_path, lead="servers: [a]\nagents: [worker]\ndefault: true", worker="mcp_config: own.json")
    (tmp_path / "own.json").write_text('{"mcpServers": {"c": {"command": "z"}, "d": {"command": "z"}}}')
    lead = load_card(tmp_path / "lead.md")
    assert [server.name for found in read_team(lead, {}).servers.values() for server in found.servers] == [
        "a",
        "c",
        "d",
    ]
    with pytest.raises(CardError, match=r"'servers' names 'bb' in .*, which is not configured: did you mean 'b'\?"):
        card_servers(replace(lead, servers=("bb",)), {})
    with pytest.raises(CardError, match=r"'mcp_connect\[0\].target' is not a command in .*: No closing quotation"):
        card_servers(replace(lead, mcp_connect=({"target": "run 'x"},)), {})
    narrowed = replace(lead, servers=("a", "b"), tools={"a": (), "b": ("read_*",)})
    assert [(server.enabled_tools, server.disabled_tools) for server in card_servers(narrowed, {}).servers] == [
        ((), ("*",)),
        (("read_*",), ()),
    ]


def test_a_card_of_an_agent_names_its_servers(tmp_path: Path) -> None:
    servers = load_servers({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    assert Agent("offline", mcp_config=servers).to_card("one").servers == ("a", "b")
    assert Agent("offline", mcp_config=list(servers.servers[:1])).to_card("two").servers == ("a",)
    assert Agent("offline", mcp_config=tmp_path / "mcp.json").to_card("three").mcp_config == str(tmp_path / "mcp.json")


# -- round trips (F2)

WORDS = st.text(min_size=1, max_size=12)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,12}", fullmatch=True)
PATTERN_LISTS = st.lists(st.text(min_size=1).filter(str.strip), max_size=3).map(tuple)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["${TOKEN}", "2024-01-01", "yes", "*x", "!a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
INSTRUCTIONS = st.one_of(
    st.text(max_size=60), st.sampled_from(["---SYSTEM\nx", "a\n---\nb", "---USER", "---", "a\r\nb", "  x", "${HOME}"])
).map(lambda text: text.replace("\r\n", "\n").strip())
CARDS = st.builds(
    AgentCard,
    name=NAMES,
    instruction=INSTRUCTIONS,
    description=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12).map(str.strip),
    default=st.booleans(),
    model=st.sampled_from(["", "offline", "${MODEL}", "offline, ${MODEL}?temperature=0"]),
    servers=st.lists(NAMES, max_size=2).map(tuple),
    tools=st.dictionaries(NAMES, PATTERN_LISTS, max_size=2),
    mcp_servers=st.dictionaries(NAMES, st.dictionaries(WORDS, VALUES, max_size=2), max_size=2),
    mcp_connect=st.lists(
        st.fixed_dictionaries({"target": st.sampled_from(["https://h/m", "run ${X}"])}), max_size=2
    ).map(tuple),
    tool_search=st.none()
    | st.builds(
        ToolSearchConfig,
        enabled=st.booleans(),
        strategy=st.sampled_from(["auto", "bm25", "regex"]),
        eager_tools=st.dictionaries(NAMES, PATTERN_LISTS, max_size=2),
    ),
    agents=st.lists(NAMES, max_size=2).map(tuple),
    limits=st.builds(
        Limits,
        turns=st.none() | st.integers(1, 9),
        tokens=st.none() | st.integers(1, 10**9),
        seconds=st.none() | st.floats(0.5, 900),
    ),
    large_result_tokens=st.none() | st.integers(0, 9),
    request_params=st.dictionaries(WORDS, VALUES, max_size=2),
    api_key=st.sampled_from(["", "${KEY}"]),
    foreign=st.dictionaries(st.sampled_from(sorted(FOREIGN)), VALUES, max_size=2),
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(CARDS)
def test_dumping_and_loading_is_a_fixpoint(card: AgentCard) -> None:
    for form in ("md", "yaml"):
        text = dump_card(card, form)
        loaded = parse_card(text, Path(f"x.{form}"))
        assert loaded == card
        assert dump_card(loaded, form) == text
        assert text.encode().decode() == text


def test_the_dump_has_only_what_is_set_in_the_cards_order() -> None:
    config = ToolSearchConfig(True, "mcp", "bm25", {"github": ("search_*", "get_issue")})
    card = AgentCard("helper", "You help.", model="offline", tool_search=config, agents=("other",))
    assert dump_card(card) == (
        "---\nname: helper\nmodel: offline\ntool_search:\n  enabled: true\n  strategy: bm25\n  eager_tools:\n"
        "    github:\n    - search_*\n    - get_issue\nagents:\n- other\n---\n\nYou help.\n"
    )
    assert (
        dump_card(AgentCard("a", tool_search=ToolSearchConfig()), "yaml") == "name: a\ntool_search:\n  enabled: false\n"
    )
    assert dump_card(AgentCard("a"), "yaml") == "name: a\n"


def test_secrets_stay_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "sk-SECRET")
    path = tmp_path / "a.md"
    path.write_text(
        "---\nmodel: anthropic:claude-x\napi_key: ${GITHUB_TOKEN}\nmcp_servers:\n  g:\n    url: https://h/mcp\n"
        "    headers: {Authorization: 'Bearer ${GITHUB_TOKEN}'}\n---\nHi\n"
    )
    agent = Agent.from_card(path)
    card = agent.to_card()
    [server] = card_servers(card).servers
    assert server.headers["Authorization"] == "Bearer sk-SECRET"
    for form in ("md", "yaml"):
        assert "sk-SECRET" not in dump_card(card, form)
        assert dump_card(card, form).count("${GITHUB_TOKEN}") == 2
    save_card(card, tmp_path / "b.yaml")
    assert load_card(tmp_path / "b.yaml") == replace(card, name="a")
    with pytest.raises(CardError, match=r"'api_key' must be an environment variable") as caught:
        Agent.from_card(replace(card, api_key="sk-SECRET"))
    assert "sk-SECRET" not in str(caught.value)
    written_out = replace(
        card,
        api_key="sk-SECRET",
        mcp_servers={"g": {"command": "x", "env": {"A_TOKEN": "sk-SECRET"}}},
        mcp_connect=({"target": "https://h/", "headers": {"Authorization": "sk-SECRET"}},),
    )
    assert "sk-SECRET" not in repr(written_out)


# -- agents of cards


@pytest.mark.slow
@pytest.mark.parametrize("name", ["timekeeper.md", "bookkeeper.yaml", ""])
async def test_the_example_cards_run_offline(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCPAGENT_PYTHON", raising=False)
    events: list[Event] = []
    async with Agent.from_card(EXAMPLES / name, on_event=events.append, options=RunOptions(servers=PATIENT)) as agent:
        answer = await agent.ask("What time is it in Tokyo?" if name == "timekeeper.md" else "What is 12 * 12?")
    assert ("Tokyo" if name == "timekeeper.md" else "144") in answer
    assert not [event for event in events if isinstance(event, Notice) and event.level == "warning"]
    if not name:
        assert {event.path for event in events if isinstance(event, SubagentEvent)} == {("bookkeeper",)}


def test_example_cards_are_as_they_would_be_dumped() -> None:
    for path, card in ((Path(card.path), card) for card in load_cards(EXAMPLES).values()):
        again = parse_card(dump_card(card, "md" if path.suffix == ".md" else "yaml"), path)
        assert again == card


def write_team(folder: Path, **cards: str) -> Path:
    for name, fields in cards.items():
        (folder / f"{name}.md").write_text(f"---\n{fields}\n---\nYou are {name}.\nMore.\n")
    return folder


async def test_a_team_is_tools_of_each_other_each_with_its_own_context(tmp_path: Path) -> None:
    write_team(
        tmp_path, lead="agents: [worker]\ndefault: true", worker="agents: [lead]\nlimits: {turns: 3}\nmodel: offline"
    )
    model = ScriptedModel([call("worker", prompt="hello"), "done"])
    async with Agent.from_card(tmp_path, model=model) as lead:
        assert await lead.ask("go") == "done"
    [tool] = model.requests[0].tools
    assert (tool.name, tool.description) == ("worker", "You are worker.")
    assert model.requests[0].system.startswith("You are lead.")


@pytest.mark.slow
async def test_what_needs_approval_needs_it_in_every_member(tmp_path: Path) -> None:
    write_team(
        tmp_path,
        lead="agents: [worker]\ndefault: true",
        worker=f"mcp_servers: {json.dumps({'demo': PYTHON})}\nmodel: offline",
    )
    model = ScriptedModel([call("worker", prompt="What is 12 * 12?"), "done"])
    asked: list[str] = []

    def decide(request: PendingCall) -> bool:
        asked.append(request.tool)
        return request.tool == "worker"

    async with Agent.from_card(
        tmp_path, model=model, approval=ApprovalPolicy(True, decide), options=RunOptions(servers=PATIENT)
    ) as lead:
        await lead.ask("go")
        assert "144" not in results(lead.messages)[0].text
    assert asked[0] == "worker"
    assert len(asked) > 1


async def test_a_member_whose_server_fails_is_told_to_who_listens(tmp_path: Path) -> None:
    broken = {"command": sys.executable, "args": ["-c", "raise SystemExit('no key')"]}
    write_team(
        tmp_path,
        lead="agents: [worker]\ndefault: true",
        worker=f"mcp_servers: {json.dumps({'files': broken})}\nmodel: offline",
    )
    events: list[Event] = []
    async with Agent.from_card(
        tmp_path,
        model=ScriptedModel([call("worker", prompt="hi"), "done"]),
        on_event=events.append,
        options=RunOptions(servers=PATIENT),
    ) as lead:
        assert [(event.server, "no key" in event.reason) for event in events if isinstance(event, ServerFailed)] == [
            ("files", True)
        ]
        await lead.ask("go")
    # What a member does in a run comes once, as the lead's.
    assert sum(isinstance(event, RunFinished) for event in events) == 1
    assert {event.path for event in events if isinstance(event, SubagentEvent)} == {("worker",)}


@pytest.mark.slow
async def test_what_servers_share_holds_for_those_of_members(tmp_path: Path) -> None:
    write_team(
        tmp_path,
        lead="agents: [worker]\ndefault: true",
        worker=f"mcp_servers: {json.dumps({'demo': PYTHON})}\nmodel: offline",
    )
    options = ServerOptions(startup_seconds=None, log_folder=tmp_path / "logs", selected_servers=())
    async with Agent.from_card(tmp_path, model=ScriptedModel([]), options=RunOptions(servers=options)) as lead:
        assert list(lead.servers) == []
        # The selection is the lead's own; where servers write their logs is not.
        assert [path.name for path in (tmp_path / "logs").iterdir()] == ["demo.log"]


@each_row(
    "cards, words",
    [
        (
            {"a": "agents: [workr]\ndefault: true", "worker": "model: offline"},
            "which is no card: did you mean 'worker'?",
        ),
        ({"a": "agents: [a]"}, "'agents' names the card itself"),
        (
            {"a": "model: offline", "b": "model: offline"},
            "has no one card to begin with: write 'default: true' into one of: a, b",
        ),
        ({"a": "servers: [github]\nmcp_config: none.json"}, "none.json"),
        ({"a": "request_params: {temperature: hot}"}, "'request_params.temperature' cannot be used"),
    ],
)
def test_teams_that_cannot_be_are_named(cards: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Agent.from_card(write_team(tmp_path, **cards))
    assert words in str(caught.value)


async def test_a_fast_agent_card_loads_and_what_means_nothing_here_is_named(tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text(
        "---\ntype: smart\nname: old card\ndescription: Old.\ndefault: true\nuse_history: true\n"
        "model: ${OLD:-offline}\nskills: [writing]\nrequest_params:\n  maxTokens: 4096\n  max_iterations: 3\n---\n\n"
        "You help on {{currentDate}}.\n"
    )
    events: list[Event] = []
    async with Agent.from_card(tmp_path, on_event=events.append, options=RunOptions(servers=PATIENT)) as agent:
        assert agent._runtime.model.name.startswith("offline")
        assert (
            agent._runtime.definition.options.limits.turns,
            agent._runtime.definition.options.settings.max_output_tokens,
        ) == (3, 4096)
    assert [event.text.removeprefix(f"{tmp_path}/") for event in events if isinstance(event, Notice)] == [
        "old.md: 'skills' has no counterpart here and does nothing",
        "old.md: {{currentDate}} in the instruction is not filled in here",
    ]
    with pytest.raises(CardError, match="'model' needs the environment variable NO_SUCH_MODEL"):
        Agent.from_card(AgentCard("a", model="${NO_SUCH_MODEL}"))


def test_servers_come_from_the_configuration_beside_the_card(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"mcpServers": {"files": {"command": "f"}, "web": {"command": "w"}}}')
    card = AgentCard("a", mcp_config="servers.json", servers=("web",), path=str(tmp_path / "a.md"))
    assert [server.name for server in card_servers(card).servers] == ["web"]
    assert [server.name for server in card_servers(replace(card, servers=())).servers] == ["files", "web"]
    with pytest.raises(CardError, match=r"'servers' names 'wep' in .* did you mean 'web'"):
        card_servers(replace(card, servers=("wep",)))
    connect = (
        {"target": "npx -y 'a b'", "name": "n", "defer_loading": True},
        {"target": "https://h/mcp", "headers": {"A": "${T}"}},
    )
    both = card_servers(AgentCard("a", mcp_connect=connect), environ={"T": "x"}).servers
    assert [(item.name, item.command, tuple(item.args), item.url, dict(item.headers)) for item in both] == [
        ("n", "npx", ("-y", "a b"), "", {}),
        ("server2", "", (), "https://h/mcp", {"A": "x"}),
    ]
    assert both[0].defer_loading is True


# -- what is deferred (F3)


@each_row(
    "eager, expected",
    [
        ({}, set()),
        ({"demo": ["calculate"]}, {"calculate"}),
        ({"demo": ["CALCULATE"]}, set()),
        ({"demo": ["[c]alculate"]}, {"calculate"}),
        ({"demo": ["!calculate"]}, set()),
        ({"demo": []}, set()),
        ({"demo": ["calc*", "percent_of"]}, {"calculate", "percent_of"}),
        ({"other": ["*"]}, set()),
    ],
)
async def test_eager_and_deferred_tools_of_a_card(eager: Any, expected: set[str]) -> None:
    card = AgentCard("a", tool_search=ToolSearchConfig(True, eager_tools=eager))
    demo = CountedTools("calculate", "percent_of", "percentage_change", server="demo")
    events: list[Event] = []

    def local() -> str:
        return "mine"

    model = ScriptedModel(["ok"])
    async with Agent.from_card(
        card, model=model, on_event=events.append, tools=[local, demo], options=RunOptions(servers=PATIENT)
    ) as agent:
        await agent.ask("go")
        shown = set(offered(model.requests[0]))
        assert shown == {"search_tools", "add_tool", "local"} | expected
    [sent] = [event for event in events if isinstance(event, RequestSent)]
    assert sent.searches
    assert sent.eager_tools == len(expected) + 1
    assert sent.deferred_tools == sent.known_tools - sent.eager_tools


async def test_a_disabled_or_absent_block_and_one_that_defers_nothing_send_the_same_request() -> None:
    requests = []
    blocks = (None, ToolSearchConfig(False), ToolSearchConfig(True, eager_tools={"demo": ("*",)}))
    for block in blocks:
        card = AgentCard("a", tool_search=block)
        model = ScriptedModel(["ok"])
        async with Agent.from_card(card, model=model, tools=[CountedTools("a", "b", server="demo")]) as agent:
            await agent.ask("go")
        requests.append(model.requests)
    assert requests[0] == requests[1] == requests[2]
    assert "search_tools" not in offered(requests[0][0])


@pytest.mark.slow
async def test_what_a_card_cannot_have_meant_is_warned_of_when_the_agent_starts() -> None:
    eager = {"Demo": ("a",), "demo": ("demo__calc*", "nothing_*", "calculate")}
    card = AgentCard(
        "a",
        mcp_servers={"demo": PYTHON},
        tool_search=ToolSearchConfig(True, eager_tools=eager),
        foreign={"skills": ["x"], "shell": True, "use_history": True, "human_input": False},
        request_params={"maxTokens": 100, "template_vars": {}},
    )
    events: list[Event] = []
    async with Agent.from_card(
        card, model=ScriptedModel([]), on_event=events.append, options=RunOptions(servers=PATIENT)
    ) as agent:
        assert agent._runtime.definition.options.settings.max_output_tokens == 100
        known = len(agent.known_tools) - 0
    warnings = [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert warnings == [
        "card a: 'skills' has no counterpart here and does nothing",
        "card a: 'shell' has no counterpart here and does nothing",
        "card a: 'request_params.template_vars' has no counterpart here and does nothing",
        "tool_search.eager_tools.Demo: the server is not attached; did you mean 'demo'?",
        'tool_search.eager_tools.demo: the pattern "demo__calc*" looks namespaced; write "calc*"',
        warnings[-1],
    ]
    assert warnings[-1].startswith('tool_search.eager_tools.demo: the pattern "nothing_*" matches none of the ')
    assert known > 50


@pytest.mark.slow
async def test_a_filtered_tool_of_a_card_cannot_be_called_found_or_added() -> None:
    card = AgentCard(
        "a",
        mcp_servers={"demo": PYTHON},
        tools={"demo": ("calculate", "percentage_*")},
        tool_search=ToolSearchConfig(True, eager_tools={"demo": ("percent*",)}),
    )
    asks = [
        call("percent_of", percent=1, total=2),
        call("add_tool", tool_names=["percent_of"]),
        call("search_tools", query="percent_of"),
    ]
    model = ScriptedModel([asks, "ok"])
    async with Agent.from_card(card, model=model, options=RunOptions(servers=PATIENT)) as agent:
        await agent.ask("go")
        assert sorted(agent.known_tools) == ["calculate", "percentage_change"]
        assert list(agent.all_deferred_tools) == ["calculate"]
        called, added, searched = results(agent.messages)
    assert called.error == "unknown_tool"
    assert added.text.startswith("Not found: percent_of")
    assert '"name": "percent_of"' not in searched.text


async def test_code_mode_comes_back_from_a_card_with_all_functions_in_it() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    agent = Agent(ScriptedModel([]), tools=[look], code_mode=True)
    card = agent.to_card("mine")
    assert (card.code_mode, card.tool_search) == (True, None)
    async with agent, Agent.from_card(card, model=ScriptedModel([]), tools=[look]) as again:
        assert [tool.name for tool in again.offered_tools()] == ["search_tools", "run_code"]
        assert again.offered_tools() == agent.offered_tools()


def test_a_card_of_an_agent_made_in_code() -> None:
    config = {"mcpServers": {"g": {"url": "https://h", "headers": {"A": "${T}"}}}}
    agent = Agent(
        "offline",
        mcp_config=config,
        instructions="You help.",
        tool_search=ToolSearch(strategy="bm25", eager_tools={"g": ["a*"]}),
        tools=[CountedTools("x")],
        options=RunOptions(limits=Limits(turns=7), large_result_tokens=0),
    )
    card = agent.to_card("mine")
    assert card == AgentCard(
        "mine",
        "You help.",
        model="offline",
        mcp_servers=config["mcpServers"],
        limits=Limits(turns=7),
        large_result_tokens=0,
        tool_search=ToolSearchConfig(True, "mcp", "bm25", {"g": ("a*",)}),
    )
    assert parse_card(dump_card(card), Path("x.md")) == card
    again = Agent.from_card(card)
    assert (again._runtime.definition.options.limits.turns, again._runtime.definition.options.large_result_tokens) == (
        7,
        0,
    )
    asked = Agent.from_card(card, options=RunOptions(large_result_tokens=500))
    assert asked._runtime.definition.options.large_result_tokens == 500


@each_row("number", [5, 100, 10_000])
def test_what_is_asked_for_goes_before_a_card_also_where_it_is_what_is_usual(number: int) -> None:
    card = AgentCard("a", model="offline", limits=Limits(turns=7, tokens=9), large_result_tokens=70)
    asked = RunOptions(limits=Limits(turns=number), large_result_tokens=number)
    options = Agent.from_card(card, options=asked)._runtime.definition.options
    assert (options.limits, options.large_result_tokens) == (Limits(turns=number, tokens=9), number)
    by_params = AgentCard("a", model="offline", request_params={"max_iterations": 7})
    assert Agent.from_card(by_params, options=asked)._runtime.definition.options.limits.turns == number
    assert Agent("offline", options=asked).to_card().limits.turns == number
    assert Agent.from_card(card, options=RunOptions())._runtime.definition.options.limits.turns == 7


KEYS = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "MY_KEY": "k"}
CHOICES: dict[str, tuple[Any, Any]] = {
    "a name": ("anthropic:claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
    "nothing": (None, ""),
    "a chain": (["anthropic:claude-sonnet-5-5", "ollama:qwen3"], "anthropic:claude-sonnet-5-5, ollama:qwen3"),
    "a chain of one": (["ollama:qwen3"], "ollama:qwen3"),
    "an object": (AnthropicModel("claude-opus-5-5"), "anthropic:claude-opus-5-5"),
    "an object with options": (
        OpenAIChatModel(
            "m", base_url="http://localhost:8000/v1", settings=ModelSettings(16, 0.5), key_variable="MY_KEY"
        ),
        "openai-chat:m?base_url=http://localhost:8000/v1&api_key_env=MY_KEY&max_output_tokens=16&temperature=0.5",
    ),
    "an object that is a chain": (
        FallbackModel([AnthropicModel("claude-opus-5-5"), ScriptedModel([])]),
        "anthropic:claude-opus-5-5",
    ),
    "a chain of both": ([AnthropicModel("claude-opus-5-5"), "offline"], "anthropic:claude-opus-5-5, offline"),
    "the stand-in": (resolve_model("offline"), "offline"),
    "code": (ScriptedModel(["hello"]), ""),
}


@each_row("form", ["md", "yaml"])
@each_row("choice", list(CHOICES))
def test_the_model_of_a_card_can_be_read_back(
    choice: str, form: Literal["md", "yaml"], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, written = CHOICES[choice]
    card = Agent(chosen, instructions="You help.").to_card("mine")
    assert card.model == written
    read = parse_card(dump_card(card, form), Path(f"x.{form}"))
    assert read == card
    for variable, key in KEYS.items():
        monkeypatch.setenv(variable, key)
    again = Agent.from_card(card, mcp_config={})._runtime.model_choice
    assert Agent(again, instructions="You help.").to_card("mine") == card
    if written:
        resolve_model(again, environ=KEYS)  # raises nothing: each name means a model


def test_one_key_is_not_for_a_chain() -> None:
    card = AgentCard("x", model="openai:gpt-5.5, ollama:qwen3", api_key="${MY_KEY}", path="x.md")
    with pytest.raises(CardError, match=r"'api_key' is for one model, and 'model' names several in x\.md"):
        Agent.from_card(card, mcp_config={})


async def test_a_card_names_the_model_that_was_chosen_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "k")
    path = tmp_path / "helper.md"
    path.write_text("---\nname: helper\nmodel: openai:gpt-4o\napi_key: ${MY_KEY}\nlimits: {turns: 7}\n---\nYou help.\n")
    async with Agent.from_card(path, mcp_config={"mcpServers": {}}) as agent:
        before = agent.to_card()
        await agent.use_model("ollama:qwen3")
        after = agent.to_card("other")
    assert (before.model, before.api_key) == ("openai:gpt-4o", "${MY_KEY}")
    assert (after.name, after.model, after.api_key, after.instruction) == (
        "other",
        "ollama:qwen3",
        "",
        before.instruction,
    )
    assert resolve_model(after.model, environ={}).name == "ollama:qwen3"
