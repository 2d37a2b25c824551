"""Exports of conversations: what they show, that nothing of others is more than text in them, and that JSON is read."""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mcpagent import Agent, Limits, RunOptions, ScriptedModel, Sessions, ToolCall, load_messages
from mcpagent.errors import InputError
from mcpagent.journal.sessions import LoadedSession, exported
from mcpagent.journal.sessions.export import FORMS
from mcpagent.journal.sessions.export.transcript import ExportBudget
from mcpagent.prompt.builder import call_note, final_answer_note, misfit_note
from mcpagent.utilities.text.safe_text import safe_text
from mcpagent.utilities.text.secrets import hide
from mcpagent.values.messages import Image, Message, ToolResult
from tests.journal.sessions.sample_session import NOW, PIXEL, SVG, everything, kept, result, said, spent_in
from tests.tables import each_row

VOID = frozenset({"img", "meta", "br", "hr"})
OURS = frozenset(
    """
    html head meta title style body header nav main footer section article aside h1 h2 h3 h4 h5 h6 dl div dt dd ol ul li
    p a pre code details summary b small mark span img em strong s table thead tbody tr th td blockquote br hr
    """.split()  # noqa: SIM905
)
CLASSES = frozenset(
    "note question step answer call done failed denied unknown waiting offered thinking block rest words names".split()  # noqa: SIM905
)
ATTRIBUTES = {
    "a": {"href", "rel", "title"},
    "img": {"alt", "src"},
    "meta": {"charset", "http-equiv", "content", "name"},
    "html": {"lang"},
    "section": {"id"},
    "ol": {"start"},
}


