"""Keys are told from the names, numbers and words of software: both kinds of error are rare."""

from __future__ import annotations

import random
import string
import uuid
from collections.abc import Iterator
from pathlib import Path

from mcpagent.utilities.text.secrets import is_random, is_secret
from mcpagent.utilities.text.word_detection import is_word, units_of, unread
from tests.tables import each_row

HARMLESS = Path(__file__).with_name("harmless_values.txt").read_text("utf-8").splitlines()
ALPHABETS = {
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "base32": string.ascii_uppercase + "234567",
    "base36": string.digits + string.ascii_lowercase,
    "base62": string.digits + string.ascii_letters,
    "base64": string.digits + string.ascii_letters + "+/",
    "base64url": string.digits + string.ascii_letters + "-_",
    "small letters": string.ascii_lowercase,
    "capital letters": string.ascii_uppercase,
}
LENGTHS = (16, 20, 24, 32, 40, 64)


def random_values(count: int) -> Iterator[str]:
    chance = random.Random(20261128)
    for alphabet in ALPHABETS.values():
        for length in LENGTHS:
            yield from ("".join(chance.choices(alphabet, k=length)) for _ in range(count))
    yield from (str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(count))


def test_of_random_values_fewer_than_one_in_two_hundred_is_taken_for_words() -> None:
    values = list(random_values(100))
    passing = [value for value in values if not (is_secret(value) and is_random(value))]
    assert len(passing) < len(values) / 200, passing


def test_of_harmless_values_of_real_software_hardly_any_is_taken_for_random() -> None:
    lost = [value for value in HARMLESS if is_random(value)]
    assert len(HARMLESS) > 300
    assert len(lost) < len(HARMLESS) / 60, lost


def test_a_secret_of_letters_of_one_case_is_one_at_sinks() -> None:
    chance = random.Random(7)
    for length in (8, 10, 12, 16):
        for _ in range(100):
            value = "".join(chance.choices(string.ascii_lowercase, k=length))
            assert is_secret(value), value
            assert is_secret(value.upper()), value
    assert is_secret("abcdqrstxkwzmnvp")
    assert is_random("abcdqrstxkwzmnvp")


@each_row(
    "text, characters",
    [
        ("created_at", 0),
        ("customer-region-id", 0),
        ("PrimaryConnectionStringName", 0),
        ("arn:aws:s3:::my-company-logs-bucket/*", 0),
        ("2026-11-28T06:00:00Z", 0),
        ("größe der straße", 0),
        ("一二三四五六七八九十一二三四五六", 0),
        ("a1", 0),
        ("", 0),
        ("7f3k", 4),
        ("customer-id-7f3k", 4),
        ("my-service-q7Zk2mX9Lw4Tn8Rb6Vc1", 20),
        ("3f9c2ab1-77de-41cb-9e0f-5b2d8c6a7e90", 32),
    ],
)
def test_characters_that_are_no_words_are_counted_by_piece(text: str, characters: int) -> None:
    assert unread(text) == characters


def test_words_are_spelled_as_in_the_list() -> None:
    assert units_of("s3BucketName2") == ["s0", "bucket", "name0"]
    assert units_of("HTTPServer!x") == ["http", "server", "!", "x"]
    assert [is_word(text) for text in ("postgres", "Customers", "tool_result", "xkw_zmnvp", "a1", "")] == [
        *[True] * 3,
        *[False] * 3,
    ]
