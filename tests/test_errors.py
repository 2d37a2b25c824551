"""Errors name what is of others as plain text, and survive a pickle."""

from __future__ import annotations

import pickle

from mcpagent.errors import SessionBusyError


def test_an_id_of_others_is_plain_text_in_an_error() -> None:
    error = SessionBusyError("\x1b[31m\n", run="r" * 100)
    assert str(error).isprintable()
    assert f"'{'r' * 60}'" in str(error)
    assert "r" * 61 not in str(error)


def test_an_error_comes_back_from_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(SessionBusyError("a", "process 7", "b")))
    assert (error.session, error.holder, error.run) == ("a", "process 7", "b")
