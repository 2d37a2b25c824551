"""Words of prompts and tool names made comparable: split, stemmed, synonyms joined, filler dropped."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Za-zÀ-ÿ]+\d*|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def word_set(words: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(words.split())


STOP_WORDS = word_set(
    """a an the this that these those it its is are was were be been am do does did has have had can could would will
    shall should may might must i me my mine we us our you your he she they them their his her of in on at to for
    from by with about as into onto than then and or but if so not no yes please kindly just now there here what
    which who whom whose when where why how much many some any every each all both more most very too also again
    let lets want need like s t re ve d ll m used uses running right first last next latest recent top called
    named up out down off over per via using use between until till since ago within under inside through after
    before while during current currently exactly"""
)

WEAK_WORDS = word_set(
    """get show give tell make find look see display print know help say put go take run return mention mentions
    contain contains"""
)
"""Verbs that say little about which tool is meant."""

CARRIERS = word_set("text word string phrase sentence line content value number message saying reading following")
"""Nouns that only announce the value after them, as in "reverse the word stressed"."""

COMMANDS = word_set(
    """what what's whats which who where when why how is are does do can could tell show list give find get read open
    convert calculate compute add sum create make write delete remove fetch search translate count compare
    remember note roll flip pick choose generate encode decode reverse format sort hash describe display print
    check run commit echo save send look draw spell split mix shuffle set mark complete finish rename move
    download summarize explain turn change browse visit query insert update select put subtract multiply divide
    invert slugify capitalize append"""
)
"""Words that a request begins with."""

_SYNONYMS = """
time clock hour
folder directory dir directories
list ls enumerate
read open cat contents content
write save
create make new
sum total plus addition
calculate compute evaluate calculation calculator math maths arithmetic
convert conversion
search find look lookup grep query locate
delete remove erase
fetch download webpage website url http https
remember memorize memorise memory
random randomly
flip toss
log history
diff difference differences differ compare
changes changed modified unstaged uncommitted
picture image photo
email mail
hash checksum digest
colour color
repository repo
todo task to-do
country nation
population inhabitants people
distance far
dice die
roman latin
percent percentage
currency money
count many
machine computer system operating
message text
birth born birthday
age old
weekday day
time timezone zone
"""


def _stem_once(word: str) -> str:
    for suffix, replacement, shortest in (
        ("ies", "y", 5),
        ("sses", "ss", 5),
        ("ing", "", 6),
        ("tion", "t", 7),
        ("ed", "", 5),
        ("es", "e", 5),
        ("s", "", 4),
    ):
        if word.endswith(suffix) and len(word) >= shortest and not word.endswith("ss"):
            return word[: -len(suffix)] + replacement
    return word


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A lower-case word without its usual English endings."""
    stemmed = _stem_once(word.lower())
    if len(stemmed) > 3 and stemmed[-1] == stemmed[-2] and stemmed[-1] in "bdgmnprt":
        stemmed = stemmed[:-1]
    return stemmed.rstrip("e") if len(stemmed) > 3 else stemmed


def _synonym_table() -> dict[str, tuple[str, ...]]:
    groups = [tuple(line.split()) for line in _SYNONYMS.strip().splitlines()]
    return {stem(word): tuple(other for other in group if other != word) for group in groups for word in group}


def _concept_table() -> dict[str, str]:
    table: dict[str, str] = {}
    for line in _SYNONYMS.strip().splitlines():
        first, *others = line.split()
        for word in (first, *others):
            table.setdefault(stem(word), stem(first))
    return table


_CONCEPTS = _concept_table()


_OTHER_WORDS = _synonym_table()


def synonyms(word: str) -> tuple[str, ...]:
    """Other words for the same thing, the most usual first."""
    return _OTHER_WORDS.get(stem(word), ())


def split_words(text: str) -> list[str]:
    """Lower-case words; `getWeather` and `get_weather` are both "get", "weather"."""
    return [part.lower() for run in _WORD.findall(text) for part in _CAMEL.split(run)]


def concept(word: str) -> str:
    """What a word is compared by: the stem of the first word of its synonym group."""
    stemmed = stem(word)
    return _CONCEPTS.get(stemmed, stemmed)


def concepts(text: str) -> list[str]:
    """The concepts of a text in order, filler dropped, each once."""
    return list(dict.fromkeys(concept(word) for word in split_words(text) if word not in STOP_WORDS and len(word) > 1))
