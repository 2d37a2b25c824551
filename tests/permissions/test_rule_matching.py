"""What a rule names: one server, one name; for a denial also what could pass for it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.permissions.rule_matching import forbids, forbids_of_server, permits, permits_of_server, rule_of
from mcpagent.values.messages import PromptRequest, ResourceRequest, ToolDefinition
from tests.speed import within
from tests.tables import each_row


def tool(server: str | None, name: str, offered: str = "") -> ToolDefinition:
    return ToolDefinition(offered or name, "", {}, server=server, original_name=name)


def resource(server: str, uri: str) -> ToolDefinition:
    return ResourceRequest("get_resource", "", {}, server, uri)


def prompt(server: str, name: str) -> ToolDefinition:
    return PromptRequest("get_prompt", "", {}, server, name)


PUSH = tool("git", "push")


@each_row(
    "rule, asked, permitted, forbidden",
    [
        ("git.push", PUSH, True, True),
        ("git.*", PUSH, True, True),
        ("git.p?sh", PUSH, True, True),
        ("*.push", PUSH, True, True),
        ("*", PUSH, True, True),
        # another server, however alike its name
        ("git.*", tool("git.evil", "push"), False, False),
        ("git.*", tool("evil", "git.push"), False, False),
        ("git.*", tool("gitx", "push"), False, False),
        ("git.*", tool(None, "push", "git__push"), False, False),
        ("git.evil.*", tool("git.evil", "push"), True, True),
        ("*.push", tool("git.evil", "push"), True, True),
        ("g*.push", PUSH, False, True),
        ("Git.push", PUSH, False, True),
        # a name alone is no server's, unless it denies
        ("push", PUSH, False, True),
        ("push", tool(None, "push"), True, True),
        ("None.*", tool(None, "push"), False, False),
        ("web*", resource("web", "a://b"), False, True),
        ("git_status", tool("evil", "git_status"), False, True),
        ("git__push", tool("git", "push", "git__push"), True, True),
        ("git__push", tool("evil", "git__push"), False, True),
        ("git__*", tool("git", "push", "git__push"), True, True),
        ("git__pu_sh", tool("git", "pu!sh", "git__pu_sh"), False, True),
        ("get_resource", resource("web", "a://b"), False, True),
        # what could pass for the name
        ("git.push", tool("git", "Push"), False, True),
        ("git.push", tool("git", "pu\u200bsh"), False, True),
        ("git.push", tool("git", "push "), False, True),
        ("git.push", tool("git", "push..."), False, True),
        ("git.push", tool("git", "push\n"), False, True),
        ("git.push", tool("git", "push\ufe0f"), False, True),
        ("git.push", tool("git", "push\U000e0020"), False, True),
        ("git.push", tool("git", "\uff50ush"), False, True),
        ("git.push", tool("G\u200bit", "push"), False, True),
        ("git.push", tool("git", "pusher"), False, False),
        # names with characters that mean something in a pattern
        ("git.*", tool("git", "*"), True, True),
        ("git.[*]", tool("git", "*"), True, True),
        ("git.[*]", PUSH, False, False),
        ("git.[a]", tool("git", "[a]"), True, True),
        ("a[b]*.x", tool("a[b]*", "x"), True, True),
        ("a.b/c:D_e.x.y", tool("a.b/c:D_e", "x.y"), True, True),
        # kinds
        ("web.*", resource("web", "a://b"), True, True),
        ("web.*", prompt("web", "review"), True, True),
        ("web.a*", resource("web", "a://b"), False, True),
        ("@web:a://*", resource("web", "a://b"), True, True),
        ("@web:*", resource("web", "a://b"), True, True),
        ("@web:*", resource("web.evil", "a://b"), False, False),
        ("@web:*", tool("web", "a://b"), False, False),
        ("@web:*", prompt("web", "review"), False, False),
        ("/web:*", prompt("web", "review"), True, True),
        ("/web:review", prompt("web", "Review"), False, True),
        ("web.@a://b", tool("web", "@a://b"), True, True),
        ("web.@a://b", resource("web", "a://b"), False, False),
        ("@a:b:c://d", resource("a:b", "c://d"), True, True),
        # a folder's pattern is not for what leads out of it
        ("@web:file:///a/*", resource("web", "file:///a/b"), True, True),
        ("@web:file:///a/*", resource("web", "file:///a/../etc/passwd"), False, True),
        ("@web:file:///a/*", resource("web", "file:///a/%2e%2e/etc/passwd"), False, True),
        ("@web:file:///a/*", resource("web", "file:///a/%252e%252e/etc/passwd"), False, True),
        ("@web:file:///a/../b", resource("web", "file:///a/../b"), True, True),
        ("@web:file:///etc/*", resource("web", "FILE:///%65tc/passwd"), False, True),
    ],
)
def test_what_a_rule_names(rule: str, asked: ToolDefinition, permitted: bool, forbidden: bool) -> None:
    assert permits(rule, asked, ["git", "web"]) is permitted
    assert forbids(rule, asked) is forbidden


def test_of_two_servers_that_a_rule_may_name_it_permits_the_one_that_it_names_in_full() -> None:
    assert permits("git.evil.push", tool("git", "evil.push"), ["git"])
    assert not permits("git.evil.push", tool("git", "evil.push"), ["git", "git.evil"])
    assert permits("git.evil.push", tool("git.evil", "push"), ["git", "git.evil"])
    assert forbids("git.evil.push", tool("git", "evil.push"))
    assert permits("a__b__c", tool("a", "b__c", "a__b__c"), ["a"])
    assert not permits("a__b__c", tool("a", "b__c", "a__b__c"), ["a", "a__b"])


@each_row("end", ["x", "y"])
def test_names_are_compared_whole(end: str) -> None:
    long = "a" * 100_000
    rule = f"git.{long}x"
    assert permits(rule, tool("git", long + end)) is (end == "x")
    assert forbids(rule, tool("git", long + end)) is (end == "x")


@each_row(
    "pattern, asked, permitted, forbidden",
    [
        ("push", PUSH, True, True),
        ("push", tool("git", "Push"), False, True),
        ("*", resource("git", "a://b"), True, True),
        ("*", prompt("git", "review"), True, True),
        ("a*", resource("git", "a://b"), False, True),
        ("@a*", resource("git", "a://b"), True, True),
        ("@a*", tool("git", "@a"), False, True),
        ("/rev*", prompt("git", "review"), True, True),
        ("/rev*", tool("git", "review"), False, False),
    ],
)
def test_in_the_entry_of_a_server_its_name_is_left_out(
    pattern: str, asked: ToolDefinition, permitted: bool, forbidden: bool
) -> None:
    assert permits_of_server(pattern, asked) is permitted
    assert forbids_of_server(pattern, asked) is forbidden


NAMES = st.text("ab.:_@/*[]\u200b", min_size=1, max_size=6)


@given(NAMES, NAMES, st.sampled_from([tool, resource, prompt]))
def test_what_is_named_in_full_is_denied(server: str, name: str, make: Any) -> None:
    asked = make(server, name)
    assert forbids(rule_of(asked), asked)


@given(NAMES, NAMES, NAMES)
def test_a_rule_that_permits_would_also_deny(rule: str, server: str, name: str) -> None:
    for asked in (tool(server, name), resource(server, name), prompt(server, name)):
        assert forbids(rule, asked) or not permits(rule, asked)


@each_row(
    "uri",
    [
        *("file:///./secret", "file:////secret", "file:///x/../secret", "file://localhost/secret", "file:/secret"),
        *("file:///%73ecret", "file:///%2573ecret", "FILE:///Secret", "file:///secret/", "file:///secret#x"),
    ],
)
def test_a_denied_address_is_denied_as_others_write_it(uri: str) -> None:
    assert forbids("@notes:file:///secret*", resource("notes", uri))
    assert forbids_of_server("@file:///secret", resource("notes", uri))
    assert not permits("@notes:file:///secret", resource("notes", uri))


@each_row(
    "rule, name",
    [
        ("git.[!A-Z]*", "delete_all"),
        ("git.[!A]*", "apple"),
        ("git.[A-_]*", "Push"),
        ("git.[ -~]*", "push"),
        ("git.[! ]*", "push"),
        ("git.push?", "push\u200b"),
        ("[!x]*.push", "push"),
    ],
)
def test_what_fits_as_it_is_written_is_denied(rule: str, name: str) -> None:
    assert forbids(rule, tool("git", name))
    if rule.startswith("git."):
        assert forbids_of_server(rule.removeprefix("git."), tool("git", name))


HOSTS = (
    *("http://internal", "http://internal?x", "http://internal#x", "http://internal./a", "http://internal:/a"),
    *("http://internal:080/a", "http:///internal/a", "http:\\\\internal\\a", "http:internal/a", "HTTP://Internal/a"),
    *("http://u:p@internal:80/a", "http://in\tternal/a", "http://%69nternal/a", "http://\uff49nternal/a"),
)


@each_row("uri", HOSTS)
def test_a_denied_host_is_denied_as_others_write_it(uri: str) -> None:
    assert forbids("@web:http://internal/*", resource("web", uri))
    assert forbids_of_server("@http://internal/*", resource("web", uri))
    assert not forbids("@web:http://internal/*", resource("web", uri.lower().replace("ternal", "tern")))


@each_row(
    "rule, uri",
    [
        ("https://internal:443/*", "https://internal/a"),
        ("https://internal/*", "https://internal:443/a"),
        ("http://b\u00fccher.example/*", "http://xn--bcher-kva.example/a"),
        ("http://xn--bcher-kva.example/*", "http://b\u00fccher.example/a"),
        ("http://127.0.0.1/*", "http://2130706433/a"),
        ("http://127.0.0.1/*", "http://0x7f.1/a"),
        ("http://127.0.0.0/*", "http://127.0x/a"),
        ("http://127.0.0.1:80/*", "http://0177.0.0.1/a"),
        ("http://[[]::1]/*", "http://[0:0:0:0:0:0:0:1]/a"),
        ("ws://internal/*", "ws://internal:80/a"),
    ],
)
def test_a_denied_host_is_denied_in_each_of_its_forms(rule: str, uri: str) -> None:
    assert forbids(f"@web:{rule}", resource("web", uri))


def test_another_host_or_port_is_another_one() -> None:
    for uri in ("http://internal:8080/a", "http://internal.example/a", "https://internal/a", "ftp://internal/a"):
        assert not forbids("@web:http://internal/*", resource("web", uri))


UP = [
    ".\t./",
    ".\n./",
    ".%0a./",
    ".\u200b./",
    "\uff0e\uff0e/",
    "%25252e%25252e/",
    "\u2025/",
    ". ./",
    "%2525252525252525252e./",
]


@each_row("step", UP)
def test_no_way_of_writing_a_step_up_leads_out_of_a_folder(step: str) -> None:
    assert not permits("@git:file:///docs/*", resource("git", f"file:///docs/{step}x"))
    assert not permits_of_server("@file:///docs/*", resource("git", f"file:///docs/{step}x"))
    assert permits("@git:file:///docs/*", resource("git", "file:///docs/a.b/c.txt"))


@each_row("uri", ["http://h:80/secret", "http://me@h/secret", "http://h/secret#a", "http://h/./secret"])
def test_a_denied_page_is_denied_as_others_write_it(uri: str) -> None:
    assert forbids("@web:http://h/secret*", resource("web", uri))


@each_row("end", ["/", ")", "?", "'", '"', "~", "\\", "*", "+", "\u2019", "\u3002"])
def test_what_stands_around_a_name_hides_it_from_no_denial(end: str) -> None:
    assert forbids("git.push", tool("git", f"push{end}"))
    assert not permits("git.push", tool("git", f"push{end}"))


@pytest.mark.slow
@each_row("rule", ["s.pull", "s." + "[" * 500_000, "s." + "*[" * 250_000, "." * 500_000])
@each_row("name", ["a" + "\u0301\u0316" * 60_000, "pull", "[" * 100_000])
def test_no_rule_and_no_name_takes_long(rule: str, name: str) -> None:
    asked = tool("s", name)
    started = time.thread_time()
    denied, allowed = forbids(rule, asked), permits(rule, asked, ("s",))
    assert within(time.thread_time() - started, 1.0)
    assert (denied, allowed) == ((True, True) if (rule, name) == ("s.pull", "pull") else (False, False))
