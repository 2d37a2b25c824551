"""Every example in README.md and docs/ is run, and what it prints is what stands there.

- A `python` block is a whole script. A `text` or `json` block right after it is what it prints.
- A `console` block holds commands after `$ ` and their output.
- Any other `json` block parses; one with servers in it is read as a configuration.
- `...` in an expected output stands for anything, as in doctest. Seconds, clock times, days, scores and numbers of
  tokens and of many tools may differ from what stands there.
- Every other kind of block with commands must be named in `NOT_RUN`, with who runs it in its place.

An example that names `mcp_servers.json` finds one of two real servers, any other no configuration. There are no keys:
names of providers' models are replaced by the offline stand-in, and agents wait for their servers however busy the
machine is. Ollama, an endpoint for embeddings and GitHub are those of `tests/servers/stand_ins.py`. An example that
imports from Claude Desktop finds the first `json` block of its page as that program's configuration.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mcpagent.config import load_servers
from mcpagent.demo import demo_server_config
from tests.made_files import pdf
from tests.servers.stand_ins import TOKEN, stand_ins
from tests.tables import each_row
from tests.terminal.warm import run_in_shell, run_script

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

NOT_RUN = {
    ("README.md", "python3 examples/tool_search/run.py"): "tests/examples/test_tool_search.py, slow lane",
    (
        "README.md",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest -n 3 -m 'not slow'",
    ): (".ci/run"),
    **{
        (page, line): "tests/examples/test_pages_as_written.py, slow lane"
        for page in ("README.md", "docs/quickstart.md")
        for line in (
            "git clone https://github.com/mcpagent/mcpagent",
            "cd mcpagent",
            "python3 -m venv .venv",
            ". .venv/bin/activate",
            "pip install -e .",
        )
    },
    **{
        ("docs/install.md", line): "tests/examples/test_pages_as_written.py, slow lane"
        for line in (
            "git clone https://github.com/mcpagent/mcpagent",
            "cd mcpagent",
            "pip install -e .",
            "uv tool install .",
            "pipx install .",
            "uvx --from . mcpagent --version",
        )
    },
    ("docs/install.md", "pip install -e '.[semantic]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[multilingual]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[tables]'"): "benchmarks/dependencies.py --extras",
    ("docs/install.md", "pip install -e '.[postgres]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[durable]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[query]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[otel]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/code-mode.md", "pip install -e '.[code]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[code]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[images]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[pdf]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[documents]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/install.md", "pip install -e '.[lancedb]'"): "benchmarks/dependencies.py --extras",
    ("docs/documents.md", "pip install -e '.[lancedb]'"): "benchmarks/dependencies.py --extras",
    ("docs/documents.md", "pip install -e '.[documents]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/durable.md", "pip install -e '.[durable]'"): ".ci/run, as a part of the extra of the tests",
    ("docs/tracing.md", "pip install -e '.[otel]'"): ".ci/run, as a part of the extra of the tests",
    **{
        ("docs/tracing.md", line): "tests/journal/tracing/test_otel_setup.py, slow lane"
        for line in (
            "export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318",
            "export OTEL_SERVICE_NAME=my-agent",
            'mcpagent -p "what is 17% of 2450?"',
        )
    },
    (
        "docs/durable.md",
        "mcpagent worker --database postgresql://agent@db/agent --model anthropic:claude-sonnet-5-5",
    ): "tests/cli/oneshot/test_durable_worker.py, in files and offline",
    ("docs/openapi.md", "npm pack @octokit/openapi && tar xzf octokit-openapi-*.tgz"): "benchmarks/openapi.py",
    ("docs/openapi.md", "mcpagent keys set GITHUB_TOKEN"): "tests/cli/approvals/test_key_commands.py, another name",
    **{
        ("docs/openapi.md", line): "tests/examples/test_openapi.py, slow lane"
        for line in (
            "pip install fastapi uvicorn",
            "uvicorn examples.openapi.service:app --port 8000",
            'mcpagent tools search "what is in stock" --openapi shop=http://127.0.0.1:8000/openapi.json',
            "mcpagent chat --openapi shop=http://127.0.0.1:8000/openapi.json",
        )
    },
    ("docs/embeddings.md", "pip install -e '.[semantic]'"): ".ci/run, as a part of the extra of the tests",
}
"""Commands that a `sh` block shows, by page, and who runs them."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODEL = re.compile(r'(?<=Agent\()(\s*)"(?:anthropic|openai|openai-chat|gemini|openrouter|vllm):[^"\s]*"')
KEYS = re.compile(r"_API_KEY$|^MCPAGENT_|_AUTH_TOKEN$|_BASE_URL$|^OLLAMA_HOST$|^GITHUB_TOKEN$|^XDG_")
VARYING = re.compile(
    r"""\d[\d,.]*(?=\ (?:ms|s|tokens|tok)\b)
    | \d{2,}(?=\ tools\b) | (?<=tokens\ of\ )\d[\d,]* | (?<=every\ tool\ )[\d,]+
    | \d+(?=\ of\ \d+\ tools\ match) | \b\d\d:\d\d(?::\d\d)?\b | \b[A-Z][a-z]+day,\ \d{1,2}\ [A-Z][a-z]+\ \d{4}\b
    | (?<=^\ \ \d)\ +\d+\.\d(?=\ \ \w) | \b\d+(?=\ \ [A-Z][a-z])""",
    re.VERBOSE | re.MULTILINE,
)
PATIENT = """from mcpagent import ServerOptions
create = ServerOptions.__init__.__wrapped__
create.__defaults__ = (None, None, None, *create.__defaults__[3:])
assert ServerOptions().startup_seconds is None
del ServerOptions, create
"""
LIKE_DOCTEST = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECONDS = 100


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `output` is the text of the block that directly follows a script."""

    page: str
    line: int
    kind: str
    text: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text("utf-8")
        name = page.relative_to(ROOT).as_posix()
        found = list(BLOCK.finditer(text))
        outputs: set[int] = set()
        for match, after in zip(found, [*found[1:], None], strict=False):
            if match.start() in outputs:
                continue
            output = None
            is_output = (
                after is not None and after[1] in ("text", "json") and not text[match.end() : after.start()].strip()
            )
            if match[1] == "python" and after is not None and is_output:
                output = after[2]
                outputs.add(after.start())
            yield Block(name, text.count("\n", 0, match.start()) + 1, match[1], match[2], output)


BLOCKS = list(blocks())


def of_kind(kind: str, *, slow_beyond_readme: bool = False) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.kind == kind]
    marked = [
        pytest.param(block, marks=pytest.mark.slow) if slow_beyond_readme and block.page != "README.md" else block
        for block in chosen
    ]
    return pytest.mark.parametrize("block", marked, ids=[str(block) for block in chosen])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an example runs, with a text file in it."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("Buy milk.\n", "utf-8")
    (work / "report.pdf").write_bytes(pdf("Sales grew."))
    return work


def configured(block: Block, folder: Path) -> Path:
    """The folder, with `mcp_servers.json` where the example names it: the demo server and a small weather server."""
    weather = {"command": sys.executable, "args": [str(ROOT / "tests" / "servers" / "weather_server.py")]}
    servers = {**demo_server_config()["mcpServers"], "weather": weather}
    if "claude-desktop" in block.text:
        [first, *_] = [other.text for other in BLOCKS if other.page == block.page and other.kind == "json"]
        claude = folder.parent / "user" / ".config" / "Claude" / "claude_desktop_config.json"
        claude.parent.mkdir(parents=True)
        claude.write_text(first, "utf-8")
    if "token.txt" in block.text:
        (folder / "token.txt").write_text(TOKEN, "utf-8")
    if "mcp_servers.json" in block.text:
        (folder / "mcp_servers.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return folder


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """The address of what stands in for servers that are not of this computer."""
    with stand_ins() as address:
        yield address


def there(text: str, address: str) -> str:
    """The example with addresses that lead to the stand-ins."""
    for place in ("https://api.githubcopilot.com", "http://localhost:11434"):
        text = text.replace(place, address)
    return text


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """What a reader's shell has who works in this folder: no keys, an empty home, and warnings are errors."""
    unwanted = re.compile(rf"{KEYS.pattern}|^PYTHONDONTWRITEBYTECODE$")
    inherited = {name: value for name, value in os.environ.items() if not unwanted.search(name)}
    home = folder.parent / "user"
    home.mkdir(exist_ok=True)
    return {
        **inherited,
        **variables,
        "HOME": str(home),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        "MCPAGENT_HOME": str(folder.parent / "home"),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "TERM": "dumb",
        "PYTHONWARNINGS": "error",
        "MCPAGENT_TRUST_PROJECT": "1",  # nobody is there to say yes to the folder's servers
    }


def assert_prints(block: Block, expected: str, got: str) -> None:
    if not doctest.OutputChecker().check_output(VARYING.sub("0", expected), VARYING.sub("0", got), LIKE_DOCTEST):
        pytest.fail(f"{block} does not print what stands there\n--- page\n{expected}\n--- printed\n{got}")


@of_kind("python", slow_beyond_readme=True)
def test_scripts_run_and_print_what_the_page_says(block: Block, folder: Path, elsewhere: str) -> None:
    script = folder / "example.py"
    script.write_text(PATIENT + MODEL.sub(r'\1"offline"', there(block.text, elsewhere)), "utf-8")
    variables = environment(configured(block, folder), OLLAMA_HOST=elsewhere, GITHUB_TOKEN=TOKEN)
    done = run_script(script, folder, variables)
    assert done.returncode == 0, f"{block} fails:\n{done.stderr}"
    if block.output is not None:
        assert_prints(block, block.output, done.stdout)


def test_the_readmes_script_without_a_key_ends_with_one_line(folder: Path) -> None:
    """With the provider's model in place of the offline one."""
    [block] = [block for block in BLOCKS if block.page == "README.md" and block.kind == "python"]
    script = folder / "example.py"
    script.write_text(block.text.replace('"offline"', '"anthropic:claude-sonnet-5-5"'), "utf-8")
    done = run_script(script, folder, environment(configured(block, folder)))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"error: ANTHROPIC_API_KEY is not set; export .*\n", done.stderr)