class Page(HTMLParser):
    """Reads a page, and holds that each element is ended in its place."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    @property
    def text(self) -> str:
        """All that it says."""
        return "".join(self.texts)


def is_inert(page: str) -> Page:
    """Holds that a page has our elements and attributes alone, and fetches nothing."""
    seen = Page(page)
    assert set(seen.tags) <= OURS
    assert seen.tags.count("style") == seen.tags.count("title") == seen.tags.count("body") == 1
    for tag, name, value in seen.attributes:
        assert name in ATTRIBUTES.get(tag, set()) | {"class", "dir"}, (tag, name)
        match name:
            case "class":
                assert set(value.split()) <= CLASSES
            case "href":
                assert re.match(r"#question-\d+$|https?://", value)
            case "src":
                assert re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+", value)
            case "id":
                assert re.fullmatch(r"question-\d+", value)
            case _:
                pass
    assert re.findall(r"(?<!#)\burl\(|@import", page.partition("</style>")[0]) == []
    return seen


def headings(text: str) -> list[str]:
    """Of a Markdown text, those that stand in no quote, with the title left out; holds that nothing in it is more."""
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    for token in tokens:
        assert token.type != "html_block"
        for inner in token.children or ():
            assert inner.type not in ("html_inline", "image"), text
            if inner.type == "link_open":
                assert re.match(r"#question-\d+$|https?://", str(inner.attrs["href"]))
    shown = [
        tokens[place + 1].content
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    return shown[1:]


HARMLESS = headings(exported(everything("hello"), "md", now=NOW))

HOSTILE = [
    "<script>x()</script>",
    "</details></pre></article></main>",
    "</title></style></head><body onload=x()>",
    "<!-- ",
    "]]>",
    "<img src=http://evil.example onerror=x()>",
    '" onmouseover="x()',
    "' autofocus onfocus='x()",
    "&lt;b&gt; &#x3c;b>",
    "```",
    "`````\n# out\n",
    "~~~~\n# out\n",
    "\n\n# out\n\n",
    "\n===\n",
    "    \n\n1. [x](javascript:x())\n",
    "[x](javascript:x())",
    "[x](data:text/html,x)",
    "[x]: http://evil.example\n",
    "![x](http://evil.example/pixel.png)",
    "<http://evil.example> <javascript:x()>",
    "[a](http://good.example 'title\" onclick=x()')",
    "\x1b]0;owned\x07\x1b[2J\x9b31m",
    "\u202egnp.exe\u2066\u200b\U000e0041",
    "\r\nforged\rline\u2028x\x00",
    "| a |\n|---|\n| <b> |\n",
    "- [ ] x\n  > y\n",
    "$x$ \\",
]


@each_row("words", HOSTILE)
def test_words_of_others_are_text_in_every_form(words: str) -> None:
    session = everything(words)
    seen = is_inert(exported(session, "html", now=NOW))
    assert headings(exported(session, "md", now=NOW)) == HARMLESS
    for form in FORMS:
        text = exported(session, form, now=NOW)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]", text)
        text.encode("utf-8")
    # What was typed stands there as it was, but for what nobody can see.
    assert safe_text(f"First: {words}").strip("\n") in seen.text


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=12), max_size=5).map("".join))
def test_whatever_the_words_are(words: str) -> None:
    session = everything(words)
    is_inert(exported(session, "html", now=NOW))
    assert headings(exported(session, "md", now=NOW)) == HARMLESS
    document = json.loads(exported(session, "json", now=NOW))
    assert tuple(load_messages(document["messages"])) == session.messages


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["`", "``", "````", "~~~", "\n", "> ", "# x", "- ", "a", " ", "\t", "    "])).map("".join)
)
def test_no_text_ends_its_quote_or_its_code(words: str) -> None:
    session = kept(
        (said("user", words or "a"), said("assistant", words, ToolCall("1", "t", {}, malformed=words or "x")))
    )
    with_result = replace(session, messages=(*session.messages, said("tool", result("1", "t", words))))
    assert headings(exported(with_result, "md", now=NOW)) == ["Question 1", "Step 1"]


def test_the_page_says_what_each_step_was_offered_and_took() -> None:
    page = exported(everything(), "html", now=NOW)
    seen = Page(page)
    text = " ".join(seen.text.split())
    for words in (
        "2 tools offered+ search_tools, add_tool",
        "3 tools offered+ hello",
        "2 tools offered− hello",
        "model hello1,234 in (1,000 cached), 56 out$0.01232.3 s",
        "2,000 in, 10 outcost not known1.0 s",
        "9,834 in (1,000 cached), 156 out",
        "$0.0153 and what is not known",
        "7.8 s of the model, 1.5 s of tools",
        "11, 5 of them without a good end",
        "2026-09-21 14:13 UTC",
        "/home/ann/hello",
    ):
        assert words in text, words
    assert text.count("tools offered") == 3
    links = [value for tag, name, value in seen.attributes if (tag, name) == ("a", "href")]
    assert links == ["#question-1", "#question-2", "#question-1", "#question-2"]
    assert [value for tag, name, value in seen.attributes if name == "id"] == ["question-1", "question-2"]


OUTCOMES = {
    "malformed arguments": "failed",
    "denied": "denied",
    "outcome unknown: it may have run": "unknown",
    "timed out": "failed",
    "waits for an approval": "waiting",
    "waits for a result from outside": "waiting",
    "sent, without a result: it may have run": "unknown",
    "not run yet": "waiting",
}


def test_what_became_of_each_call_is_marked() -> None:
    page, text = exported(everything(), "html", now=NOW), exported(everything(), "md", now=NOW)
    calls = re.findall(r'<details class="call (\w+)"><summary><b>(\w+)</b>.*?</summary>', page)
    assert [name for _, name in calls] == [
        *("search_tools", "hello", "remove", "book", "shot", "slow"),
        *("pay", "ask_ann", "sent", "later", "known"),
    ]
    marks = re.findall(r'<details class="call (\w+)"><summary><b>\w+</b> <code>[^<]*</code><mark>([^<]*)</mark>', page)
    assert marks == [(outcome, words) for words, outcome in OUTCOMES.items()]
    assert re.findall(r"^\*\*Call\*\* `\w+`: \*\*(.*?)\*\*", text, re.MULTILINE) == list(OUTCOMES)
    assert "known hello" in text  # a result that no message has yet


def test_what_is_told_of_tools_is_no_question() -> None:
    for form in ("md", "html"):
        text = exported(everything(), form, now=NOW)
        assert "The model was told" in text
        assert "Question 3" not in text


async def test_what_mcpagent_says_to_a_model_is_no_question() -> None:
    def look(place: str) -> str:
        """Looks at a place."""
        return f"seen {place}"

    model = ScriptedModel([*(ToolCall(str(number), "look", {"place": "a"}) for number in range(6)), "done"])
    async with Agent(model, tools=[look], options=RunOptions(limits=Limits(turns=20))) as agent:
        await agent.ask("Look at it.")
        text = exported(agent._runtime.own_session.snapshot(), "md")
    assert text.count("The model was told") == 2  # of the repeated calls, and to answer now
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Question 1"]


FAILING = 'Your calls to "look" keep failing in the same way.'


@each_row("note", [call_note("look()"), misfit_note(["people: Field required"]), final_answer_note(FAILING)])
def test_a_model_that_is_told_what_its_answer_lacks_was_asked_no_question(note: str) -> None:
    reminded = (said("user", "go"), said("assistant", "I use look()."), said("user", note))
    for form in ("md", "html"):
        assert "Question 2" not in exported(kept(reminded), form, now=NOW)


def test_the_policy_allows_the_style_alone() -> None:
    page = exported(everything(), "html", now=NOW)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


@each_row(
    "media_type, data, shown",
    [
        ("image/png", PIXEL, "image/png"),
        ("image/svg+xml", PIXEL, "image/png"),  # what the bytes are, not what is said of them
        ("image/svg+xml", SVG, None),
        ("image/png", SVG, None),
        ("image/png", '"><script>', None),
        ('image/png" onerror=x()', "%%%", None),
        ("text/html", b64encode(b"<script>").decode(), None),
        ("image/png", PIXEL[:20] + "\n \"'<" + PIXEL[20:], "image/png"),
    ],
)
def test_an_image_is_shown_if_its_bytes_are_one(media_type: str, data: str, shown: str | None) -> None:
    session = kept((said("user", Image(media_type, data)), said("assistant", "seen")))
    seen = is_inert(exported(session, "html", now=NOW))
    sources = [value for tag, name, value in seen.attributes if (tag, name) == ("img", "src")]
    assert [source.partition(",")[0] for source in sources] == ([f"data:{shown};base64"] if shown else [])
    if shown:
        assert b64decode(sources[0].partition(",")[2]) == b64decode(PIXEL)
    assert "an image" in exported(session, "md", now=NOW)


def test_an_answer_is_shown_as_it_was_meant() -> None:
    words = "# Found\n\n| a | b |\n|---|--:|\n| *1* | `2` |\n\n4. see [it](https://x.example/a?b=1&c=2)\n\n```html\n<b>\n```\n"
    page = exported(kept((said("user", "*go*"), said("assistant", words))), "html", now=NOW)
    is_inert(page)
    for markup in (
        "<h4>Found</h4>",
        "<td><em>1</em></td>",
        '<ol start="4">',
        '<a href="https://x.example/a?b=1&amp;c=2" rel="noopener noreferrer nofollow" title="x.example">it</a>',
        "<pre><code>&lt;b&gt;\n</code></pre>",
        ">*go*</pre>",
    ):
        assert markup in page
    text = exported(kept((said("user", "*go*"), said("assistant", "# Found\n\n- a\n"))), "md", now=NOW)
    assert "> # Found\n>\n> - a\n" in text


def long_session(size: int, count: int) -> LoadedSession:
    """With this many results of this size."""
    calls = [ToolCall(str(number), "read", {}) for number in range(count)]
    results = [result(call.id, "read", f"<é\u202e{call.id}>".ljust(size, "<")) for call in calls]
    return kept((said("user", "go"), said("assistant", *calls), said("tool", *results), said("assistant", "done")))


@pytest.mark.slow
def test_a_file_for_people_is_bounded() -> None:
    session = long_session(5_000_000, 2)
    page, text = exported(session, "html", now=NOW), exported(session, "md", now=NOW)
    assert 2 * 400_000 < len(page) < 2 * 420_000  # "<" takes four characters
    assert len(text) < 2 * 11_000
    is_inert(page)
    assert page.count("more characters, which the JSON has") == text.count("more characters, which the JSON has") == 2
    assert page.count("100,000 more characters") == 2
    assert page.count("had invisible characters") == 2
    document = json.loads(exported(session, "json", now=NOW))
    assert tuple(load_messages(document["messages"])) == session.messages


def test_a_page_has_room_for_so_much_in_all() -> None:
    room = ExportBudget(left=50)
    assert room.cut("a" * 30, 20, 100) == ("a" * 20, "a" * 10, 0)
    assert room.cut("one\ntwo\nthree and more", 15, 3) == ("one\ntwo\n", "thr", 11)
    assert room.cut("b" * 30, 20, 100) == ("b" * 9, "", 21)
    assert room.cut("c", 20, 100) == ("", "", 1)


def test_more_answers_than_can_be_read_as_markdown_are_shown_as_they_are() -> None:
    answer = said("assistant", "*so* ".ljust(50_000, "x"))
    page = exported(kept((said("user", "go"), *[answer] * 22)), "html", now=NOW)
    assert page.count("<em>so</em>") == 20
    assert page.count(">*so* x") == 2


def test_json_has_all_of_it_and_is_read_again() -> None:
    session = everything("hello")
    document = json.loads(exported(session, "json", now=NOW))
    assert tuple(load_messages(document["messages"])) == session.messages
    assert document["schema"] == "mcpagent.session/1"
    assert document["exported"] == document["session"]["created"] == "2026-09-21T14:13:20+00:00"
    assert document["spent"] == spent_in(session)
    assert [step["place"] for step in document["steps"]] == [1, 3, 5, 7, 10]
    assert [step["offered"] for step in document["steps"]] == [
        ["search_tools", "add_tool"],
        ["search_tools", "add_tool", "hello"],
        None,
        None,
        ["search_tools", "add_tool"],
    ]
    assert [call["call_id"] for call in document["pending"]] == ["p1", "p2"]
    assert document["system"] == "Be kind. hello"
    assert exported(session, "json", now=NOW).isascii()


def test_no_secret_is_in_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    known, of_environment = "hush-hush-1", "hush-hush-2"
    shape = "sk-ant-0123456789abcdef0123"
    hide(known)
    monkeypatch.setenv("MY_TOKEN", of_environment)
    words = f"{known} {of_environment} {shape}"
    for form in FORMS:
        text = exported(everything(words), form, now=NOW)
        for secret in (known, of_environment, shape):
            assert secret not in text, form
        assert "[redacted]" in text.replace("\\", "")
    document = json.loads(exported(everything(words), "json"))
    assert [message.role for message in load_messages(document["messages"])] == [m.role for m in everything().messages]


def test_a_number_is_no_secret_and_a_word_of_ours_spoils_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "123456789")
    monkeypatch.setenv("B_TOKEN", "tool_result")
    call = ToolCall("1", "t", {"n": 123456789, "text": "tool_result"})
    session = kept((said("user", "go"), said("assistant", call), said("tool", result("1", "t", "123456789"))))
    loaded = load_messages(json.loads(exported(session, "json"))["messages"])
    assert loaded[1].tool_calls[0].arguments == {"n": 123456789, "text": "tool_result"}
    assert loaded[2].tool_results[0].text == "123456789"


async def test_a_live_session_and_a_kept_one_are_the_same_file(tmp_path: Path) -> None:
    def look(place: str) -> str:
        """Looks at a place."""
        return f"seen {place}"

    store = Sessions(tmp_path / "s.db")
    model = ScriptedModel([ToolCall("1", "look", {"place": "a"}), "done", "again"])
    begun = time.time()
    async with Agent(model, tools=[look], sessions=store) as agent:
        session = agent.session("ann")
        await session.ask("Look at it.")
        await session.ask("And again.")
        live = session.snapshot()
        assert [step.place for step in session._runtime.steps] == [1, 3, 5]
    read = store.read("ann")
    store.close()
    assert begun - 1 < live.info.created <= live.info.updated < time.time() + 1
    same = replace(live, info=replace(live.info, created=read.info.created, updated=read.info.updated))
    for form in FORMS:
        text = exported(same, form, now=NOW)
        assert text == exported(read, form, now=NOW)
        assert "look" in text
    assert exported(live, "json").count("seen a") == 1


def test_a_history_from_elsewhere_and_an_empty_one_are_files_too() -> None:
    for messages in ((), (said("user", "go"),), (said("assistant", "hello"), said("user", "go"))):
        session = kept(messages, created=0.0, updated=0.0)
        for form in FORMS:
            exported(session, form, now=NOW)
        is_inert(exported(session, "html", now=NOW))
        has_question = messages and messages[-1].role == "user"
        assert ("This question has no answer yet." in exported(session, "md", now=NOW)) == bool(has_question)


def test_half_a_character_is_in_no_file() -> None:
    session = kept((said("user", "a\ud800b"), said("assistant", ToolCall("1", "t", {"a": "\udc00"}))))
    for form in FORMS:
        exported(session, form, now=NOW).encode("utf-8")


def test_a_result_without_a_call_does_no_harm() -> None:
    stray = Message("tool", (ToolResult("gone", "t", ()),))
    session = kept((said("user", "go"), stray, said("assistant", "done")))
    for form in FORMS:
        assert "done" in exported(session, form, now=NOW)


def test_what_cannot_be_exported_is_told_in_a_line() -> None:
    with pytest.raises(InputError, match='no format "pdf"; there are md, json, html'):
        exported(everything(), "pdf")
    damaged = replace(everything(), values={"spent": {"usage": 1}})
    with pytest.raises(InputError, match='export: session "s-1" cannot be read: ValueError usage: '):
        exported(damaged, "md")
