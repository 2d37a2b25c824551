"""Split a request into needs (about one for each tool call) or small talk, and compare its words with words of
tools.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

from mcpagent.offline.pieces import (
    Piece,
    find_pieces,
    find_sum,
    find_zones,
    text_without,
)
from mcpagent.search.words import stem
from mcpagent.values.messages import ToolCall, ToolResult

Step: TypeAlias = tuple[ToolCall, ToolResult]


def word_set(words: str) -> frozenset[str]:
    """Return the set of words in a text with spaces."""
    return frozenset(words.split())


FILLER = word_set(
    """a an the this that these those it its it's is are was were be been am i'm do does did will would can could shall
    may might have has had of in on at to for from by with about as into onto inside within against via and i me my
    we us our you your he she they them their his her there here what what's whats which who whom whose how when
    where much many some any all each every now please pls kindly just right so then ok okay thanks thank tell show
    give gimme let let's see know want need like i'd exactly really quickly make using use also today's whole entire
    someone somebody s t text word words string phrase sentence value values message number numbers following code
    between among translate saying one named called get find look tool function"""
)
"""Words that do not help to choose a tool. Words that restrict or negate a request (no, but, if) are not included."""
WEAK = FILLER | word_set(
    "read write list run create set new current"
)  # these words hardly help to choose a tool

_SAME = """
time clock | folder directory dir directories | read open cat view display print content contents | list ls
sum add plus total + | subtract minus difference - − | multiply times product * × | divide divided quotient / ÷
calculate compute evaluate calculator calculation math maths arithmetic | convert conversion change turn transform
search grep mention mentions contain contains | delete remove erase | fetch download webpage website | flip toss
random randomly | log history | email mail | hash checksum digest sha | colour color shade | repository repo | dice die
todo task to-do | country nation | population inhabitants people | distance far apart | percent percentage %
currency money | birth born birthday | age old | average mean | common frequent most | opposite invert inverted inverse
big large size | loan mortgage | complete done finish finished mark | send post | rename move | hexadecimal hex
"""
_ROWS = [row.split() for row in re.split(r"[|\n]", _SAME)]
# A word itself takes precedence over the stem of another word: "time" does not mean multiplication, though "times"
# does.
_FIRST = {stem(word): row[0] for row in _ROWS for word in row} | {
    word: row[0] for row in _ROWS for word in row
}


@lru_cache(maxsize=8192)
def concept(word: str) -> str:
    """Return a key for comparing words: the stem of the first synonym in the word's group, or else its own stem."""
    low = word.lower().replace("’", "'").removesuffix("'s")
    return stem(_FIRST.get(low) or _FIRST.get(stem(low)) or low)


def split_words(text: str) -> list[str]:
    """Return lower-case words; `getWeather` and `get_weather` are both "get", "weather"."""
    camel = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    return [
        part.lower()
        for run in re.findall(r"[^\W_]+(?:['’][^\W\d_]+)?", text)
        for part in re.split(camel, run)
    ]


def concepts(text: str) -> frozenset[str]:
    """Return the concepts of a text, without filler words."""
    return frozenset(concept(word) for word in split_words(text) if word not in FILLER)


