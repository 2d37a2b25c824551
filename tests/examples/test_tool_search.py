"""The example of the README: one command, real published servers, right answers. Needs the package registries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from examples.tool_search import environments
from examples.tool_search.environments import BIN, Environment, InstallError, make

from mcpagent import Agent, RunOptions
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.messages import ToolCall

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "examples" / "tool_search" / "run.py"

ANSWERS = {
    "What time is it in Tokyo?": r"in Asia/Tokyo",
    "Convert 14:30 from Europe/Berlin": r"in America/New_York",
    "What is (17 + 25) * 3?": r"126",
    "Show the last 2 commits": r"(?s)Say how to run it.*Lamps cost 39\.50",
    "Which tables": r"products",
    "Fetch the web page": r"Monday to Friday, 9 to 17",
    "List the files": r"(?s)opening-hours\.txt.*todo\.txt",
    "Show the whole knowledge graph": r"sells lamps and desks",
    "Echo the message": r"good morning",
    "List my S3 buckets": r"GET https://s3\.",
    "Create an SQS queue": r'\{"QueueName": "orders"\}',
    "Delete the S3 bucket": r"DELETE https://old-logs\.s3\.",
}
"""What must stand in the answer to each everyday request, by the request's beginning."""

BARE_PYTHON = str(Path(sys.base_prefix) / "bin" / "python3")
"""The Python that this environment was made with: nothing is installed in it."""

WITHOUT_NODE = {"List the files", "Show the whole knowledge graph", "Echo the message"}


