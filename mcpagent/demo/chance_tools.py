"""Random numbers, dice, passwords and unique ids, all from the system's secure source."""

from __future__ import annotations

import secrets
import string
import uuid
from typing import Annotated

from pydantic import Field

from mcpagent.demo import DemoToolError

_random = secrets.SystemRandom()
Items = Annotated[
    list[str],
    Field(description="The things to choose from", min_length=1, max_length=1000),
]


def random_number(
    minimum: Annotated[int, Field(description="Smallest possible number")] = 1,
    maximum: Annotated[int, Field(description="Largest possible number")] = 100,
) -> int:
    """Pick a random whole number between two bounds."""
    if minimum > maximum:
        raise DemoToolError(f"minimum {minimum} is larger than maximum {maximum}")
    return _random.randint(minimum, maximum)


def roll_dice(
    count: Annotated[int, Field(description="How many dice", ge=1, le=100)] = 1,
    sides: Annotated[
        int, Field(description="Number of sides of each", ge=2, le=10_000)
    ] = 6,
) -> str:
    """Roll dice, for example 2d6: two dice of six sides."""
    rolls = [_random.randint(1, sides) for _ in range(count)]
    if count > 1:
        return f"{' + '.join(map(str, rolls))} = {sum(rolls)}"
    return str(rolls[0])


def flip_coin() -> str:
    """Flip a coin: heads or tails."""
    return _random.choice(("heads", "tails"))


def pick_random(items: Items) -> str:
    """Choose one thing at random from a list."""
    return _random.choice(items)


def shuffle_list(items: Items) -> list[str]:
    """Put a list in random order."""
    return _random.sample(items, len(items))


def generate_uuid() -> str:
    """Make a random UUID (version 4)."""
    return str(uuid.uuid4())


def generate_password(
    length: Annotated[
        int, Field(description="Number of characters", ge=8, le=128)
    ] = 16,
    symbols: Annotated[
        bool, Field(description="Use punctuation as well as letters and digits")
    ] = True,
) -> str:
    """Generate a random password."""
    letters = (
        string.ascii_letters
        + string.digits
        + ("!#$%&()*+,-./:;<=>?@[]^_{|}~" if symbols else "")
    )
    return "".join(secrets.choice(letters) for _ in range(length))
