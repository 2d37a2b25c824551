"""Finds how strong a best match must be before a search says that nothing fits.

    python benchmarks/search_threshold.py CATALOGUE ... [--queries FOLDER ...] [--strategy bm25]

CATALOGUE and FOLDER are as for `search_probes.py` and `search.py`. For every threshold it prints how many of the
requests below still get tools from each CATALOGUE, which serves hardly any of them, and how much recall@5 the queries
of each FOLDER lose on their own catalogue. `MIN_STRENGTH` and `MIN_HYBRID_STRENGTH` in `mcpagent/search/index.py` are
the points where about 3 of 20 of the former are left.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from pathlib import Path

sys.path.pop(0)  # this folder: its file names would hide packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_eval import queries_of
from benchmarks.search_probes import index_of, load_tools
from mcpagent.search import ToolIndex

UNSERVED = """
what is the capital of France
hello how are you
tell me a joke
who won the world cup in 1998
what is the meaning of life
thanks, that was helpful
good morning
explain quantum entanglement to a ten year old
write a poem about autumn
what is 17 times 23
who wrote War and Peace
how tall is Mount Everest
do you like music
what is your name
what is the difference between a virus and a bacterium
when did the Roman Empire fall
translate good night into Spanish
how do I boil an egg
what does the word serendipity mean
sing me a song
why is the sky blue
are you a robot
can you help me
I feel sad today
what should I cook for dinner tonight
book a table at an Italian restaurant for four
order a large pizza with mushrooms
call me a taxi to the airport
turn the volume of my guitar amplifier down
play some jazz
mow the lawn
feed my cat at six
water the plants
knit a sweater
make me a cup of coffee
fold the laundry
wash my car
open the garage door
buy two tickets for the opera on Saturday
renew my passport
pay my electricity bill
refinance my mortgage
file my taxes
find me a dentist
schedule a haircut
measure my blood pressure
what is the boiling point of ethanol
recommend a novel by Jane Austen
how old is the universe
name three prime numbers
who painted the Mona Lisa
summarise the plot of Hamlet
give me tips to sleep better
what rhymes with orange
is it ethical to eat meat
how many legs does a spider have
what language is spoken in Brazil
convert 20 miles into kilometres
design a logo for my bakery
diagnose my rash
train a puppy
hire a plumber
lower the thermostat of the sauna
reserve a hotel in Lisbon
rent a bicycle
stream the football match
pick a lottery number
solve this crossword clue
sharpen the kitchen knives
tune my piano
""".strip().splitlines()
"""Small talk, general knowledge, and things that no common MCP server does."""

THRESHOLDS = {"bm25": (0.0, 0.7, 0.8, 0.88, 0.95, 1.05, 1.2), "hybrid": (0.0, 1.4, 1.6, 1.75, 1.85, 2.0, 2.3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogues", type=Path, nargs="+")
    parser.add_argument("--queries", type=Path, nargs="*", default=[])
    parser.add_argument("--strategy", choices=sorted(THRESHOLDS), default="bm25")
    parser.add_argument("--cap", type=int, default=200, help="queries of each source (200)")
    options = parser.parse_args()
    catalogues = {folder.name: load_tools(folder) for folder in options.catalogues}
    asked = {folder: load_tools(folder) for folder in options.queries}
    for threshold in THRESHOLDS[options.strategy]:
        answered = {
            name: sum(bool(index.search(query).matches) for query in UNSERVED)
            for name, tools in catalogues.items()
            for index in [index_of(tools, options.strategy, threshold)]
        }
        told = ", ".join(f"{name} {count} of {len(UNSERVED)}" for name, count in answered.items())
        found = [
            _recalls(index_of(tools, options.strategy, threshold), folder, options.cap)
            for folder, tools in asked.items()
        ]
        recalls = {source: recall for folder in found for source, recall in folder.items()}
        mean = f"{statistics.fmean(recalls.values()):.4f}" if recalls else "-"
        shown = " ".join(f"{source} {recall:.3f}" for source, recall in recalls.items())
        print(f"{threshold:5.2f}  answered: {told}  recall@5 {mean}  {shown}", flush=True)


def _recalls(index: ToolIndex, folder: Path, cap: int) -> dict[str, float]:
    met: defaultdict[str, list[float]] = defaultdict(list)
    for row in queries_of(folder, cap):
        needs = row.get("groups") or [[name] for name in row["relevant"]]
        names = index.search(row["query"]).names
        met[f"{folder.name} {row['source']}"].append(
            statistics.fmean(any(name in names for name in need) for need in needs)
        )
    return {source: statistics.fmean(values) for source, values in met.items()}


if __name__ == "__main__":
    main()
