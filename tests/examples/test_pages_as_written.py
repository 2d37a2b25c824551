"""README.md, the quickstart and the page on installing, done word for word in an empty home.

Nothing is replaced in a page. The address of the repository leads to this one, by git's own setting. A block under a
line that ends with a file's name in backticks and a colon is saved under that name. A program among these is run with
`python NAME`, and a `text` block right behind it is its output. Needs the package index.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.examples.test_docs import BLOCK, KEYS, LIKE_DOCTEST, NOT_RUN, ROOT, VARYING

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(sys.platform == "win32", reason="the pages' commands are a POSIX shell's"),
]

REPOSITORY = "https://github.com/mcpagent/mcpagent"
NAMED = re.compile(r"`([\w.-]+\.(?:json|py))`[^`\n]*:\s*\Z")
ELSEWHERE = ("python3 examples/tool_search/run.py", "pytest -n 3")
"""Lines that other tests run; see `NOT_RUN`."""


@dataclass
class Reader:
    """A person with an empty home who does what a page says, in one shell."""

    home: Path
    path: str = "/usr/bin:/bin"
    script: list[str] = field(default_factory=lambda: ["set -eo pipefail"])
    outputs: dict[str, str] = field(default_factory=dict)

    def read(self, page: Path) -> None:
        text = page.read_text("utf-8")
        last, end = "", 0
        for match in BLOCK.finditer(text):
            kind, body = match[1], match[2]
            is_next = not text[end : match.start()].strip()
            end = match.end()
            named = NAMED.search(text[: match.start()].rstrip("\n") + "\n")
            if named is None and kind in ("python", "json"):
                last = ""
            elif named is not None:
                self.script.append(f"cat > {named[1]} <<'END OF FILE'\n{body}END OF FILE")
                last = named[1]
                if kind == "python":
                    self.run(f"python {last}", last)
            elif kind == "text" and last.endswith(".py") and is_next:
                self.outputs[last] = body
            elif kind == "sh":
                self.script += [line for line in body.splitlines() if not any(skip in line for skip in ELSEWHERE)]
            elif kind == "console":
                for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                    command, _, self.outputs[command] = part.partition("\n")
                    self.run(f"{{ {command}\n}} 2> ~/errors\ncat ~/errors", command)

    def run(self, command: str, name: str) -> None:
        self.script += [f"echo '<<< {name.encode().hex()}'", command, "echo '>>>'"]

    def done(self) -> Mapping[str, str]:
        """Run all of it; the output by the name of the program or the command. Fails with the first that fails."""
        (self.home / ".gitconfig").write_text(f'[url "{ROOT}"]\n\tinsteadOf = {REPOSITORY}\n[safe]\n\tdirectory = *\n')
        passed_on = {
            name: value
            for name, value in os.environ.items()
            if re.search(r"(?i)proxy|^PIP_|^UV_|^SSL_|CERT|^LANG$|^TMPDIR$", name) and not KEYS.search(name)
        }
        environ = {**passed_on, "HOME": str(self.home), "PATH": self.path, "NO_COLOR": "1", "COLUMNS": "100"}
        environ["PIP_NO_COMPILE"] = "1"  # modules are compiled when they are first imported: only those
        done = subprocess.run(
            ["bash", "-c", "\n".join(self.script)],
            cwd=self.home,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1_700,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-2_000:]}\n{done.stderr[-2_000:]}"
        found = re.findall(r"^<<< (\w+)\n(.*?)^>>>$", done.stdout, re.MULTILINE | re.DOTALL)
        return {bytes.fromhex(name).decode(): output for name, output in found}


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """With the Python that this environment was made with, as `python3` and, before an activation, `python`."""
    home, programs = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    for name in ("python3", "python"):
        (programs / name).symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    return Reader(home, f"{programs}:/usr/bin:/bin")


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_a_page_works_as_it_is_written(page: str, reader: Reader) -> None:
    reader.read(ROOT / page)
    printed = reader.done()
    programs = {name for name in printed if name.endswith(".py")}
    assert "first.py" in programs
    assert reader.outputs.keys() <= printed.keys()
    for name, expected in reader.outputs.items():
        wanted, got = VARYING.sub("0", expected), VARYING.sub("0", printed[name])
        is_same = doctest.OutputChecker().check_output(wanted, got, LIKE_DOCTEST)
        assert is_same, f"{name}\n{expected}\n---\n{printed[name]}"


def test_each_way_to_install_gives_the_command(reader: Reader) -> None:
    """`pip`, `uv tool install`, `pipx` and `uvx`, in the order of the page; uv and pipx come from the package index."""
    reader.script += [
        "python3 -m venv tools",
        "tools/bin/pip install -q uv pipx",
        "python3 -m venv plain",
        'export PATH="$HOME/plain/bin:$HOME/tools/bin:$PATH"',
    ]
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    for match in BLOCK.finditer(page):
        if "'.[" in match[2]:  # the extras follow
            break
        for line in match[2].splitlines():
            if line.startswith("pipx"):
                reader.script.append("uv tool uninstall mcpagent")
            reader.run(line, line)
            if "install" in line:
                reader.script.append("hash -r")
                reader.run('PATH="$HOME/.local/bin:$PATH" mcpagent --version', f"after {line}")
    printed = reader.done()
    versions = [printed[name] for name in printed if name.startswith(("after ", "uvx"))]
    assert len(versions) == 4
    assert all(re.fullmatch(r"mcpagent \d+\.\d+\.\d+\n", version) for version in versions), versions


def test_the_lines_that_are_left_out_are_run_elsewhere() -> None:
    for skip in ELSEWHERE:
        assert [place for (page, line), place in NOT_RUN.items() if page == "README.md" and skip in line], skip
