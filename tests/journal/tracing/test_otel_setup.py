"""Spans and metrics at a real receiver, set up by the standard variables alone; one that is down costs nothing."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunOptions, ScriptedModel
from mcpagent.cli.app import run as run_command
from mcpagent.journal.tracing import Tracing, traced_agents
from tests.journal.tracing.receiver import Behaviour, receiving
from tests.scenes import call
from tests.tables import each_row

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def end(tracing: Tracing) -> None:
    """End the thread that exports metrics: it would try again, at random times, beside the tests after this one."""
    meters: Any = tracing.meter_provider
    if meters is not None:
        meters.shutdown(timeout_millis=500)


async def answer(tracing: Tracing) -> str:
    async with Agent(
        ScriptedModel([call("add", a=1, b=2), "3"]), tools=[add], options=RunOptions(wrappers=[tracing])
    ) as agent:
        return await agent.ask("1 + 2?")


async def test_a_receiver_gets_the_spans_and_metrics_by_the_variables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "calculator")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        tracing = Tracing.from_environment(name="adder", flush_seconds=20)
        assert tracing.problems == ()
        assert await answer(tracing) == "3"
        assert await answer(tracing) == "3"  # also when it is entered again
        await asyncio.to_thread(end, tracing)
    names = [span.name for span in receiver.spans]
    assert sorted(names) == sorted(["invoke_agent adder", "chat test", "execute_tool add", "chat test"] * 2)
    by_id = {span.span_id: span for span in receiver.spans}
    assert all(
        span.name == "invoke_agent adder" or by_id[span.parent_span_id].name == "invoke_agent adder"
        for span in receiver.spans
    )
    about = {item.key: item.value.string_value for item in receiver.resources[0].attributes}
    assert about["service.name"] == "calculator"
    assert about["deployment.environment.name"] == "test"
    assert {"gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"} <= receiver.metrics


@pytest.mark.slow  # its exporters try again, and draw random numbers beside other tests
@pytest.mark.parametrize("behaviour", ["error", "garbage", "silent", "cut", "down"])
async def test_a_receiver_that_is_wrong_slow_or_down_costs_a_run_nothing(
    behaviour: Behaviour | str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with receiving("good" if behaviour == "down" else behaviour) as receiver:  # type: ignore[arg-type]
        address = receiver.address
        if behaviour == "down":
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        tracing = Tracing.from_environment(flush_seconds=0.5)
        assert await asyncio.wait_for(answer(tracing), 60) == "3"
        assert receiver.asked or behaviour == "down"
        await asyncio.to_thread(end, tracing)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@each_row(
    "variables, problem",
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"}, "OTEL_TRACES_EXPORTER=otlp: ValueError: protocol smoke is none of"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "no installed package has the exporter zipkin"),
        ({"OTEL_TRACES_SAMPLER": "nobody"}, ""),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "many"}, ""),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "%%%"}, ""),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "no address"}, ""),
    ],
)
async def test_variables_that_cannot_be_are_told_in_a_line_and_the_run_goes_on(
    variables: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    tracing = Tracing.from_environment(flush_seconds=0.5)
    assert problem in " ".join(tracing.problems)
    assert all("\n" not in line for line in tracing.problems)
    assert await asyncio.wait_for(answer(tracing), 60) == "3"
    await asyncio.to_thread(end, tracing)
    assert capfd.readouterr().err == ""


@each_row(
    "variables, wanted",
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, False),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_TRACES_EXPORTER": "none"}, True),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_the_command_line_traces_where_the_variables_say_so(variables: dict[str, str], wanted: bool) -> None:
    assert traced_agents.tracing_wanted(variables) is wanted


@pytest.mark.slow
def test_the_command_line_sends_its_runs_and_keeps_quiet_about_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(traced_agents, "FLUSH_SECONDS", 20.0)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
        assert run_command(["-p", "what time is it in Tokyo", "-m", "offline", "--yes", "-q"]) == 0
        receiver.wait_for("invoke_agent")  # on a busy machine it comes after the end of the command
    out, err = capfd.readouterr()
    assert "Tokyo" in out
    assert err == ""
    names = {span.name for span in receiver.spans}
    assert {"invoke_agent", "chat rules", "execute_tool get_current_time", "initialize demo"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["down", "silent"])
def test_a_command_whose_receiver_does_not_answer_ends_as_ever(
    behaviour: Behaviour | str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    with receiving("silent") as receiver:
        address = receiver.address if behaviour == "silent" else "http://127.0.0.1:9"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        words = ["-m", "mcpagent", "-p", "what time is it in Tokyo", "-m", "offline", "--yes", "-q"]
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
        )
    assert "Tokyo" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


OWN_PROVIDER = """
import asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from mcpagent import Agent, RunOptions, ScriptedModel
from mcpagent.journal.tracing import Tracing

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracing = Tracing()  # before the program has set anything up
trace.set_tracer_provider(provider)

async def main():
    with trace.get_tracer("mine").start_as_current_span("mine"):
        async with Agent(ScriptedModel(["ok"]), options=RunOptions(wrappers=[tracing])) as agent:
            await agent.ask("hi")

asyncio.run(main())
spans = {span.name: span for span in exporter.get_finished_spans()}
assert trace.get_tracer_provider() is provider
assert spans["invoke_agent"].parent.span_id == spans["mine"].context.span_id
print(sorted(spans))
"""


def test_a_program_that_has_set_up_opentelemetry_is_used_as_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", OWN_PROVIDER], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("['chat test', 'invoke_agent', 'mine']", 0), done.stderr


WITHOUT_SDK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("opentelemetry.sdk"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from mcpagent.cli.app import run
sys.exit(run(["-p", "what time is it in Tokyo", "-m", "offline", "--yes", "-q"]))
"""


@pytest.mark.slow
def test_without_the_extra_a_line_says_so_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDK], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert done.returncode == 0
    assert done.stderr == "! OTEL_... variables are set, but nothing is sent: pip install 'mcpagent[otel]'\n"
    assert "Tokyo" in done.stdout
