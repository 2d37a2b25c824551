"""Arithmetic, statistics, primes, number words and money sums."""

from __future__ import annotations

import ast
import builtins
import math
import operator
import statistics
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from mcpagent.demo import DemoToolError, number_text

Whole = Annotated[int, Field(description="A whole number", ge=0, le=10**12)]

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTION_NAMES = "sqrt abs round floor ceil exp log log10 log2 sin cos tan radians degrees factorial min max"
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(math, name, None) or getattr(builtins, name)
    for name in _FUNCTION_NAMES.split()
} | {"factorial": lambda n: math.factorial(n) if n <= 500 else _too_large()}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_LARGEST_DIGITS = 1000


def _too_large() -> Any:
    raise DemoToolError("the result is too large")


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(
            number, bool
        ):
            return number
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _value(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _combine(op, _value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
            name in _FUNCTIONS
        ):
            return _FUNCTIONS[name](*[_value(arg) for arg in args])
    raise DemoToolError(
        f"cannot calculate {ast.unparse(node)!r}; use numbers, + - * / // % **, and {', '.join(_FUNCTIONS)}"
    )


def _combine(op: ast.operator, left: Any, right: Any) -> Any:
    # Only powers can have a result that is much longer than the operands.
    if (
        isinstance(op, ast.Pow)
        and abs(right) * math.log10(max(abs(left), 2)) > _LARGEST_DIGITS
    ):
        _too_large()
    result = _BINARY[type(op)](left, right)
    if isinstance(result, complex):
        raise DemoToolError("the result is not a real number")
    if isinstance(result, int) and result.bit_length() > _LARGEST_DIGITS * 4:
        _too_large()
    return result


def calculate(
    expression: Annotated[
        str,
        Field(
            description="Arithmetic such as 12 * (3 + 4) or sqrt(2) ** 3",
            max_length=300,
        ),
    ],
) -> str:
    """Calculate an arithmetic expression: add, subtract, multiply, divide, powers, roots, sin, log."""
    cleaned = (
        expression.strip()
        .rstrip("=?")
        .replace("^", "**")
        .replace("×", "*")
        .replace("÷", "/")
        .replace("−", "-")
    )
    try:
        result = _value(ast.parse(cleaned.strip(), mode="eval").body)
    except DemoToolError:
        raise
    except ZeroDivisionError:
        raise DemoToolError(f"{expression} divides by zero") from None
    except (
        SyntaxError,
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise DemoToolError(f"cannot calculate {expression!r}: {error}") from None
    return f"{cleaned.strip()} = {number_text(result)}"


def add_numbers(
    numbers: Annotated[
        list[float], Field(description="The numbers to add", min_length=1)
    ],
) -> str:
    """Add up numbers and give their sum."""
    return number_text(math.fsum(numbers))


def describe_statistics(
    numbers: Annotated[
        list[float],
        Field(description="The numbers to describe", min_length=1, max_length=10_000),
    ],
) -> dict[str, float]:
    """Statistics of a list of numbers: average (mean), median, minimum, maximum, standard deviation, sum."""
    return {
        "count": len(numbers),
        "average": statistics.fmean(numbers),
        "median": statistics.median(numbers),
        "minimum": min(numbers),
        "maximum": max(numbers),
        "standard_deviation": statistics.stdev(numbers) if len(numbers) > 1 else 0.0,
        "sum": math.fsum(numbers),
    }


def percent_of(
    percent: Annotated[float, Field(description="The percentage, 15 for 15 %")],
    value: Annotated[float, Field(description="The value that it is a percentage of")],
) -> str:
    """Calculate a percentage of a value: what is 15 percent of 80."""
    return f"{number_text(percent)} % of {number_text(value)} is {number_text(percent * value / 100)}"


def percentage_change(
    old_value: Annotated[float, Field(description="Value before")],
    new_value: Annotated[float, Field(description="Value after")],
) -> str:
    """Calculate by how many percent a value rose or fell."""
    if old_value == 0:
        raise DemoToolError("old_value must not be 0")
    return f"{(new_value - old_value) / abs(old_value) * 100:+.6g} %"


def _smallest_factor(number: int) -> int:
    if number % 2 == 0:
        return 2
    return next(
        (n for n in range(3, math.isqrt(number) + 1, 2) if number % n == 0), number
    )


def prime_factors(
    number: Annotated[int, Field(description="A whole number from 2", ge=2, le=10**12)],
) -> str:
    """Split a number into its prime factors."""
    factors, rest = [], number
    while rest > 1:
        factors.append(_smallest_factor(rest))
        rest //= factors[-1]
    return f"{number} = {' × '.join(map(str, factors))}"


def is_prime(number: Whole) -> str:
    """Tell whether a number is prime."""
    if number < 2:
        return f"{number} is not a prime number."
    factor = _smallest_factor(number)
    return f"{number} is {'a prime number' if factor == number else f'not a prime number: {factor} divides it'}."


def greatest_common_divisor(
    first: Annotated[int, Field(description="First number")],
    second: Annotated[int, Field(description="Second number")],
) -> dict[str, int]:
    """Find the greatest common divisor and the least common multiple of two whole numbers."""
    return {
        "greatest_common_divisor": math.gcd(first, second),
        "least_common_multiple": math.lcm(first, second),
    }


def fibonacci_numbers(
    count: Annotated[int, Field(description="How many numbers", ge=1, le=200)] = 10,
) -> list[int]:
    """List the first Fibonacci numbers."""
    series = [0, 1]
    while len(series) < count:
        series.append(series[-1] + series[-2])
    return series[:count]


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def convert_number_base(
    number: Annotated[
        str, Field(description="The number, for example 255 or ff or 0b1010")
    ],
    to_base: Annotated[
        int,
        Field(
            description="Base of the result: 2 binary, 8 octal, 10 decimal, 16 hexadecimal",
            ge=2,
            le=36,
        ),
    ],
    from_base: Annotated[
        int,
        Field(
            description="Base of the number: 2 binary, 8 octal, 10 decimal, 16 hexadecimal",
            ge=2,
            le=36,
        ),
    ] = 10,
) -> str:
    """Convert a whole number to another base: decimal, binary, octal or hexadecimal."""
    text = number.strip().lower()
    prefixed = text.lstrip("+-")[:2] in ("0x", "0b", "0o")
    try:
        if prefixed:
            value = int(text, 0)
        else:
            value = int(text[:200], from_base)
    except ValueError:
        raise DemoToolError(
            f"{number!r} is not a whole number in base {from_base}"
        ) from None
    rest, digits = abs(value), ""
    while rest or not digits:
        rest, digit = divmod(rest, to_base)
        digits = _DIGITS[digit] + digits
    return f"{number} is {'-' if value < 0 else ''}{digits} in base {to_base}"


_ROMAN_VALUES = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
_ROMAN = tuple(
    zip(
        _ROMAN_VALUES,
        ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"],
        strict=True,
    )
)


def _roman(number: int) -> str:
    """Return a number from 1 to 3999 as a Roman numeral."""
    written = ""
    for value, letters in _ROMAN:
        times, number = divmod(number, value)
        written += letters * times
    return written


def to_roman_numeral(
    number: Annotated[int, Field(description="1 to 3999", ge=1, le=3999)],
) -> str:
    """Write a number in Roman numerals."""
    return f"{number} is {_roman(number)}"


def from_roman_numeral(
    numeral: Annotated[
        str,
        Field(
            description="Roman numeral such as MCMXCIV",
            pattern=r"^\s*[MDCLXVImdclxvi]+\s*$",
        ),
    ],
) -> str:
    """Read a Roman numeral as a number."""
    text = numeral.strip().upper()
    value, rest = 0, text
    for amount, letters in _ROMAN:
        while rest.startswith(letters):
            value, rest = value + amount, rest[len(letters) :]
    if rest or not 1 <= value <= 3999 or _roman(value) != text:
        raise DemoToolError(
            f"{numeral!r} is not a Roman numeral between I and MMMCMXCIX"
        )
    return f"{text} is {value}"


_SMALL_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS_WORDS = "- - twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL, _TENS = _SMALL_WORDS.split(), _TENS_WORDS.split()
_SCALES = (
    (10**12, "trillion"),
    (10**9, "billion"),
    (10**6, "million"),
    (1000, "thousand"),
    (100, "hundred"),
)


def _spelled(number: int) -> str:
    if number < 20:
        return _SMALL[number]
    if number < 100:
        tens, rest = divmod(number, 10)
        return _TENS[tens] + (f"-{_SMALL[rest]}" if rest else "")
    size, word = next(scale for scale in _SCALES if number >= scale[0])
    head, rest = divmod(number, size)
    return f"{_spelled(head)} {word}" + (f" {_spelled(rest)}" if rest else "")


def number_to_words(number: Whole) -> str:
    """Spell a whole number in English words."""
    return _spelled(number)


def split_bill(
    total: Annotated[float, Field(description="The bill", ge=0)],
    people: Annotated[int, Field(description="How many people share it", ge=1)],
    tip_percent: Annotated[float, Field(description="Tip in percent", ge=0)] = 0,
) -> dict[str, float]:
    """Split a restaurant bill between people, with a tip."""
    with_tip = total * (1 + tip_percent / 100)
    return {
        "total_with_tip": round(with_tip, 2),
        "each_pays": round(with_tip / people, 2),
    }


def loan_payment(
    amount: Annotated[float, Field(description="Amount borrowed", gt=0)],
    annual_interest_percent: Annotated[
        float, Field(description="Interest in percent a year", ge=0)
    ],
    years: Annotated[float, Field(description="Years until it is paid back", gt=0)],
) -> dict[str, float]:
    """Calculate the monthly payment of a loan or mortgage."""
    months = max(round(years * 12), 1)
    rate = annual_interest_percent / 1200
    if rate:
        monthly = amount * rate / (1 - (1 + rate) ** -months)
    else:
        monthly = amount / months
    return {
        "monthly_payment": round(monthly, 2),
        "total_interest": round(monthly * months - amount, 2),
    }
