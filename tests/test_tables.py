"""Tables as one test: every row is tried, whatever a row before it did."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpagent.utilities.text import secrets
from tests import tables
from tests.tables import each_row


@pytest.fixture(autouse=True)
def all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about all rows, also with `--first-rows`."""
    monkeypatch.setattr(tables, "FIRST_ROWS_ONLY", False)


def raising(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


def timed_out() -> None:
    pytest.fail("Timeout (>2.0s) from pytest-timeout.")


def failures_of(test: Callable[..., Any]) -> tuple[int, list[str]]:
    """How many rows failed, and the notes with their values."""
    with pytest.raises(BaseExceptionGroup) as caught:
        test()
    return len(caught.value.exceptions), [note for one in caught.value.exceptions for note in one.__notes__]


def test_each_kind_of_end_is_one_rows_alone() -> None:
    tried: list[int] = []
    ends: list[Callable[[], Any]] = [
        raising(ValueError("x")),
        lambda: pytest.skip("not here"),
        raising(SystemExit(3)),
        lambda: pytest.fail("DID NOT RAISE"),
        raising(BaseExceptionGroup("inner", [pytest.fail.Exception("y")])),
        lambda: None,
    ]

    @each_row("number, end", list(enumerate(ends)))
    def rows(number: int, end: Callable[[], Any]) -> None:
        tried.append(number)
        end()

    count, notes = failures_of(rows)
    assert tried == [0, 1, 2, 3, 4, 5]
    assert count == 4
    assert [note.partition(":")[0] for note in notes] == ["row 0", "row 2", "row 3", "row 4"]


def test_all_rows_skipped_are_a_skip_and_no_rows_an_error() -> None:
    @each_row("number", [1, 2])
    def rows(number: int) -> None:
        pytest.skip(f"{number}")

    with pytest.raises(pytest.skip.Exception):
        rows()
    with pytest.raises(ValueError, match="no rows"):
        each_row("number", [])


def test_a_timeout_ends_the_test() -> None:
    tried: list[int] = []

    @each_row("number", [1, 2])
    def rows(number: int) -> None:
        tried.append(number)
        timed_out()

    assert failures_of(rows)[0] == 1
    assert tried == [1]


def test_a_row_knows_no_secret_of_another_one() -> None:
    known: list[int] = []

    @each_row("secret", ["abcdefgh-1", "abcdefgh-2"])
    def rows(secret: str) -> None:
        secrets.hide(secret)
        known.append(len({"abcdefgh-1", "abcdefgh-2"} & set(secrets.known_values())))

    rows()
    assert known == [1, 1]


def test_a_row_reads_no_log_of_another_one(caplog: pytest.LogCaptureFixture) -> None:
    @each_row("number", [1, 2])
    def rows(number: int, caplog: pytest.LogCaptureFixture) -> None:
        logging.getLogger("mcpagent").warning("row %d", number)
        assert caplog.messages == [f"row {number}"]

    rows(caplog=caplog)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "folder"


def test_rows_may_not_share_a_folder(request: pytest.FixtureRequest) -> None:
    @each_row("number", [1, 2])
    def sharing(number: int, folder: Path) -> None: ...

    @each_row("number", [1, 2])
    def alone(number: int, tmp_path: Path) -> None: ...

    def refuse(test: Callable[..., Any]) -> None:
        tables.refuse_shared_folders(pytest.Function.from_parent(request.node.parent, name="rows", callobj=test))

    refuse(alone)
    with pytest.raises(pytest.fail.Exception, match="all rows share the folder of folder; take tmp_path"):
        refuse(sharing)
