"""The tasks of `benchmarks/code.py`: programs of 1 to 30 calls over the bundled server and the example's catalogue."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from mcpagent.demo import demo_server_config

CATALOGUE = (
    Path(__file__).resolve().parents[1]
    / "examples"
    / "tool_search"
    / "aws_catalogue_server.py"
)
SERVICES = ("dynamodb", "s3", "sqs")
GIVE_JSON = frozenset({"country_facts", "search_notes"})
"""Tools whose text is JSON, which some systems read and others leave to the program."""


def servers() -> dict[str, Any]:
    """`mcpServers` as JSON: the bundled server, and the catalogue of three services where botocore is installed."""
    found: dict[str, Any] = dict(demo_server_config()["mcpServers"])
    if importlib.util.find_spec("botocore") is not None:
        found["aws"] = {"command": sys.executable, "args": [str(CATALOGUE), *SERVICES]}
    return {
        name: {key: server[key] for key in ("command", "args")}
        for name, server in found.items()
    }


@dataclass
class Task:
    """A question, and the program that answers it; `answer` and `calls` are there once Python has run it.

    `query` are the words that a model searches with. `waves`: how many calls it can make at once, one wave after the
    other, since those of a wave depend on results of the wave before; () for all at once, (0,) for one after the other.
    `prints` is a program for independent calls with short `results`, which it prints unread for the model.
    """

    query: str
    question: str
    server: str
    body: str
    waves: tuple[int, ...] = ()
    prints: str = ""
    answer: str = ""
    results: list[str] = field(default_factory=list[str])
    calls: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )

    @property
    def kind(self) -> str:
        """One call, independent calls, or calls that depend on results of others."""
        if len(self.calls) == 1:
            return "one call"
        return "dependent" if self.waves else "independent"

    @property
    def rounds(self) -> list[list[tuple[str, dict[str, Any]]]]:
        """The calls that a model makes at once, in order."""
        sizes = self.waves or (len(self.calls),)
        if sizes == (0,):
            sizes = (1,) * len(self.calls)
        assert sum(sizes) == len(self.calls), (self.question, len(self.calls))
        calls = iter(self.calls)
        return [list(islice(calls, size)) for size in sizes]

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The tools that it calls, by name."""
        waits = (
            node.value
            for node in ast.walk(ast.parse(self.body))
            if isinstance(node, ast.Await)
        )
        called = {
            call.func.id
            for call in waits
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        }
        return tuple(sorted(called))

    @cached_property
    def program(self) -> str:
        """As mcpagent runs it."""
        return f"{self.imports}\n{self.body}"

    @property
    def imports(self) -> str:
        """The line that imports the tools."""
        return f"from tools.{self.server} import {', '.join(self.functions)}"

    def is_answered_by(self, text: str) -> bool:
        """Return whether the text has the answer, or every result that the model needs for it."""
        if self.prints:
            return all(result in text for result in self.results)
        return self.answer in text

    async def run_here(self, tools: Mapping[str, Any]) -> None:
        """Runs it by Python itself, with the tools of a started agent, and keeps what it came to."""

        def recorded(name: str) -> Any:
            async def call(**arguments: Any) -> Any:
                self.calls.append((name, arguments))
                output = await tools[name].run(arguments)
                text = "\n".join(part.text for part in output.content)
                value = json.loads(text) if name in GIVE_JSON else text
                self.results.append(str(value))
                return value

            return call

        tree = ast.parse(self.body)
        last = tree.body[-1]
        assert isinstance(last, ast.Expr)
        tree.body[-1] = ast.Return(last.value)
        main = ast.AsyncFunctionDef(
            "main", ast.arguments([], [], None, [], [], None, []), tree.body, [], None
        )
        module = ast.fix_missing_locations(ast.Module([main], []))
        names: dict[str, Any] = {name: recorded(name) for name in self.functions}
        exec(compile(module, "task", "exec"), names)
        value = await names["main"]()
        self.answer = value if isinstance(value, str) else repr(value)