@pytest.mark.slow
@of_kind("console", slow_beyond_readme=True)
def test_commands_print_what_the_page_says(block: Block, folder: Path, elsewhere: str) -> None:
    assert block.text.startswith("$ "), f"{block}: a console block begins with a command"
    work = configured(block, folder)
    for part in re.split(r"^\$ ", there(block.text, elsewhere), flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        while command.endswith("\\"):
            more, _, expected = expected.partition("\n")
            command = f"{command[:-1].rstrip()} {more.strip()}"
        done = run_in_shell(command, work, environment(work, OLLAMA_HOST=elsewhere))
        assert_prints(block, expected, done.stdout + done.stderr)


@of_kind("json")
def test_json_is_json_and_configurations_are_read(block: Block) -> None:
    text = re.sub(r"^\s*//.*$", "", block.text, flags=re.MULTILINE)
    document = json.loads(text)
    if isinstance(document, dict) and not {"mcpServers", "servers"}.isdisjoint(document):
        variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "value")
        loaded = load_servers(document, environ=variables)
        assert loaded.servers
        assert not loaded.problems


def test_commands_that_are_not_run_here_are_known() -> None:
    shown = {(block.page, line) for block in BLOCKS if block.kind in ("sh", "bash") for line in block.text.splitlines()}
    assert shown == set(NOT_RUN)