_ONE = "(?:i|we|you|they|he|she|someone|somebody|anyone|anybody|everyone|people|my|our)"
_MODAL = "(?:can|could|might|must|should|shall|would|will)"
_BARRED = re.compile(
    rf"""(?ix)
    \b(?:\w+n't | dont | do\ not | does\ not | never | (?:must|should|shall)\ not | cannot | stop\ \w+ing | avoid
        | refuse | instead\ of | without\ \w+ing | no\ longer | not\ to | suppos\w+ | imagine | pretend)\b
    | ^(?:if|unless|explain|to)\b | \b(?:why | whether\ to | what\ (?:if|happen\w*))\b
    # Of questions only those for a value are left: how many, what, which, "is 97 prime", "when is the next Friday".
    | \bhow\b (?!\ (?:about|many|much|far|old|long|big|large|small|tall|high|wide|deep|heavy|hot|cold|close|fast)\b)
    | \b(?:where|who|whom)\b (?!\ (?:is|are|was|were)\b|'s\b)
    | \bwhen\ (?:to|do|does|did|may|{_MODAL}|{_ONE})\b
    | ^(?:{_MODAL}|may|did|does|has|had|am)\b | ^have\ (?:{_ONE}|the|any)\b
    | \b{_MODAL}\b (?!\ (?:\S+\ ){{0,4}}be\b) | \bmay\ (?:{_ONE}|the|an?)\b
    | \b(?:do|does|did|have|has|had)\ {_ONE}\b (?!\ (?:have|get|need)\b)
    | ^what\ (?:do|does|did)\b .* \bmeans?\b | ^what(?:'s|s|\ is|\ are)\ an?\ (?!.*(?:\d|\b(?:in|of|between|for)\b))
    | ^(?:is|are|was|were)\ (?:it|there|that|this)\b .* \ to\b | \bwhich\ (?:one\ )?of\ (?:us|you|them)\b
    # Questions about finished or present actions, and about the actor.
    | ^(?:is|are|when|where|who|whether)\b .* \b\w{{3,}}(?:ed|ing)\b | \b(?:was|were|been)\b .* \b\w{{3,}}(?:ed|ing)\b
    | \b{_ONE}\ \w{{3,}}ed\b | ^\w{{3,}}ing\ (?:an?|the|my|our|your)\b
    | \b(?:about|by|before|after|while|when)\ \w{{3,}}ing\b
    | ^(?:i|we|you|they|he|she|it|nobody|no\ one|somebody|someone|everybody|everyone|people|there)\b
      (?!(?:(?:'d|\ would)\ like|\ want|\ need)\b) (?!.*\b(?:what|which|how|when)\b)
    """
)
_ASIDE = re.compile(
    r"(?i)^\W*(?:(?:and|so|then|but|also|now|okay|ok|well|please|(?:can|could|would|will) you|(?:tell|show) (?:me|us)"
    r"|do you know|let me know|i wonder|i(?:'d| would)? (?:want|like|need) to know)\b[\s,:]*)+"
)
_COURTESY = re.compile(
    r"(?i)^\W*(?:(?:hi|hello|hey|please|(?:can|could|would|will) you)\b[\s,]*)+"
    r"|[\s,]*(?:\b(?:please|pls|thanks)\b)?(?:(?<=[^\s.-])[\s?.!]+|[\s?!]*)$"
)
_HELLO = "Hello. I am rules that find a tool and call it; “what can you do?” lists them. A real model needs a key."
_SMALL_TALK = {
    r"(?:hi|hey|hello|good (?:morning|evening)|who are you|how are you)(?: there| everyone| all)?\W*|\W*": _HELLO,
    r"(?:thanks?|thank you|great|nice|cool|perfect|ok(?:ay)?|bye)\b[\w\s,!.]{0,20}": "You are welcome.",
    r"(?:what can (?:you|i) do|help|(?:what|which|list|show)\b[\w\s]{0,20}\btools)\W*": "",
}
COMMANDS = word_set(
    """what what's whats which who where when how is are tell show list give find get read open convert calculate add
    compute sum create make write delete remove fetch search count compare remember note roll flip toss pick choose
    generate encode decode reverse format sort hash describe display print check run echo save send spell split mix
    mark complete rename move turn change invert never don't do transfer why if explain"""
)
DESTRUCTION = word_set(
    """delete remove erase wipe clear purge forget drop destroy empty trash discard kill uninstall reset scrub nuke
    truncate shred unlink terminate"""
)
"""Verbs that remove something irreversibly."""
_AWAY = re.compile(
    r"(?i)^\W*(?:\w+ )?(?:get rid of|throw (?:away|out)|clean (?:up|out)|do away with)\b"
)
_SWEEPING = re.compile(
    r"(?i)\b(?:all|every|everything|everyone|each|any|whole|entire|both)\b"
)
# "If it's 9am in New York, ..." states a value. Other suppositions are not requests.
_SUPPOSED_TIME = re.compile(
    r"(?i)\b(?:if|when|once|suppos(?:e|ing)(?: that)?|assum(?:e|ing)(?: that)?|given(?: that)?|let['’]s say|say)\s+"
    r"(?=(?:it(?:['’]s| is| was| were)|the time (?:is|was))\s+(?:\w+\s+)?(?:\d|noon\b|midnight\b))"
)
# Matches a sentence that begins like a statement or a condition ("If ..."): the request after it may depend on it.
_STATES = re.compile(
    r"(?i)^\W*(?:(?:if|unless|once|suppos\w+|assum\w+|given|since|because|as|while)\b"
    r"|when\b(?! (?:is|are|was|were|do|does|did)\b)"
    r"|(?:it|i|we|you|they|he|she|there|this|my|our|the time)\b(?!(?:['’]d| would)? (?:like|want|need)\b))"
)
_COURTESIES = word_set(
    "please also then now and can could would you i want to hello hi hey let's lets just so"
)
_BREAK = re.compile(
    r"(?i)\s*(?:[;\n]+|[.?!](?=\s)|,?\s+(?:and\s+)?(?:then|also)\b|,\s*and\b|,(?=\s)|\s+and\b)\s*"
)
_AMOUNT = re.compile(r"(?i)[-+]?[\d.,]+\s*[a-z°]+\s+(?:to|in|into)\s+\w+")
_BACK = re.compile(r"(?i)(?<!\bis )\b(?:it|them|that|the result|there$)\b")

