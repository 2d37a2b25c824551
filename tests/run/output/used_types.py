"""Types that people ask for answers of, each with JSON that a model writes and the value that it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, EmailStr, Field, HttpUrl, RootModel, computed_field, field_validator
from pydantic.dataclasses import dataclass as checked_dataclass
from typing_extensions import TypedDict


class City(BaseModel):
    """A city."""

    name: str = Field(description="Its own name", min_length=1)
    people: int = Field(ge=0)


class Country(BaseModel):
    """With a list, an optional, a default and a map of numbers."""

    capital: City = Field(description="Where it is governed from")
    others: list[City] = []
    anthem: str | None = None
    languages: tuple[str, ...] = ("en",)


class Node(BaseModel):
    """Refers to itself."""

    label: str
    children: list[Node] = []


class Aliased(BaseModel):
    """Called otherwise in JSON."""

    model_config = ConfigDict(populate_by_name=True)
    from_city: str = Field(alias="from")


class Closed(BaseModel):
    """Takes nothing else, and converts nothing."""

    model_config = ConfigDict(extra="forbid", strict=True)
    on: date
    exact: bool


class Open(BaseModel):
    """Takes anything else."""

    model_config = ConfigDict(extra="allow")
    name: str


class Even(BaseModel):
    """With a validator of its own."""

    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


class Area(BaseModel):
    """With a field that is computed."""

    width: float
    height: float

    @computed_field
    def size(self) -> float:
        return self.width * self.height


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Owner(BaseModel):
    pets: list[Pet]


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Trip:
    to: str
    days: int = 1
    stops: list[City] = field(default_factory=list)


@checked_dataclass(frozen=True)
class Point:
    x: Annotated[float, Field(ge=-1, le=1)]
    y: float


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    items: list[T]
    more: bool


class Words(RootModel[list[str]]):
    """A list under a name."""


UserId = NewType("UserId", int)

SCHEMA: dict[str, Any] = {
    "title": "Order",
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"$ref": "#/definitions/item"}, "minItems": 1}},
    "required": ["items"],
    "definitions": {"item": {"type": "object", "properties": {"sku": {"type": "string", "pattern": "^[A-Z]+$"}}}},
}

ROME: dict[str, Any] = {"name": "Rome", "people": 2_800_000}
USED: dict[str, tuple[Any, Any, Any]] = {
    "model": (City, ROME, City(**ROME)),
    "nested": (Country, {"capital": ROME}, Country(capital=City(**ROME))),
    "nested whole": (
        Country,
        {"capital": ROME, "others": [ROME], "anthem": "O", "languages": ["it", "la"]},
        Country(capital=City(**ROME), others=[City(**ROME)], anthem="O", languages=("it", "la")),
    ),
    "recursive": (
        Node,
        {"label": "a", "children": [{"label": "b", "children": []}]},
        Node(label="a", children=[Node(label="b")]),
    ),
    "aliased": (Aliased, {"from": "Rome"}, Aliased.model_validate({"from": "Rome"})),
    "strict": (Closed, {"on": "2026-11-25", "exact": True}, Closed(on=date(2026, 11, 25), exact=True)),
    "open": (Open, {"name": "a"}, Open(name="a")),
    "validator": (Even, {"number": 4}, Even(number=4)),
    "computed": (Area, {"width": 2.0, "height": 3.5}, Area(width=2, height=3.5)),
    "discriminated": (
        Owner,
        {"pets": [{"kind": "cat", "lives": 9}, {"kind": "dog", "tricks": ["sit"]}]},
        Owner(pets=[Cat(kind="cat", lives=9), Dog(kind="dog", tricks=["sit"])]),
    ),
    "generic": (Page[City], {"items": [ROME], "more": False}, Page[City](items=[City(**ROME)], more=False)),
    "root model": (Words, ["a", "b"], Words(["a", "b"])),
    "dataclass": (Trip, {"to": "Rome"}, Trip("Rome")),
    "dataclass whole": (Trip, {"to": "Rome", "days": 2, "stops": [ROME]}, Trip("Rome", 2, [City(**ROME)])),
    "checked dataclass": (Point, {"x": 0.5, "y": 3.0}, Point(0.5, 3.0)),
    "TypedDict": (Movie, {"title": "Roma"}, {"title": "Roma"}),
    "NamedTuple": (Pair, [1, "x"], Pair(1, "x")),
    "enum": (Colour, "green", Colour.GREEN),
    "enum of numbers": (Level, 2, Level.HIGH),
    "literal": (Literal["yes", "no"], "yes", "yes"),
    "union of models": (City | Even, ROME, City(**ROME)),
    "optional": (City | None, None, None),
    "union of plain": (int | str, "x", "x"),
    "list": (list[City], [ROME, ROME], [City(**ROME), City(**ROME)]),
    "list of unions": (list[Pet], [{"kind": "cat", "lives": 1}], [Cat(kind="cat", lives=1)]),
    "dict": (dict[str, int], {"a": 1}, {"a": 1}),
    "set": (set[str], ["b", "a"], {"a", "b"}),
    "tuple": (tuple[int, str], [1, "x"], (1, "x")),
    "int": (int, 42, 42),
    "bounded int": (Annotated[int, Field(ge=1, le=5)], 3, 3),
    "new type": (UserId, 7, 7),
    "float": (float, 1.5, 1.5),
    "bool": (bool, True, True),
    "date": (date, "2026-11-25", date(2026, 11, 25)),
    "datetime": (datetime, "2026-11-25T10:00:00Z", datetime(2026, 11, 25, 10, tzinfo=UTC)),
    "duration": (timedelta, "PT1H", timedelta(hours=1)),
    "decimal": (Decimal, "1.10", Decimal("1.10")),
    "uuid": (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    "address of a page": (HttpUrl, "https://example.com/", HttpUrl("https://example.com/")),
    "schema": (SCHEMA, {"items": [{"sku": "AB"}]}, {"items": [{"sku": "AB"}]}),
    "schema of a list": ({"type": "array", "items": {"type": "integer"}}, [1, 2], [1, 2]),
    "any schema": ({}, {"x": [None]}, {"x": [None]}),
}
assert len(USED) >= 30
__all__ = ["USED", "City", "EmailStr", "Even", "Trip"]
