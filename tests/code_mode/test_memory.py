"""After an exception the sandbox has what was done, and the type checker knows exactly that."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent import CodeMode
from mcpagent.code_mode.memory import MAX_CONTEXT, Memory
from mcpagent.code_mode.prelude import ITERATOR, STATEMENT, TRACKED
from mcpagent.code_mode.program_source import KEPT, bound_names, fed, in_short, lines_of, parsed
from tests.code_mode.programs_scene import told
from tests.tables import each_row

pytestmark = pytest.mark.anyio

F = "from tools.functions import add, fails, forbidden, listed, shout, slow\nimport asyncio\n"
WORK = "async def work(n):\n    return await fails(why='no')\n"

LEFT: list[tuple[str, str, str]] = [
    ("a = 1; b = 1 / 0; c = 2", "a", "b c"),
    ("for q in [1, 2]:\n    r = q\n    raise ValueError('x')\nlate = 1", "q r", "late"),
    ("if True:\n    import json\n    def f(n):\n        return n\n    1 / 0", "json f", ""),
    (F + WORK + "kept = 1\ny = await asyncio.gather(work(1), work(2))", "kept work shout", "y"),
    (
        F + "kept = 1\nfor n in [1]:\n    m = 2\n    y = await asyncio.gather(slow(name='a'), fails(why='b'))",
        "m n",
        "y",
    ),
    ("try:\n    a = 1\n    1 / 0\nfinally:\n    b = 2", "a b", ""),
    ("try:\n    1 / 0\nexcept ZeroDivisionError as gone:\n    a = 1\n    raise", "a", "gone"),
    ("with_ends = 'a\u2028b\x0bc\x0cd\x1ce\x85f'\nx = 1\n1 / 0", "x", ""),
    ("match [1, 2]:\n    case [one, *rest]:\n        x = 1 / 0", "one rest", "x"),
    ("got = [last := n for n in [1, 2]]\nif last:\n    [most := n for n in [3]]\n    1 / 0", "got last most", "n"),
    ("def half(n):\n    inner = n\n    return n / 0\n\nx = 5\nhalf(x)\nlate = 1", "x half", "inner late"),
    (F + "a = 1\nawait fails(why='API rate limit exceeded: 5 > 4')", "a", ""),
]


@pytest.mark.parametrize(
    ("program", "there", "gone"),
    [pytest.param(*one, marks=pytest.mark.slow if place % 3 else (), id=one[1]) for place, one in enumerate(LEFT)],
)
async def test_what_was_done_is_known_and_nothing_else(program: str, there: str, gone: str) -> None:
    reads = [f"[{', '.join(there.split())}] and None", *gone.split()]
    failed, known, *unknown = await told(program, *reads)
    assert failed.error == "failed", failed.text
    assert known.error is None, known.text
    assert all("unresolved-reference" in one.text for one in unknown)


async def test_the_statement_is_told_that_gather_failed_in() -> None:
    program = F + WORK + "many = [1, 2]\n\ny = await asyncio.gather(*[work(n) for n in many])"
    (failed,) = await told(program)
    assert failed.text.splitlines()[:2] == [
        "line 7: y = await asyncio.gather(*[work(n) for n in many])",
        "line 4: return await fails(why='no')",
    ]
    assert "    many = [1, 2]" in failed.text


async def test_a_long_way_to_an_exception_is_told_in_short() -> None:
    (failed,) = await told("def down(n):\n    return down(n + 1)\ndown(0)")
    assert failed.text.startswith("line 3: down(0)\nline 2: return down(n + 1)\n")
    assert "lines more" in failed.text
    assert len(failed.text) < 1_000


async def test_a_variable_of_which_only_the_name_is_known_is_anything() -> None:
    """Its types before are not believed, whatever the statement that failed made of it."""
    _, _, used = await told("x = 1", "for x in ['a', 'b']:\n    1 / 0", "x.upper()")
    assert used.text == "A"


IMPORTS: list[tuple[list[str], str]] = [
    (["import tools\nawait tools.functions.shout(text='a')"], "A"),
    (["import tools as t\nawait t.functions.shout(text='a')"], "A"),
    (["import tools", "await tools.functions.shout(text='a')"], "A"),
    (["def inner():\n    import tools\n    return tools\nawait inner().functions.shout(text='a')"], "A"),
    (["import tools\nawait tools.functions.shout(txt='a')"], "unknown-argument"),
    (["import tools\nawait tools.elsewhere.shout(text='a')"], "was not run"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("programs", "words"), IMPORTS)
async def test_importing_all_there_is(programs: list[str], words: str) -> None:
    assert words in (await told(*programs))[-1].text


async def test_variables_of_programs_long_ago_are_known() -> None:
    """Of many programs the oldest are known by the names that they left."""
    text = "# " + "x" * 30_000 + "\n"
    first = F + "old: int = 1\ndef double(n):\n    return 2 * n\n"
    *_, used, wrong = await told(
        first, *(f"{text}new{number} = 1" for number in range(6)), "double(old) + new0", "await shout(txt='a')"
    )
    assert used.text == "3"
    assert "unknown-argument" in wrong.text


def test_what_is_known_of_earlier_programs_is_bounded() -> None:
    memory, names = Memory(), [[f"a_name_{number}_{count}" for count in range(25)] for number in range(60)]
    for some in names:
        memory.remember("# " + "x" * 3_000 + "\n" + "\n".join(f"{name} = 1" for name in some))
        assert sum(map(len, memory.context)) <= MAX_CONTEXT
    assert memory.context[-1].endswith("a_name_59_24 = 1")
    known = [name for source in memory.context for name in bound_names(parsed(source).tree.body)]
    assert known == [name for some in names for name in some][-len(known) :]
    assert len(known) > 500
    assert in_short(memory.context[0]) == memory.context[0]
    assert f" = {KEPT}()" in memory.context[0]


OVER: list[tuple[str, str]] = [
    ("try:\n    while True:\n        pass\nexcept BaseException:\n    print('caught')", "feed time limit exceeded"),
    ("try:\n    x = 'a' * 10**9\nexcept BaseException:\n    print('caught')", "memory limit exceeded"),
    ("import json\nx = '[' * 40_000_000\njson.loads(x)", "exceeded its memory limit"),
    (
        F + "n = 0\nwhile True:\n    try:\n        await add(a=1)\n    except BaseException:\n        n += 1",
        "suspension limit",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "words"), OVER, ids=[words for _, words in OVER])
async def test_what_ends_a_program_cannot_be_caught_and_says_nothing_on_the_terminal(
    program: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    _, failed, kept = await told("kept = 1", "kept = 2\n" + program, "kept", code_mode=CodeMode(seconds=0.5, calls=2))
    assert words in failed.text
    assert "caught" not in failed.text
    assert kept.text == ("1" if "Variables are as they were" in failed.text else "2")
    assert capfd.readouterr() == ("", "")


async def test_names_that_begin_statements_are_names() -> None:
    imports = "import json\nfrom tools.functions import add, shout as match\nprint(await match(text='a'))"
    first, second, wrong = await told(
        imports, "match = 1\nmatch, case = 1, 2\ntype = match; _ = case\n_ + type", "a = 1; match = 2"
    )
    assert (first.text, second.text) == ("A", "3")
    assert "invalid-syntax" in wrong.text
    assert "mcpagent" not in wrong.text


ANEW: list[tuple[list[str], str]] = [
    (["x: int = 1", "x = 'a'\nx.upper()", "x.lower()"], "a"),
    ([F + "1", "shout = 1\nshout + 1", "shout + 2"], "3"),
    (["def f(): return 1", "f = 2", "f + 1"], "3"),
    (["import json\nclass A: pass", "json = A = 1\nfor json in [4]: pass", "json + A"], "5"),
    ([F + "1", "for add in [1, 2]: 1 / (add - 2)", "add + 1"], "3"),
    ([F + "1", "add = 1", F + "await add(a='one')"], "invalid-argument-type"),
    (["x: int = 1", "x: str = 1\nx"], "1"),
    (["x: int = 1\nx = 'a'\nx"], "a"),
]


@each_row("programs, words", ANEW)
async def test_a_name_of_an_earlier_program_may_be_another_variable(programs: list[str], words: str) -> None:
    last = (await told(*programs))[-1].text
    assert words in last
    assert ("not run" in last) == words.startswith("invalid")


async def test_helpers_and_variables_of_a_program_are_in_nobodys_way() -> None:
    own = "_call _json _value _function _Module _has _brief _cut _shown _last _statement _kept _Any call json"
    names = [*own.split(), "repr", "len", "isinstance", "str"]
    program = F + "\n".join(f"{name} = None" for name in names) + "\nn = 7\n1 / 0"
    failed, used = await told(program, "from tools.functions import listed\nawait listed(count=n - 6)")
    assert failed.text.endswith("ZeroDivisionError: division by zero")
    assert used.text == "[{'id': 0, 'name': 'item 0'}]"


LAST: list[tuple[str, str]] = [
    ("\ufefffrom __future__ import annotations\nx = 1\n1 / 0", "line 3: 1 / 0"),
    ("'doc'\nfrom __future__ import (\n  annotations,\n); x = 2\nx", "2"),
    ("x = 1\nx;  # words\n# more\n", "1"),
    ("x = 'a' \\\n 'b'; x", "ab"),
    ("*[1, 2], 3", "(1, 2, 3)"),
    ("import tools.functions; 'a'\n# b", "a"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "words"), LAST)
async def test_however_it_is_written(program: str, words: str) -> None:
    assert (await told(program))[0].text.startswith(words)


SIMPLE = (
    "a = 1",
    "b: int = 2",
    "a, b = 1, 2",
    "pass",
    "import math",
    "'doc'",
    "x = '''\n;\n'''",
    "a = \\\n 3",
    "[1,\n 2]",
)
BLOCKS = (
    "if a:\n    {}",
    "for c in [1]:\n    {}",
    "def f(n):\n    {}\nf(1)",
    "@str\ndef g(): pass\n{}",
    "try:\n    {}\nfinally:\n    d = 1",
    "class K:\n    e = 1\n{}",
    "match 1:\n    case h:\n        {}",
    "{}",
)


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, int]:
    """A program that fails, and the line where it does."""
    parts = ["a = 0"]
    for _ in range(draw(st.integers(0, 5))):
        simple = "; ".join(draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=3)))
        block = draw(st.sampled_from(BLOCKS)).format("pass")
        parts.append(draw(st.sampled_from([simple, block, "", "# \x0c words", f"{simple}  # é"])))
    fails = draw(st.sampled_from(["1 / 0", "a = 1; 1 / 0; b = 2", "y = (\n1 / 0)"]))
    before = draw(st.sampled_from(BLOCKS)).replace("a:", "not None:")
    indent = "        " if "case" in before else "    " if "    {}" in before else ""
    failing = before.format(fails.replace("\n", f"\n{indent}"))
    source = "\n".join([*parts, failing, "z = 1"])
    return source, source[: source.rindex("1 / 0")].count("\n") + 1


@settings(max_examples=50)
@given(programs())
def test_which_statement_runs_is_known_at_any_line(one: tuple[str, int]) -> None:
    """Run by another interpreter: what is fed fails where the program does, in the statement that it tells."""
    source, line = one
    program = parsed(source)
    names: dict[str, Any] = {ITERATOR: iter, TRACKED: lambda _: lambda function: function}
    lines = lines_of(program)
    with pytest.raises(ZeroDivisionError) as failed:
        exec(compile(fed(program, {}), "fed", "exec"), names)
    frames = [frame.lineno or 0 for frame in traceback.extract_tb(failed.tb) if frame.filename == "fed"]
    assert lines[frames[-1] - 1] == line
    statement = program.tree.body[names[STATEMENT]]
    assert statement.lineno <= lines[frames[0] - 1] <= (statement.end_lineno or 0)
    before = parsed(f"{program.before(names[STATEMENT])}\npass").tree.body[:-1]
    assert len(before) == names[STATEMENT]
    assert all(name in names for name in bound_names(before) if name not in ("c", "h"))
    assert "z" not in names
