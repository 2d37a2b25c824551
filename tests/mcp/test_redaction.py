"""Secret values of a configuration never show, ordinary ones stay readable."""

from __future__ import annotations

import base64
import json
import logging
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.link import ServerLink
from mcpagent.mcp.lists.pins import PinStore
from mcpagent.mcp.redaction import Redactor
from mcpagent.text.known_secrets import without_secrets
from tests.tables import each_row


@each_row(
    "settings, text, expected",
    [
        ({"headers": {"Authorization": "Bearer abcdef123"}}, "got abcdef123", "got [redacted]"),
        ({"headers": {"X-Tenant": "acme-corporation"}}, "no acme-corporation", "no [redacted]"),
        ({"env": {"GITHUB_TOKEN": "ghp_1234"}}, "bad ghp_1234!", "bad [redacted]!"),
        ({"env": {"DSN": "a1b2c3d4e5f6a7b8c9d0e1f2"}}, "a1b2c3d4e5f6a7b8c9d0e1f2", "[redacted]"),
        ({"env": {"ROOT": "/home/me/project"}}, "no /home/me/project", "no /home/me/project"),
        ({"env": {"API_KEY": "x"}}, "exit", "exit"),
        (
            {"url": "https://h/mcp?api_key=sesame-open&page=12"},
            "GET ?api_key=sesame-open&page=12",
            "GET ?api_key=[redacted]&page=12",
        ),
        ({"env": {"A_KEY": "secret1", "B_KEY": "secret1-longer"}}, "secret1-longer secret1", "[redacted] [redacted]"),
        ({"env": {"AUTH_MODE": "required", "KEY_FILE": "/home/me/key"}}, "required /home/me/key", None),
        ({"env": {"AUTH_URL": "https://login.example", "MAX_TOKENS": "100000"}}, "https://login.example 100000", None),
        ({"env": {"DB_PASSWORD": "sunshine"}}, "sunshine", "[redacted]"),
        ({"env": {"API_KEY": 'a"b\nc1d2'}}, json.dumps('a"b\nc1d2'), '"[redacted]"'),
        ({"env": {"API_KEY": "a/b+c=d e"}}, "?k=a%2Fb%2Bc%3Dd%20e", "?k=[redacted]"),
        ({"env": {"API_KEY": "k1k2k3k4k5"}}, base64.b64encode(b"k1k2k3k4k5").decode(), "[redacted]=="),
        ({"headers": {"Authorization": "Basic bWU6c3dvcmRmaXNo"}}, "as me with swordfish", "as me with [redacted]"),
        ({"env": {"DATABASE": "postgres://me:sword%20fish@db/x"}}, "me: sword fish", "me: [redacted]"),
        ({"env": {"DATABASE": "postgres://me@db/x"}}, "postgres://me@db/x", None),
        ({"args": ["--token", "sesame-open"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["--api-key=sesame-open"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["run", "-e", "DB_PASSWORD=sunshine", "image"]}, "sunshine of image", "[redacted] of image"),
        ({"args": ["--header", "Authorization: Bearer sesame-open-1"]}, "sesame-open-1", "[redacted]"),
        ({"args": ["ghp_0123456789abcdefghijkl"]}, "ghp_0123456789abcdefghijkl", "[redacted]"),
        ({"args": ["postgres://me:sword%20fish@db/x"]}, "me: sword fish", "me: [redacted]"),
        ({"args": ["https://h/mcp?api_key=sesame-open&page=12"]}, "sesame-open 12", "[redacted] 12"),
        ({"args": ["-c", "exec server --api-key='sesame-open'"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["-c", "echo 'KeyError: A_TOKEN is unset' >&2"]}, "KeyError: A_TOKEN is unset", None),
        ({"args": ["-c", "curl -H 'X-Error-Key: sesame-open'"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["-c", "TOKEN=sesame-open exec server"]}, "server: sesame-open", "server: [redacted]"),
        ({"args": ["--config", '{"keys": {"apiKey": ["sesame-open"]}}']}, "no sesame-open", "no [redacted]"),
        ({"args": ["-token", "sesame-open"]}, "no sesame-open", "no [redacted]"),
        ({"args": ["--token", "12345678"]}, "no 12345678", "no [redacted]"),
        ({"args": ["--to", "Server=db;Password=sunshine;User=somebody"]}, "somebody sunshine", "somebody [redacted]"),
        (
            {"env": {"HEADERS": '{"Authorization": "Bearer sesame-open"}'}},
            "a Bearer sesame-open sesame-open",
            "a [redacted] [redacted]",
        ),
        (
            {"env": {"GITHUB_PAT": "sesame-open", "PATTERN": "any-thing-1"}},
            "sesame-open any-thing-1",
            "[redacted] any-thing-1",
        ),
        ({"headers": {"Cookie": "session=sesame-open; theme=dark"}}, "a dark sesame-open", "a dark [redacted]"),
        ({"url": "https://me:sunshine@h/mcp"}, "me and sunshine", "me and [redacted]"),
        ({"env": {"API_KEY": "a/b+c=d e"}}, "?k=a%2fb%2bc%3dd+e", "?k=[redacted]"),
        ({"args": ["-y", "pkg@1.2.3", "--author", "John Smith"]}, "pkg@1.2.3 by John Smith", None),
        ({"args": ["--password-file", "/run/secrets/db"]}, "no /run/secrets/db", None),
        (
            {"args": ["/nix/store/7hq1jqz8w9v2k5x3a4b5c6d7e8f9-x/bin"]},
            "/nix/store/7hq1jqz8w9v2k5x3a4b5c6d7e8f9-x/bin",
            None,
        ),
        ({"args": ["--auth", "required", "--max-tokens", "100000"]}, "required 100000", None),
        ({"args": ["--to=acme-8"], "told": {"--to=acme-8": "--to=${ACME_KEY}"}}, "to acme-8", "to [redacted]"),
        ({"args": ["-H", "Ocp-Subscription-Key: abcdef"]}, "no abcdef", "no [redacted]"),
        ({"args": ["--go"], "told": {"--go": "--${SORT_KEY}"}}, "go", None),
        ({"args": ["by created_at"], "told": {"by created_at": "by ${SORT_KEY}"}}, "by created_at", None),
        ({"args": ["by k3y-1234"], "told": {"by k3y-1234": "by ${AUTH_SERVICE}"}}, "by k3y-1234", "by [redacted]"),
        (
            {"args": ["a-key-1:b-key-2@h"], "told": {"a-key-1:b-key-2@h": "${A_KEY}:${B_KEY}@h"}},
            "a-key-1 b-key-2 @h",
            "[redacted] [redacted] @h",
        ),
        ({"env": {"TLS_KEY": f"-----BEGIN-----\n{'ab1' * 10}\n-----"}}, "ab1" * 10, "[redacted]"),
    ],
)
def test_what_is_taken_out(settings: dict[str, Any], text: str, expected: str) -> None:
    redactor = Redactor(ServerConfig(**({"name": "a"} | settings)))
    assert redactor(text) == redactor.result(text) == (text if expected is None else expected)


SURE = ["token", "api-key", "apiKey", "API_KEY", "password", "DB_PASSWD", "client_secret", "GITHUB_PAT", "accessToken"]
PLACES: dict[str, Callable[[str, str], list[str]]] = {
    "option": lambda name, value: [f"--{name}", value],
    "option=": lambda name, value: [f"--{name}={value}"],
    "option:": lambda name, value: [f"/{name}:{value}"],
    "setting": lambda name, value: [f"{name}={value}"],
    "variable of docker": lambda name, value: ["run", "-e", f"{name}={value}"],
    "variable of docker, attached": lambda name, value: ["run", f"--env={name}={value}"],
    "header": lambda name, value: ["--header", f"{name}: {value}"],
    "header, attached": lambda name, value: [f"--header={name}: {value}"],
    "bearer": lambda name, value: [f"--header=Authorization: Bearer {value}"],
    "shell": lambda name, value: ["-c", f"cd x&&{name}={value} serve"],
    "shell, piped": lambda name, value: ["-c", f"serve --{name} {value}|tee log&"],
    "subshell": lambda name, value: ["-c", f"(x=$({name}={value} serve))"],
    "group": lambda name, value: ["-c", f"{{ {name}='{value}';serve; }}"],
    "shell in a shell": lambda name, value: ["-c", f"sh -c \"serve --{name} '{value}'\""],
    "header in a shell": lambda name, value: ["-c", f'curl -H "{name}: {value}" h'],
    "cmd": lambda name, value: ["/c", f"set {name}={value}&& serve"],
    "program": lambda name, value: ["-c", f'os.environ["{name}"] = "{value}"; run()'],
    "call": lambda name, value: ["-c", f"run({name.replace('-', '_')}='{value}', x=1)"],
    "object": lambda name, value: ["-e", f"start({{{name.replace('-', '_')}: '{value}'}})"],
    "JSON": lambda name, value: ["--config", json.dumps({"a": {name: [value]}})],
    "JSON, attached": lambda name, value: ["--config=" + json.dumps({name: value})],
    "settings": lambda name, value: ["--to", f"host=a,{name}={value},db=x"],
    "settings of .NET": lambda name, value: ["--to", f"Server=a;User Id=b;{name}={value};"],
    "query": lambda name, value: [f"--url=https://h/mcp?a=b&{name}={value}"],
    "fragment": lambda name, value: [f"https://h/mcp#{name}={value}&a=b"],
}


@each_row("place", PLACES)
def test_a_value_of_a_secret_name_is_hidden_wherever_it_stands(place: str) -> None:
    for name in SURE:
        for value in ("sesame-open", "hunter2secret99", "q7Zk2mX9Lw4Tn8Rb6Vc1", "12345678", "letmein7"):
            redactor = Redactor(ServerConfig("a", command="x", args=tuple(PLACES[place](name, value))))
            assert redactor.result(f"bad {value}, said serve") == "bad [redacted], said serve", (name, value)


@each_row(
    "args",
    [
        ["--db=postgresql://u:hunter2secret99@h/db"],
        ["DATABASE_URL=postgresql://u:hunter2secret99@h/db"],
        ["--dsn", "https://hunter2secret99@errors.example/1"],
        ["me:hunter2secret99@host"],
        ["--user", "me:hunter2secret99"],
        ["--basic-auth", "me:hunter2secret99"],
        ["-c", "curl -u me:hunter2secret99 h"],
        ["-c", "mysql -u root -phunter2secret99"],
        ["-p", "hunter2secret99"],
        ["--header", "X-AuthError: hunter2secret99"],
        ["TokenError: hunter2secret99"],
        ["-HX-Api-Key: hunter2secret99"],
        ["-eTOKEN=hunter2secret99"],
        ["-c", "x ${TOKEN:-hunter2secret99}"],
        ["-c", "cat > x <<E\npassword: hunter2secret99\nE"],
        ["--config", "[auth]\ntoken = hunter2secret99\n"],
        ["--auth", "Bearer hunter2secret99"],
        ["--headers", "Authorization=Bearer hunter2secret99"],
        ["--dsn", "u:hunter2secret99@tcp(h:1)/db"],
        ["--oauth-info", '{"client_secret": "hunter2secret99"}'],
        ["https://h/?sig=hunter2secret99&se=1"],
        ["-Command", "$env:TOKEN='hunter2secret99'; serve -ApiKey hunter2secret99"],
        ["--extra-headers", "X-A: b; X-Api-Key: hunter2secret99"],
        ["--login", "me:hunter2secret99"],
        ["--java", "-Dpassword=hunter2secret99 -Dx=1"],
        ["--header=Cookie: session=hunter2secret99; theme=dark"],
    ],
)
def test_a_secret_is_hidden_also_where_no_name_stands_before_it(args: list[str]) -> None:
    redactor = Redactor(ServerConfig("a", command="x", args=tuple(args)))
    assert redactor.result("bad hunter2secret99 of me") == "bad [redacted] of me"


@each_row("word", ["letmein", "letmeinplease", "1234567", "sunshine"])
def test_a_plain_word_is_hidden_only_behind_a_name_that_says_so(word: str) -> None:
    for args in (["--token", word], [f"--api-key={word}"], ["-c", f"PASSWORD={word} serve"]):
        assert Redactor(ServerConfig("a", args=tuple(args))).result(f"no {word}") == "no [redacted]"
    for args in (["--auth", word], [f"--key={word}"], ["-c", f"CREDENTIALS={word} serve"]):
        assert Redactor(ServerConfig("a", args=tuple(args))).result(f"no {word}") == f"no {word}"


OTHERS = {
    "order_id": ["primary-key", "partition-key", "SORT_KEY", "foreignKey", "KEY_COLUMN", "key", "auth"],
    "created_at": ["sort-key", "keyspace", "KEYSPACE", "keywords", "token-field"],
    "cl100k_base": ["tokenizer", "TOKENIZER", "token-encoding", "monkey", "compass"],
    "host1.example.com": ["bypass", "BYPASS_HOSTS", "passthrough", "token-endpoint", "auth-url", "credentials"],
    "100000000": ["max-tokens", "MAX_TOKENS", "token-limit", "session-key-ttl", "password-length"],
    "ed25519": ["key-type", "keyAlgorithm", "public-key-type"],
    "oauth2": ["auth", "AUTH_TYPE", "auth-mode", "auth-provider", "token", "password"],
    "prod/crm1": ["secret-name", "SECRET_NAME", "secret-path", "secret-manager"],
    "vault-crm-1": ["secret-manager", "password-store", "keyring-service", "api-key-name", "no-auth", "skip-auth"],
    "passwords.txt": ["password-file", "credentials", "token", "key"],
    "id_ed25519": ["ssh-key", "identity", "key-file"],
    "0123456789abcdef0123456789abcdef01234567": ["commit", "GIT_SHA", "image-digest"],
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301": ["project", "tenant", "access-key-id", "client-id"],
    "GITHUB_TOKEN": ["token", "api-key", "token-from", "key"],
    "env:GITHUB_TOKEN": ["token-from", "token"],
    "state/prod1.state": ["key", "token-state-path"],
    "projects/p1/secrets/crm": ["secret-path", "token", "key"],
    "id,name,created1": ["keys"],
    "user:profile": ["key", "auth", "credentials"],
    "ctrl+shift+p": ["hotkey", "hot-key", "keyboard"],
    "pkg-1a2b3c4d5e6f7a8b9c0d.whl": ["with", "from"],
    "20240101T000000Z-abcdef12": ["build", "release"],
    "text-embedding-3-large-v20240125preview": ["embedding"],
    "my_database_of_customers_2024": ["", "database"],
    "mcp-server-2025-11-25-release1": ["", "package"],
}


@each_row(
    "place", ["option", "option=", "setting", "variable of docker", "shell", "shell, piped", "JSON", "query", "env"]
)
def test_what_is_no_secret_stays(place: str) -> None:
    for value, names in OTHERS.items():
        for name in names:
            args = PLACES[place](name, value) if name and place != "env" else [value] if not name else []
            env = {name: value} if place == "env" else {}
            is_password = (
                place in ("env", "query", "JSON") and name == "password"
            )  # there it is one, whatever it looks like
            shown = Redactor(ServerConfig("a", command="x", args=tuple(args), env=env)).result(
                f"no {value}, said serve"
            )
            assert is_password or shown == f"no {value}, said serve", (name, value)


@each_row(
    "said",
    [
        "TOKEN: is not set",
        "password: permission denied",
        "Authentication: denied for this user",
        "KeyError: A_TOKEN",
        "Missing token: set CRM_TOKEN",
        "error: API key: not configured",
        "Missing --api-key argument",
        "auth: login required, run login",
        "token: missing",
    ],
)
@each_row("command", ["echo '{}' >&2; exit 1", 'test -n "$TOKEN" || {{ echo "{}"; }}', "fail('{}')"])
def test_what_a_command_says_is_shown(said: str, command: str) -> None:
    redactor = Redactor(ServerConfig("a", command="sh", args=("-c", command.format(said))))
    assert redactor(said) == redactor.result(said) == said
    for word in said.split():
        assert redactor.result(f"your plan {word} yet") == f"your plan {word} yet"


def test_where_a_program_has_its_secret_from_is_shown() -> None:
    for code in (
        "token=os.environ['TOKEN']; run(token)",
        "run(auth=server.default_auth, token=get_token('x'), secret=read_file('/x'))",
        "token = settings.token",
        "start({token: process.env.API_TOKEN, apiKey: getKey()})",
    ):
        assert Redactor(ServerConfig("a", args=("-c", code))).result(code) == code
    for code in ("get_token(1)", "os.environ[1]", "process.env.API_TOKEN"):
        assert Redactor(ServerConfig("a", args=("-c", f"run(token={code})"))).result(code) == code
    for secret in ("hello(1)", "sun.shine", "a[b]cde"):
        assert Redactor(ServerConfig("a", args=("--password", secret))).result(secret) == "[redacted]"
    assert Redactor(ServerConfig("a", args=("-c", "PASSWORD=sun.shine serve"))).result("sun.shine") == "[redacted]"
    for code in ("TOKEN=$(cat /run/token) serve", "serve --token $API_TOKEN", "TOKEN=`show auth crm/token` serve"):
        assert Redactor(ServerConfig("a", args=("-c", code))).result(code) == code


def test_a_tool_can_be_called_by_its_parameters_and_no_column_is_lost() -> None:
    redactor = Redactor(ServerConfig("a", args=("--password", "sunshine", "--token", "tulip_field", "--key", "k3y-12")))
    schema = {"properties": {"sunshine": {"type": "integer"}, "k3y-12": {}}, "required": ["sunshine"]}
    shown = redactor.json({"inputSchema": schema, "description": "sunshine"})
    assert shown == {
        "inputSchema": {"properties": {"sunshine": {"type": "integer"}, "[redacted]": {}}, "required": ["sunshine"]},
        "description": "[redacted]",
    }
    row = {"sunshine": 1, "tulip_field": 2, "[redacted]": 3, "total": 4}
    assert redactor.json(row) == {"[redacted] 2": 1, "[redacted] 3": 2, "[redacted]": 3, "total": 4}


@given(
    st.dictionaries(st.sampled_from(["[redacted]", "[redacted] 2", "a", "abcdef", "ghijkl", "abcdef 2"]), st.integers())
)
def test_no_two_keys_become_one(row: dict[str, int]) -> None:
    shown = Redactor(ServerConfig("a", env={"A_PASSWORD": "abcdef", "B_PASSWORD": "ghijkl"})).json(row)
    assert list(shown.values()) == list(row.values())
    assert not any("abcdef" in key or "ghijkl" in key for key in shown)


def test_what_a_server_is_started_with_is_its_identity_beside_a_secret(tmp_path: Path) -> None:
    def path(command: str) -> Path:
        return PinStore(tmp_path).path(ServerConfig("a", command="sh", args=("-c", command)))

    for command in (
        "TOKEN={} exec {}",
        "JAVA='-Dtoken={} -Dx={}'",
        "-Dtoken={} -D{}",
        "x://me:{}@host-{}",
        "exec {1} --token={0} -x",
        "curl -H 'X-Api-Key: {}' h | {}",
        "export TOKEN='{}'; {}",
    ):
        one, renewed, two = (
            path(command.format(*words)) for words in (("sesame-1", "a"), ("sesame-2", "a"), ("sesame-1", "b"))
        )
        assert one == renewed != two, command


@pytest.mark.parametrize("length", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_long_arguments_are_read_in_a_moment(length: int) -> None:
    for piece in (
        "a=",
        "'",
        '"',
        "token: '",
        "${",
        "--token x ",
        "a:b@",
        "\\",
        "{",
        "x=y,",
        "token=a&",
        "(",
        "://",
        "a.",
        "-a",
    ):
        config = ServerConfig(
            "a", command="sh", args=("-c", piece * (length // len(piece))), env={"X": piece * (length // 7)}
        )
        assert Redactor(config).result("fine") == "fine"


def test_a_key_that_changes_makes_no_other_server_of_it(tmp_path: Path) -> None:
    pins = PinStore(tmp_path)
    one, two = (ServerConfig("a", command="x", args=("--token", value)) for value in ("sesame-1", "sesame-2"))
    assert pins.path(one) == pins.path(two) != pins.path(ServerConfig("a", command="x", args=("--other", "sesame-1")))
    far, new, other = (
        ServerConfig("a", url=f"https://h/mcp?{query}") for query in ("k_key=s%2Fame-1", "k_key=s-ame-2", "k=s")
    )
    assert pins.path(far) == pins.path(new) != pins.path(other)
    named = (
        ServerConfig("a", url=url, told={url: "https://h/${A_KEY}"}) for url in ("https://h/key-1", "https://h/key-2")
    )
    assert len({pins.path(config) for config in named}) == 1


def test_the_beginning_of_a_secret_is_not_shown_in_errors_but_left_in_results() -> None:
    redactor = Redactor(ServerConfig("a", env={"API_TOKEN": "github_pat_s3cr3t"}))
    assert redactor("token github_pat_s3cr… is bad, see github_pages") == "token [redacted]… is bad, see [redacted]ges"
    assert redactor.result("see github_pages") == "see github_pages"


def test_json_is_redacted_text_by_text() -> None:
    redactor = Redactor(ServerConfig("a", env={"API_TOKEN": '{"a": 1}', "PIN_SECRET": "123456"}))
    value = {"x": ['{"a": 1}', 123456, {"123456": None}], "a": 1}
    assert redactor.json(value) == {"x": ["[redacted]", 123456, {"[redacted]": None}], "a": 1}
    deep: Any = "text"
    for _ in range(5_000):
        deep = [deep]
    assert "[redacted]" in str(redactor.json(deep))
    harmless = {"a": ["b"]}
    assert Redactor(ServerConfig("b")).json(harmless) == harmless


@given(st.text(min_size=6, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_secret_is_never_left(secret: str, before: str, after: str) -> None:
    redactor = Redactor(ServerConfig(name="a", env={"PASSWORD": secret}))
    assert secret not in redactor(before + secret + after).replace("[redacted]", "")
    assert redactor.result(before + secret + after).replace("[redacted]", "").count(secret) == 0


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x17F, exclude_characters="./"), min_size=6, max_size=24),
    st.integers(0, 3),
)
def test_a_password_is_hidden_whatever_signs_it_has(password: str, place: int) -> None:
    password = f"p4{password}"  # no option, variable or plain word, and no file
    args = (["--password", password], [f"--password={password}"], ["-e", f"DB_PASSWORD={password}"], ["-c", ""])[place]
    if place == 3:
        args = ["-c", f"DB_PASSWORD={shlex.quote(password)} serve --token {shlex.quote(password)}"]
    assert Redactor(ServerConfig("a", command="x", args=tuple(args))).result(f"no {password}") == "no [redacted]"


@given(st.lists(st.text(st.sampled_from("ab1-=:/@,;&|(){}[]'\"\\ $`\n#%") | st.characters(), max_size=30), max_size=4))
def test_no_argument_is_too_strange(args: list[str]) -> None:
    config = ServerConfig("a", command="x", args=tuple(args), env=dict.fromkeys(("TOKEN", "ANY"), "".join(args)))
    assert Redactor(config).result("fine") in ("fine", "[redacted]")


async def test_a_secret_in_an_address_is_hidden_from_the_logs_of_libraries(caplog: pytest.LogCaptureFixture) -> None:
    config = ServerConfig("a", url="http://127.0.0.1:9/mcp?token=canary0123456789&page=two", connect_timeout_seconds=2)
    with pytest.raises(ServerError), caplog.at_level(logging.DEBUG):
        await ServerLink(config).__aenter__()
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "canary0123456789" in logged  # what a library writes
    assert "canary0123456789" not in without_secrets(logged)  # what `--debug` shows of it
    assert "page=two" in without_secrets(logged)