# Patterns of requests -> words that tools use for them. A lookahead matches words that are also values.
_PHRASES = {
    r"\bwhat(?:'s| is)? (?:the )?time\b|\btime is it\b|\bo'?clock\b": "time",
    r"(?=\b\d[\d.,]* ?[a-z°]+(?: per \w+)? (?:to|in|into|as) [a-z])(?!.*\d:\d)": "convert units",
    r"(?=\bhow (?:many|much) \w+ (?:are |is )?(?:there )?(?:in )?(?:an? |\d+ )\w+$)": "convert units",
    r"(?=\b(?:hex|hexadecimal|binary|octal)\b)": "convert number base",
    r"(?=\b(?:upper|lower)case\b)": "change case",
    r"\bhow old\b|\bborn\b": "age birth",
    r"\bhow many people(?: live)?\b": "population",
    r"\bhow many\b(?! people)": "count",
    r"\b(?:what|which) (?:week)?day\b|\bday of the week\b": "weekday",
    r"\b(?:what|which)(?:'s| is)?(?: the| today's)? date\b|\bwhat day is (?:it|today)\b": "date",
    r"(?<!and )(?<!until )(?<!to )\bnext (?=\w+day\b)": "next weekday",
    r"^(?=\w+ (?:day|week|month|year)s? (?:after|before|from|ago)\b)": "date",
    r"\b(?:remember|note) that\b|\b(?:write|jot) down\b|\b(?:take|leave) a note\b": "add note",
    r"\bremind me to\b": "add todo",
    r"(?<=files )(?:that )?(?:mention|contain)\w*": "search text",
    r"\bsha-?\d+\b|\bmd5\b": "hash",
    r"\b(?:last|first|latest|recent|newest)\b(?= (?:\d|two|three|five|ten))": "limit count",
    r"\bspell\b|\bin words\b": "number words",
    r"\bover(?= \d+ years)": "years",
    r"\bweb ?(?:page|site)s?\b": "fetch url",
}
_BY_KIND = {
    "time": ["convert"],
    "path": ["file"],
    "glob": ["file"],
    "url": ["fetch", "url"],
    "sum": ["calculate"],
}
_TOKEN = re.compile(
    r"\d+(?=[a-zA-Z°]{1,3}\b)|[^\W_]+(?:['’][^\W\d_]+|=+)?|[%+*×/÷−]|(?<=\s)-(?=\s)"
)


def small_talk(text: str) -> str | None:
    """Return an answer if the whole text is small talk, "" if it asks about the available tools; None otherwise."""
    answers = (
        answer
        for said, answer in _SMALL_TALK.items()
        if re.fullmatch(rf"(?i)\s*(?:{said})", text[:200])
    )
    return next(answers, None)


def first_word(text: str) -> str:
    """Return the first word in lower case, without courtesies, or ""."""
    words = re.findall(r"[^\W_]+(?:'\w+)?", text[:200].lower().replace("’", "'"))
    return next((word for word in words if word not in _COURTESIES), "")


def split_needs(prompt: str, now: datetime) -> list[str]:
    """Split the prompt into at most five pieces, at the start of each independent request, but not inside quotes.

    A supposed time ("if it's 9am in New York") becomes a statement of the time.
    """
    prompt = _SUPPOSED_TIME.sub("", prompt)
    masked = text_without(
        prompt, [piece for piece in find_pieces(prompt, now) if piece.kind == "quoted"]
    )
    cuts = [(0, 0)]
    for match in _BREAK.finditer(masked):
        here, rest = masked[cuts[-1][1] : match.start()], masked[match.end() :]
        strong = (
            match[0].strip()[:1] in (";", ".", "?", "!", "")
            or "then" in match[0].lower()
        )
        if _STATES.match(here):
            continue
        begins = first_word(rest) in COMMANDS or _AMOUNT.match(rest)
        whole = re.search(r"\w|\0", here) if strong else first_word(here) in COMMANDS
        if begins and whole and len(cuts) < 5 and not _BACK.search(rest):
            cuts.append(match.span())
    needs: list[str] = []
    for (_, start), end in zip(
        cuts, [*(start for start, _ in cuts[1:]), len(prompt)], strict=True
    ):
        piece = re.sub(r"(?i)(?:[\s,.]*\band)+$", "", prompt[start:end].strip(" ,;\n"))
        if small_talk(piece) is None:
            needs += [piece]
    return needs or [prompt.strip()]


