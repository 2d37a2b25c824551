"""The exit code of each kind of failure and of each end of a run."""

from __future__ import annotations

from mcpagent.cli.common.exit_codes import ExitCode, code_of_error, code_of_stop
from mcpagent.errors import ConfigError, CredentialsError, InputError, LimitError, ModelError, ServerError
from tests.tables import each_row


@each_row(
    "error, code",
    [
        (ConfigError("x"), 3),
        (CredentialsError("x"), 4),
        (InputError("x"), 2),
        (ServerError("x", server="s", phase="start"), 5),
        (LimitError("x"), 7),
        (ModelError("x", provider="p"), 1),
        (TimeoutError("x"), 124),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (ValueError("x"), 1),
    ],
)
def test_each_kind_of_failure_has_its_code(error: BaseException, code: int) -> None:
    assert code_of_error(error) == code


def test_only_an_answer_is_a_success() -> None:
    assert code_of_stop("answered") == ExitCode.OK
    assert code_of_stop("max_turns") == code_of_stop("truncated") == ExitCode.LIMIT
    assert code_of_stop("refused") == ExitCode.ERROR
