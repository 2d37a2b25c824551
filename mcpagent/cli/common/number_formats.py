"""Format numbers for reading."""

from __future__ import annotations


def tokens(count: int) -> str:
    """Return `950`, `4.1k`, `100k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    if count < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """Return `61 ms`, `2.9 s`, `2 min 5 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def age(seconds: float) -> str:
    """Return `40 s`, `12 min`, `3 h`, `2 days`: roughly, rounded down."""
    for unit, size in (("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            count = int(seconds // size)
            if unit == "day":
                return counted(count, unit)
            return f"{count} {unit}"
    return f"{max(int(seconds), 0)} s"


def money(dollars: float, *, known: bool = True) -> str:
    """Return `$0.021`, `$3.40`; if prices are unknown (`known` False), `$0.021+?`, or `$?` for an amount of zero."""
    if dollars >= 1:
        shown = f"${dollars:.2f}"
    else:
        shown = f"${dollars:.3f}"
    if known:
        return shown
    if dollars:
        return f"{shown}+?"
    return "$?"


def saving(sent: int, everything: int) -> str:
    """Return the relative saving, `-97%`; "" if nothing is saved."""
    if everything <= 0 or sent >= everything:
        return ""
    return f"-{min(99, 100 * (everything - sent) // everything)}%"


def counted(count: int, noun: str) -> str:
    """Return `1 tool`, `2 tools`."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun}s"