_BY = re.compile(r"(?i)\bby\W{1,3}$")


class Need:
    """A need of the user, the `steps` already taken for it, and a call of an earlier turn that it may refer to.

    `is_barred`: it forbids, supposes or reports something, or asks how to do it, so no tool is called. `destroys`: it
    asks to remove something permanently; `is_sweeping`: everything. `tokens` are its words as (start, end, word,
    concepts). `payload` is a longer text that came with it.
    """

    def __init__(
        self, text: str, now: datetime, payload: str = "", earlier: Step | None = None
    ) -> None:
        self.text, self.now, self.payload, self.earlier = (
            _COURTESY.sub("", text) or text,
            now,
            payload,
            earlier,
        )
        self.verb, self.steps = concept(first_word(self.text)), list[Step]()
        self.pieces = find_pieces(self.text, now)
        plain = text_without(self.text, self.of("quoted")).replace("’", "'")
        said = _ASIDE.sub(
            "", text_without(self.text, self.of("quoted", "date")).replace("’", "'")
        ).strip()
        self.is_barred = bool(_BARRED.search(said))
        self.destroys = first_word(said) in DESTRUCTION or bool(_AWAY.match(said))
        self.is_sweeping = bool(_SWEEPING.search(said))
        self.sums = find_sum(
            text_without(
                self.text, self.of("date", "time", "path", "glob", "url", "quoted")
            )
        )
        phrases = (
            (re.finditer(f"(?i){like}", plain), said) for like, said in _PHRASES.items()
        )
        meant = [(*match.span(), said) for found, said in phrases for match in found]
        self.tokens: list[tuple[int, int, str, frozenset[str]]] = []
        for match in _TOKEN.finditer(self.text):
            inside = [
                words
                for low, high, words in meant
                if low <= match.start() and match.end() <= high
            ]
            words = (match[0], *" ".join(inside).split())
            self.tokens.append(
                (*match.span(), match[0].lower(), frozenset(map(concept, words)))
            )
        kinds = {piece.kind for piece in (*self.pieces, *self.sums)}
        self.hints = [word for _, _, words in meant for word in words.split()]
        self.hints += [
            word for kind, words in _BY_KIND.items() if kind in kinds for word in words
        ]

    def of(self, *kinds: str) -> list[Piece]:
        """Return the values of these kinds in the need. "Until Christmas" and "since May 1" also add today."""
        if kinds in (("zone",), ("sum",)):
            if kinds == ("sum",):
                return self.sums
            return find_zones(self.text)
        pieces = [piece for piece in self.pieces if piece.kind in kinds]
        counted = re.search(r"(?i)\b(?:until|till|since)\b", self.text)
        if kinds == ("date",) and len(pieces) == 1 and counted:
            today = Piece("date", *counted.span(), self.now.date().isoformat())
            if counted[0].lower() == "since":
                return [*pieces, today]
            return [today, *pieces]
        return pieces

    def is_value(self, start: int, end: int) -> bool:
        """Return whether the position is inside a value."""
        return any(piece.start <= start and end <= piece.end for piece in self.pieces)

    def keywords(self) -> list[str]:
        """Return the words that state the task, unchanged and without values."""
        said = [
            token
            for token in self.tokens
            if token[2] not in FILLER and not self.is_value(*token[:2])
        ]
        return split_words(" ".join(dict.fromkeys(token[2] for token in said)))

    def before(self, start: int) -> list[str]:
        """Return the words before a position, the nearest first."""
        return split_words(self.text[:start])[::-1]

    def is_means(self, start: int) -> bool:
        """Return whether the value at this position is a means, as in "by 3", not the object."""
        return bool(_BY.search(self.text, max(start - 6, 0), start))

    def direction(self, piece: Piece) -> int:
        """Return -1 if "from" or "between" precedes the value, 1 if "to" or "until" does, else 0."""
        near = [
            word
            for word in self.before(piece.start)[:8]
            if word not in ("the", "a", "an", "of")
        ] or [""]
        closes = near[0] == "and" and "between" in near
        # Without "and", "between 5" is not the start of a range, as in "split 120 between 5".
        opens = near[0] == "between" and "and" in split_words(self.text[piece.end :])
        if opens or near[0] in ("from", "since"):
            return -1
        return closes or near[0] in ("to", "into", "until")
