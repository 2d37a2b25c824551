"""What a server said last, and which line of it says why it ended."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.mcp.connection_errors import telling_line, telling_lines
from tests.tables import each_row

NPM = """\
npm error code E404
npm error 404 Not Found - GET https://registry.example/no-such-thing - Not found
npm error 404
npm error 404 The requested resource 'no-such-thing@*' could not be found.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm notice
npm notice New minor version of npm available! 11.19.1 -> 11.21.2
npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log""".splitlines()
NODE = """\
node:internal/modules/cjs/loader:1228
throw err;
Error: Cannot find module '/srv/index.js'
at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
code: 'MODULE_NOT_FOUND',
}
Node.js v22.11.0""".splitlines()
PYTHON = ["Traceback (most recent call last):", 'File "x.py", line 3, in <module>', "KeyError: 'GITHUB_TOKEN'"]
OLD_NPM = ["npm ERR! code ENOENT", "npm ERR! syscall open", "npm ERR! enoent no such file, open '/x/package.json'"]


@each_row(
    "lines, expected",
    [
        (NPM, "Not Found - GET https://registry.example/no-such-thing - Not found"),
        (OLD_NPM, "enoent no such file, open '/x/package.json'"),
        (NODE, "Error: Cannot find module '/srv/index.js'"),
        (PYTHON, "KeyError: 'GITHUB_TOKEN'"),
        (["ready", "Error: later", "bye"], "bye"),
        (["Node.js v22.11.0"], "Node.js v22.11.0"),
        (
            ["Fatal error: Error: getaddrinfo ENOTFOUND x", "code: 'ENOTFOUND',", "}"],
            "Fatal error: Error: getaddrinfo ENOTFOUND x",
        ),
        (["it went wrong", "}"], "it went wrong"),
        (["42", "}"], "}"),
        ([], ""),
    ],
)
def test_the_line_that_says_why(lines: list[str], expected: str) -> None:
    assert telling_line(lines) == expected


def test_what_a_package_manager_adds_is_left_out() -> None:
    assert telling_lines(NPM)[-1] == "npm error 404 tarball, folder, http url, or git url."
    assert not [line for line in telling_lines(NPM) if "notice" in line or "complete log" in line or line[-3:] == "ror"]
    assert telling_lines(["npm notice", "npm notice new"]) == ("npm notice", "npm notice new")
    assert telling_lines(PYTHON) == tuple(PYTHON)


@settings(max_examples=50)
@given(st.lists(st.text(max_size=60), max_size=20))
def test_any_lines_have_a_cause_that_is_one_of_them(lines: list[str]) -> None:
    found = telling_line(lines)
    assert found == "" if not lines else any(line.endswith(found) for line in lines)
    assert set(telling_lines(lines)) <= set(lines)
    assert bool(telling_lines(lines)) == bool(lines)