def run_example(home: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the README's command with a Python that has nothing installed, without any key."""
    kept = {
        name: value for name, value in os.environ.items() if not re.search(r"_API_KEY$|^PYTHON|^VIRTUAL_ENV$", name)
    }
    return subprocess.run(
        [BARE_PYTHON, str(RUN), "--home", str(home), *arguments],
        env={**kept, "PATH": path or os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def answers(output: str) -> dict[str, str]:
    """The answer to each request, by its prompt."""
    _, *parts = re.split(r"^\[\d+\] ", output.partition("What tool search did")[0], flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("  answer ")[2] for part in parts}


def assert_right(output: str, left_out: set[str]) -> None:
    given = answers(output)
    assert len(given) == len(ANSWERS) - len(left_out)
    for beginning, pattern in ANSWERS.items():
        if beginning not in left_out:
            answer = next(text for prompt, text in given.items() if prompt.startswith(beginning))
            assert re.search(pattern, answer), f"{beginning}: {answer}"


def made(name: str, home: Path) -> None:
    """The environment of that name is there, whichever worker of the tests comes first."""
    home.mkdir(exist_ok=True)
    make(next(environment for environment in environments.ENVIRONMENTS if environment.name == name), home)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of environments, the one that `.ci/wheel` uses, too, if CI names it."""
    named = os.environ.get("MCPAGENT_EXAMPLE_HOME")
    return Path(named) if named else tmp_path_factory.mktemp("example")


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestTheCommand:
    """One folder of environments for those that run beside each other; each test makes what it needs and lacks."""

    def test_it_installs_asks_and_answers_right(self, home: Path) -> None:
        done = run_example(home)
        assert done.returncode == 0, done.stdout + done.stderr
        has_node = shutil.which("node") is not None and shutil.which("npm") is not None
        assert_right(done.stdout, set() if has_node else WITHOUT_NODE)
        assert len(re.findall(r"^  server +\S+ +[\d,]+ tools", done.stdout, re.MULTILINE)) == (9 if has_node else 6)
        known = int(re.search(r"tools known +([\d,]+)", done.stdout)[1].replace(",", ""))  # type: ignore[index]
        assert known > 5_000
        assert "offers 2 of" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr

    def test_without_node_it_says_so_and_goes_on(self, home: Path, tmp_path: Path) -> None:
        git = shutil.which("git")
        assert git is not None
        (tmp_path / "git").symlink_to(git)
        made("time", home)
        done = run_example(home, path=str(tmp_path))
        assert "node         left out: node is not installed" in done.stdout
        assert "kept   mcp-server-time" in done.stdout
        assert done.returncode == 0, done.stdout + done.stderr
        assert_right(done.stdout, WITHOUT_NODE)

    def test_a_real_model_without_its_key_is_one_line(self, home: Path) -> None:
        done = run_example(home, "--model", "anthropic:claude-sonnet-5-5")
        assert done.returncode == 1
        assert "ANTHROPIC_API_KEY is not set" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1

    async def test_the_catalogue_has_real_schemas_and_answers_dry(self, home: Path) -> None:
        script = ROOT / "examples" / "tool_search" / "aws_catalogue_server.py"
        made("aws", home)
        server = {
            "command": str(home / "aws" / BIN / "python"),
            "args": [str(script), "sqs", "dynamodb", "ec2"],
            "connect_timeout_seconds": 120,
        }
        calls = [
            ToolCall("1", "sqs_create_queue", {"QueueName": "orders"}),
            ToolCall("2", "sqs_create_queue", {"Name": "orders"}),
            ToolCall("3", "dynamodb_put_item", {"TableName": "t", "Item": {"a": {"L": [{"S": "x"}]}}}),
        ]
        model = ScriptedModel([calls, "done"])
        async with Agent(
            model,
            mcp_config={"mcpServers": {"aws": server}},
            options=RunOptions(servers=ServerOptions(startup_seconds=None)),
        ) as agent:
            known = agent.known_tools
            await agent.ask("go")
            good, wrong, nested = (result for message in agent.messages for result in message.tool_results)
        assert known["sqs_create_queue"].parameters["required"] == ["QueueName"]
        assert known["dynamodb_put_item"].parameters["$defs"]["AttributeValue"]["properties"]["L"]["items"] == {
            "$ref": "#/$defs/AttributeValue"
        }
        assert not [name for name, tool in known.items() if "<" in tool.description and "</" in tool.description]
        assert all(len(name) <= 64 for name in known)
        assert any(len(tool.original_name) > 64 for tool in known.values())
        assert good.text.startswith("Dry run: nothing was sent to AWS.")
        assert '{"QueueName": "orders"}' in good.text
        assert wrong.error == "invalid_arguments"
        assert '{"TableName": "t", "Item": {"a": {"L": [{"S": "x"}]}}}' in nested.text


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="no-such-program is not installed"):
        make(Environment("x", (), needs="no-such-program"), tmp_path)


@pytest.mark.slow
def test_a_failed_install_says_why_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"ERROR: .*no-such-folder.*x\.log") as failed:
        make(Environment("x", (str(tmp_path / "no-such-folder"),)), tmp_path)
    assert "\n" not in str(failed.value)


@pytest.mark.slow
def test_an_environment_is_kept_until_what_it_is_made_of_changes(tmp_path: Path) -> None:
    empty = Environment("x", ("--no-index", "pip"))
    assert make(empty, tmp_path) is not None
    assert make(empty, tmp_path) is None
    assert make(Environment("x", ("--no-index", "pip>=1")), tmp_path) is not None


NPM = """#!{python}
import os, sys
if sys.argv[0].endswith("node"):
    print("v22.0.0")
    raise SystemExit
with open({count!r}, "a") as file:
    file.write("tried\\n")
if not os.path.exists({reachable!r}):
    print("npm error code ENOTFOUND\\nnpm error errno ENOTFOUND")
    print("npm error network request to https://registry.example/x failed, reason: getaddrinfo ENOTFOUND")
    print("npm error A complete log of this run can be found in: /x/y.log")
    raise SystemExit(1)
"""
"""A stand-in for npm and node: counts how often it was asked to install, and fails until a file is there."""

NODE = Environment("node", ("some-server@1",), ("some",), manager="npm", needs="node")


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `count` and `reachable`; the stand-ins are all that is on PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()
    text = NPM.format(python=sys.executable, count=str(tmp_path / "count"), reachable=str(tmp_path / "reachable"))
    for name in ("npm", "node"):
        (programs / name).write_text(text, "utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    return tmp_path


def tried(npm: Path) -> int:
    return (npm / "count").read_text("utf-8").count("tried")


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script that starts by its first line")
class TestAnNpmThatFails:
    def test_it_is_tried_once_and_its_cause_is_one_line_each_time(self, npm: Path) -> None:
        for ending in ("", "; not tried again (--retry does)"):
            with pytest.raises(InstallError) as failed:
                make(NODE, npm)
            assert str(failed.value) == (
                "npm error network request to https://registry.example/x failed, reason: getaddrinfo ENOTFOUND "
                f"(whole output: {npm / 'node.log'}){ending}"
            )
        assert tried(npm) == 1

    def test_it_is_tried_again_where_that_is_asked_for(self, npm: Path) -> None:
        for retry in (False, True):
            with pytest.raises(InstallError):
                make(NODE, npm, retry=retry)
        (npm / "reachable").touch()
        assert make(NODE, npm, retry=True) is not None
        assert make(NODE, npm) is None
        assert tried(npm) == 3

    def test_what_was_installed_once_is_used_without_npm_and_without_a_network(self, npm: Path) -> None:
        (npm / "reachable").touch()
        assert make(NODE, npm) is not None
        (npm / "node" / "of-the-first").touch()
        (npm / "reachable").unlink()
        newer = replace(NODE, packages=("some-server@2",))
        assert [make(newer, npm), make(newer, npm)] == [None, None]
        assert tried(npm) == 2
        (npm / "programs" / "npm").unlink()
        assert make(NODE, npm) is None
        assert (npm / "node" / "of-the-first").exists()


def test_every_server_of_the_configuration_has_an_environment() -> None:
    from mcpagent.config import load_servers

    places = dict.fromkeys(("DEMO_HOME", "DEMO_BIN", "DEMO_WORKSPACE", "DEMO_EXAMPLE"), "x")
    loaded = load_servers(ROOT / "examples" / "tool_search" / "mcp_servers.json", environ=places)
    installed = {server for environment in environments.ENVIRONMENTS for server in environment.servers}
    assert {server.name for server in loaded.servers} == installed
    assert not loaded.problems
