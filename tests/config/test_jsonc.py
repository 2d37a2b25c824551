"""A change to a configuration file changes that and nothing else: comments, order and style stay."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.config.jsonc import blank_extras, comments, with_value, without_value
from tests.tables import each_row

FILE = """\
{
  // who may do what
  "mcpServers": {
    "git": {
      "command": "uvx", // pinned below
      "args": ["mcp-server-git==2026.1.14"],
    }, /* the only one
          that writes */
    "time": {"command": "uvx", "args": ["mcp-server-time"]}
  },
  "otherTool": {"colour": "blue"} // not ours
}
"""


def parsed(text: str) -> Any:
    return json.loads(blank_extras(text))


def told(text: str) -> list[str]:
    return [text[start:end] for start, end in comments(text)]


def test_a_server_is_added_in_the_style_of_the_file() -> None:
    after = with_value(FILE, ("mcpServers", "docs"), {"url": "https://example.com/mcp", "headers": {"A": "b"}})
    assert after == FILE.replace(
        '"args": ["mcp-server-time"]}\n',
        '"args": ["mcp-server-time"]},\n    "docs": {\n      "url": "https://example.com/mcp",\n'
        '      "headers": {"A": "b"}\n    }\n',
    )
    wide = with_value("{}", ("servers", "a"), {"command": "x" * 40, "args": ["y" * 40]})
    assert wide == (
        '{\n  "servers": {\n    "a": {\n      "command": "' + "x" * 40 + '",\n      "args": ["' + "y" * 40 + '"]\n'
        "    }\n  }\n}"
    )


def test_a_server_is_taken_out_and_the_comments_around_it_stay() -> None:
    assert without_value(FILE, ("mcpServers", "time")) == FILE.replace(
        '    "time": {"command": "uvx", "args": ["mcp-server-time"]}\n', ""
    ).replace("    }, /* the only one", "    } /* the only one")
    after = without_value(FILE, ("mcpServers", "git"))
    assert list(parsed(after)["mcpServers"]) == ["time"]
    assert told(after) == [told(FILE)[0], *told(FILE)[2:]]


@each_row(
    "before, after",
    [
        ("{}", '{\n  "a": {"b": 1}\n}'),
        ("{ // none yet\n}", '{ // none yet\n  "a": {"b": 1}\n}'),
        ('{"a": {"x": 2 /* two */}}', '{"a": {"x": 2, "b": 1 /* two */}}'),
        ('{"a": {"x": 2,}}', '{"a": {"x": 2, "b": 1,}}'),
        ('{\n\t"a": {\n\t\t"x": 2, // two\n\t},\n}', '{\n\t"a": {\n\t\t"x": 2, // two\n\t\t"b": 1,\n\t},\n}'),
        ('{\r\n    "z": {}\r\n}', '{\r\n    "z": {},\r\n    "a": {"b": 1}\r\n}'),
        ('{"a": {"b": [1, 2]}, "c": "}"}', '{"a": {"b": 1}, "c": "}"}'),
    ],
)
def test_texts_as_people_have_them(before: str, after: str) -> None:
    assert with_value(before, ("a", "b"), 1) == after


def test_what_is_no_object_takes_no_members() -> None:
    with pytest.raises(ValueError, match="a is no object"):
        with_value('{"a": []}', ("a", "b"), 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from(["a", "b", "é", "//", '"', ","]), JSON, max_size=4)
SPACE = st.lists(
    st.sampled_from([" ", "\n", "\t", "\r\n", "// note, {\n", "/* two\n lines ] */", '// "x"\n']), max_size=3
).map("".join)


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """The value as JSON with white space, comments and trailing commas anywhere they may be."""

    def written(item: Any) -> str:
        if not isinstance(item, dict | list):
            return json.dumps(item, ensure_ascii=False)
        parts = (
            [
                f"{draw(SPACE)}{json.dumps(key)}{draw(SPACE)}:{draw(SPACE)}{written(inner)}"
                for key, inner in item.items()
            ]
            if isinstance(item, dict)
            else [draw(SPACE) + written(inner) for inner in item]
        )
        trailing = draw(st.sampled_from(["", ","])) if parts else ""
        inside = f"{draw(SPACE)},".join(parts) + draw(SPACE) + trailing + draw(SPACE)
        return "{" + inside + "}" if isinstance(item, dict) else "[" + inside + "]"

    return draw(SPACE) + written(value) + draw(SPACE)


def comment_texts(text: str) -> list[str]:
    return [re.sub(r"\s+", " ", found).strip() for found in told(text)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), value=OBJECT, key=st.sampled_from(["a", "b", "new", "//"]), inner=st.booleans(), new=JSON)
def test_setting_a_value_sets_it_and_nothing_else(
    data: st.DataObject, value: dict[str, Any], key: str, inner: bool, new: Any
) -> None:
    text = data.draw(texts(value))
    path = ("a", key) if inner else (key,)
    expected = json.loads(json.dumps(value))
    if inner and not isinstance(expected.setdefault("a", {}), dict):
        with pytest.raises(ValueError, match="is no object"):
            with_value(text, path, new)
        return
    holder = expected["a"] if inner else expected
    is_new = key not in holder
    holder[key] = new
    after = with_value(text, path, new)
    assert parsed(after) == expected
    if is_new:
        assert comment_texts(after) == comment_texts(text)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), value=OBJECT, key=st.sampled_from(["a", "b", "new", "//"]), inner=st.booleans())
def test_removing_a_value_removes_it_and_nothing_else(
    data: st.DataObject, value: dict[str, Any], key: str, inner: bool
) -> None:
    text = data.draw(texts(value))
    expected = json.loads(json.dumps(value))
    holder = expected.get("a") if inner else expected
    there = isinstance(holder, dict) and key in holder
    if isinstance(holder, dict):
        holder.pop(key, None)
    after = without_value(text, ("a", key) if inner else (key,))
    assert parsed(after) == expected
    if not there:
        assert after == text


@each_row("text, words", [("// nothing\n", "the text holds no value"), ('{"a": 1}', "a is no object")])
def test_a_value_that_has_no_place_is_an_error(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        with_value(text, ("a", "b"), 1)


def test_half_characters_are_escaped() -> None:
    assert with_value("{}", ("a",), "\ud800é") == '{\n  "a": "\\ud800\\u00e9"\n}'


def test_a_comment_may_end_the_line_of_the_last_member() -> None:
    text = '{\r\n  "a": 1 /* one */ // and only\r\n}\r\n'
    assert with_value(text, ("b",), 2) == '{\r\n  "a": 1, /* one */ // and only\r\n  "b": 2\r\n}\r\n'