@each_row("page", [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md"))])
def test_what_is_on_no_index_is_not_installed_from_one(page: Path) -> None:
    """mcpagent is installed from its folder, `-e .`, whatever installs it."""
    by_name = r"""(?:pip3?\ install|pipx\ (?:install|run)|uvx|uv\ (?:add|pip\ install|tool\ (?:install|run)))
        (?:\ +-\S+)*\ +["']?mcpagent\b"""
    assert not re.search(by_name, page.read_text("utf-8"), re.VERBOSE)


def test_the_table_of_sizes_names_the_extras_that_there_are() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = set(re.findall(r"`\[(\w+)\]` adds", page)) | {"test", "docs", "bench"}
    assert named == set(project["optional-dependencies"])


def test_every_block_says_what_it_is() -> None:
    known = {"python", "console", "json", "text", "sh"}
    wrong = [str(block) for block in BLOCKS if block.kind not in known]
    assert not wrong, f"give these blocks one of the kinds {', '.join(sorted(known))}: {', '.join(wrong)}"
    for page in PAGES:
        fences = [line for line in page.read_text("utf-8").splitlines() if line.startswith("```")]
        assert all(fence != "```" for fence in fences[::2]), f"{page.name}: a block without a kind"


@each_row("page", [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "AGENTS.md", "SECURITY.md"))])
def test_links_lead_somewhere(page: Path) -> None:
    words = re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", words):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: nothing at {target}"