_BODIES: Sequence[tuple[Any, ...]] = (
    (
        "facts about a country",
        "Which capitals and currencies have France, Japan, Brazil, India and Kenya?",
        "demo",
        "found = []\nfor name in ['France', 'Japan', 'Brazil', 'India', 'Kenya']:\n"
        "    facts = await country_facts(country=name)\n"
        "    found.append(facts['capital'] + ' ' + facts['currency'])\nfound",
        (),
        "for name in ['France', 'Japan', 'Brazil', 'India', 'Kenya']:\n"
        "    print(await country_facts(country=name))",
    ),
    (
        "is a number prime",
        "Which numbers from 90 to 115 are prime?",
        "demo",
        "primes = []\nfor n in range(90, 116):\n    text = await is_prime(number=n)\n"
        "    if ' is a prime' in text:\n        primes.append(n)\nprimes",
        (),
        "for n in range(90, 116):\n    print(await is_prime(number=n))",
    ),
    (
        "is it a leap year",
        "Which are the first three leap years from 2097 on?",
        "demo",
        "years, year = [], 2097\nwhile len(years) < 3:\n    text = await is_leap_year(year=year)\n"
        "    if ' is a leap' in text:\n        years.append(year)\n    year += 1\nyears",
        (0,),
    ),
    (
        "convert units",
        "How many miles are runs of 1, 5, 10, 21, 42, 100, 160 and 384 km together?",
        "demo",
        "total = 0.0\nfor km in [1, 5, 10, 21, 42, 100, 160, 384]:\n"
        "    text = await convert_units(value=km, from_unit='km', to_unit='mi')\n"
        "    total += float(text.split('=')[1].split()[0])\nround(total, 1)",
        (),
        "for km in [1, 5, 10, 21, 42, 100, 160, 384]:\n"
        "    print(await convert_units(value=km, from_unit='km', to_unit='mi'))",
    ),
    (
        "distance between capitals",
        "Which two of Paris, Tokyo, Nairobi, Canberra and Ottawa are farthest apart?",
        "demo",
        "cities, best, pair = ['Paris', 'Tokyo', 'Nairobi', 'Canberra', 'Ottawa'], 0, ''\n"
        "for place, one in enumerate(cities):\n    for other in cities[place + 1:]:\n"
        "        text = await distance_between_capitals(first_city=one, second_city=other)\n"
        "        km = int(text.split('about ')[1].split(' km')[0].replace(',', ''))\n"
        "        if km > best:\n            best, pair = km, one + ' ' + other\n[pair, best]",
        (),
        "cities = ['Paris', 'Tokyo', 'Nairobi', 'Canberra', 'Ottawa']\n"
        "for place, one in enumerate(cities):\n"
        "    for other in cities[place + 1:]:\n"
        "        print(await distance_between_capitals(first_city=one, second_city=other))",
    ),
    (
        "hash a text",
        "Whose checksum begins with a digit?",
        "demo",
        "found = []\nfor name in ['anna', 'ben', 'cleo', 'dora', 'emil', 'fynn', 'gus', 'hana']:\n"
        "    text = await hash_text(text=name, algorithm='sha256')\n"
        "    if text[0] in '0123456789':\n        found.append(name)\nfound",
        (),
        "for name in ['anna', 'ben', 'cleo', 'dora', 'emil', 'fynn', 'gus', 'hana']:\n"
        "    print(await hash_text(text=name, algorithm='sha256'))",
    ),
    (
        "add, search and read notes",
        "Note ten orders, and add up those of apples.",
        "demo",
        "for n in range(10):\n"
        "    await add_note(title='order ' + str(n), text=('apples ' if n % 3 else 'pears ') + str(n * 7))\n"
        "total = 0\nnotes = await search_notes(query='apples')\nfor title in sorted(notes):\n"
        "    text = await read_note(title=title)\n    total += int(text.split()[1])\ntotal",
        (10, 1, 6),
    ),
    (
        "roman numeral",
        "Which year from 1980 on has the longest Roman numeral by 2009?",
        "demo",
        "best, year = '', 0\nfor n in range(1980, 2010):\n    text = await to_roman_numeral(number=n)\n"
        "    numeral = text.split()[-1].strip('.')\n    if len(numeral) > len(best):\n"
        "        best, year = numeral, n\n[year, best]",
        (),
        "for n in range(1980, 2010):\n    print(await to_roman_numeral(number=n))",
    ),
    (
        "s3 bucket location versioning encryption",
        "What would be asked of five buckets about their place, versions and keys?",
        "aws",
        "lines = []\nfor bucket in ['logs', 'media', 'backup', 'site', 'raw']:\n"
        "    place = await s3_get_bucket_location(Bucket=bucket)\n"
        "    versions = await s3_get_bucket_versioning(Bucket=bucket)\n"
        "    keys = await s3_get_bucket_encryption(Bucket=bucket)\n"
        "    for text in [place, versions, keys]:\n        lines.append(text.splitlines()[2].split('/')[-1])\nlines",
    ),
    (
        "dynamodb describe table, sqs queue url",
        "How long are the requests about twelve tables, and the queues of every third?",
        "aws",
        "sizes, queues = 0, 0\nfor n in range(12):\n"
        "    text = await dynamodb_describe_table(TableName='table-' + str(n))\n"
        "    sizes += int(text.split('Content-Length: ')[1].split()[0])\n    if n % 3 == 0:\n"
        "        asked = await sqs_get_queue_url(QueueName='queue-' + str(n))\n"
        "        queues += asked.count('GetQueueUrl')\n[sizes, queues]",
    ),
    (
        "facts about a country",
        "What is the capital of France?",
        "demo",
        "await country_facts(country='France')",
    ),
    ("is a number prime", "Is 97 prime?", "demo", "await is_prime(number=97)"),
    (
        "is it a leap year",
        "Is 2100 a leap year?",
        "demo",
        "await is_leap_year(year=2100)",
    ),
    (
        "convert units",
        "How many miles are 42 km?",
        "demo",
        "await convert_units(value=42, from_unit='km', to_unit='mi')",
    ),
    (
        "distance between capitals",
        "How far is Paris from Tokyo?",
        "demo",
        "await distance_between_capitals(first_city='Paris', second_city='Tokyo')",
    ),
    (
        "hash a text",
        "What is the SHA-256 of anna?",
        "demo",
        "await hash_text(text='anna', algorithm='sha256')",
    ),
    (
        "roman numeral",
        "What is 2009 in Roman numerals?",
        "demo",
        "await to_roman_numeral(number=2009)",
    ),
    (
        "is a number prime, roman numeral",
        "Which is the first prime after 200, in Roman numerals?",
        "demo",
        "n = 201\nwhile ' is a prime' not in await is_prime(number=n):\n    n += 1\nawait to_roman_numeral(number=n)",
        (0,),
    ),
    (
        "facts about a country, distance between capitals",
        "How far are the capitals of France, Kenya and Japan from Ottawa?",
        "demo",
        "found = []\nfor name in ['France', 'Kenya', 'Japan']:\n"
        "    found.append((await country_facts(country=name))['capital'])\n"
        "[await distance_between_capitals(first_city=one, second_city='Ottawa') for one in found]",
        (3, 3),
    ),
    (
        "hash a text",
        "What is the SHA-256 of anna, hashed four times?",
        "demo",
        "text = 'anna'\nfor _ in range(4):\n"
        "    text = (await hash_text(text=text, algorithm='sha256')).split()[-1]\ntext",
        (0,),
    ),
)


async def tasks() -> list[Task]:
    """Those whose servers are there, each run once by Python itself."""
    from mcpagent import Agent, ScriptedModel

    there = servers()
    made = [Task(*one) for one in _BODIES if one[2] in there]
    async with Agent(ScriptedModel([]), mcp_config={"mcpServers": there}) as agent:
        await agent._runtime.definition.sources.settle(lambda _: None, 0.0)
        listing = agent._runtime.definition.sources.listing(())
        known = {tool.definition.original_name: tool for tool in listing.tools}
        for task in made:
            await task.run_here(known)
    return made
