"""What people get wrong, each with the tests that give it to us for real: one line that names place, mistake and fix.

B1 to B44 are the bad inputs of the design for reliability. `ABSENT` are those of surfaces that there are none of today:
a test holds that there is none.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

import mcpagent
from mcpagent import Agent, ScriptedModel
from tests.named_tests import what_is_wrong
from tests.tables import each_row


@dataclass(frozen=True)
class BadInput:
    """`what` in plain words."""

    what: str
    tests: tuple[str, ...]


BAD_INPUTS: dict[str, BadInput] = {
    "B1": BadInput(
        "a configuration that is not there",
        (
            "config/test_config.test_files_that_cannot_be_read",
            "config/test_config.test_documents_that_cannot_be_read",
            "run/test_agent_servers.test_a_missing_config_is_named",
        ),
    ),
    "B2": BadInput(
        "a configuration that is a folder, a device, too large or closed to us",
        (
            "config/test_config.test_files_that_cannot_be_read",
            "config/test_config.test_a_file_without_permission",
            "trust/test_attacks.test_cards_and_configurations_are_read_in_bounds",
        ),
    ),
    "B3": BadInput(
        "a configuration that is no JSON",
        (
            "config/test_config.test_mistakes_of_the_file",
            "cli/test_cli_headless.test_a_broken_configuration_names_file_line_and_column",
        ),
    ),
    "B4": BadInput(
        "comments, a byte order mark, commas at the end",
        (
            "config/test_config.test_a_file_as_people_write_it",
            "config/test_config.test_comments_and_trailing_commas_change_nothing",
            "config/test_config.test_any_file_loads_or_is_one_printable_line",
        ),
    ),
    "B5": BadInput("a list where servers have names", ("config/test_config.test_mistakes_of_the_file",)),
    "B6": BadInput("a key that there is none of", ("config/test_config.test_mistakes_in_a_server",)),
    "B7": BadInput("a command and an address, or neither", ("config/test_config.test_mistakes_in_a_server",)),
    "B8": BadInput("arguments as one text", ("config/test_config.test_mistakes_in_a_server",)),
    "B9": BadInput("a variable that is a number or null", ("config/test_config.test_mistakes_in_a_server",)),
    "B10": BadInput(
        "a variable that is not set",
        (
            "config/test_config.test_a_server_that_cannot_be_used_does_not_stop_the_others",
            "run/test_agent_servers.test_an_unset_variable_costs_that_server_only",
        ),
    ),
    "B11": BadInput(
        "a command that is not there",
        (
            "mcp/test_mcp_stdio.test_a_command_that_cannot_run_says_why",
            "mcp/test_mcp_stdio.test_a_command_with_a_typo_gets_the_near_name",
        ),
    ),
    "B12": BadInput(
        "a command that is a folder or no program", ("mcp/test_mcp_stdio.test_a_command_that_cannot_run_says_why",)
    ),
    "B13": BadInput(
        "NUL in a command, its arguments or variables",
        (
            "config/test_config.test_mistakes_in_a_server",
            "mcp/test_mcp_stdio.test_a_command_that_cannot_run_says_why",
        ),
    ),
    "B14": BadInput(
        "a working folder that is not there", ("mcp/test_mcp_stdio.test_a_command_that_cannot_run_says_why",)
    ),
    "B15": BadInput(
        "an address that is none, or holds a password",
        (
            "config/test_config.test_mistakes_in_a_server",
            "config/test_config.test_credentials_in_a_url_become_a_header",
        ),
    ),
    "B16": BadInput(
        "a header with a line break or what is not ASCII", ("config/test_config.test_mistakes_in_a_server",)
    ),
    "B17": BadInput(
        "two servers of one name, or of names that become one",
        (
            "config/test_config.test_mistakes_of_the_file",
            "run/test_names.test_prefixes_that_collide_all_get_a_hash",
        ),
    ),
    "B18": BadInput("a name that no server can have", ("config/test_config.test_server_names_that_cannot_be",)),
    "B19": BadInput("a limit that is no time", ("config/test_config.test_mistakes_in_a_server",)),
    "B20": BadInput("a transport that there is none of", ("config/test_config.test_mistakes_in_a_server",)),
    "B21": BadInput(
        "five hundred servers and more",
        (
            "config/test_config.test_many_servers",
            "config/test_config.test_more_servers_than_anybody_has",
        ),
    ),
    "B22": BadInput("a model nobody knows", ("models/test_resolve.test_names_that_mean_nothing",)),
    "B23": BadInput(
        "a key that is missing, empty or broken",
        (
            "models/test_resolve.test_missing_and_broken_keys",
            "models/test_resolve.test_a_named_key_variable_must_be_set",
        ),
    ),
    "B24": BadInput(
        "a question that is empty, too long or no text",
        (
            "run/test_agent.test_an_unusable_prompt_is_named_and_changes_nothing",
            "run/test_agent.test_characters_that_no_provider_takes_are_replaced",
            "cli/test_cli_pipes.test_bytes_that_are_no_text_are_replaced_and_sent",
            "cli/test_cli_pipes.test_more_than_fits_is_refused_before_anything_is_asked",
            "cli/test_cli_pipes.test_a_file_without_end_is_refused",
        ),
    ),
    "B26": BadInput(
        "a session's id that is a path",
        ("trust/test_bad_inputs.test_a_sessions_id_is_a_name_and_touches_no_file",),
    ),
    "B27": BadInput(
        "a file of a newer version", ("recording/test_recording.test_what_is_no_recording_is_told_in_one_line",)
    ),
    "B28": BadInput(
        "a store that is none, is broken, full or held by somebody",
        (
            "search/test_search_learning.test_a_broken_file_costs_nothing_but_a_note",
            "search/test_search_embedding.test_a_broken_cache_file_costs_time_only",
            "recording/test_recording.test_a_full_disk_ends_the_recording_and_not_the_run",
            "config/test_file_changes.test_a_lock_that_somebody_holds_ends_in_one_line",
            "config/test_file_changes.test_what_cannot_be_written_leaves_what_was_there_and_nothing_else",
        ),
    ),
    "B29": BadInput(
        "arguments of a call that are no object, or cut",
        (
            "models/test_wire_values.test_arguments_are_one_object_or_malformed",
            "models/test_wire_values.test_arguments_made_to_break_a_parser",
            "run/test_agent.test_every_failure_goes_back_to_the_model_in_words",
        ),
    ),
    "B30": BadInput(
        "arguments that are missing, of the wrong type or too large",
        (
            "toolsets/test_validation.test_the_problem_names_the_path",
            "toolsets/test_validation.test_deep_and_huge_arguments_are_refused",
            "run/test_tool_search.test_a_shown_tool_with_arguments_that_do_not_fit_is_not_run",
        ),
    ),
    "B31": BadInput(
        "arguments without a bottom", ("toolsets/test_validation.test_deep_and_huge_arguments_are_refused",)
    ),
    "B32": BadInput(
        "a tool nobody has, nearly one, or one of a server that is down",
        (
            "run/test_tool_search.test_an_unknown_tool_gets_near_names_and_runs_nothing",
            "run/test_agent_servers.test_a_server_that_exits_is_named_with_code_and_last_line_and_the_others_work",
        ),
    ),
    "B33": BadInput(
        "a search that is empty, too long, no pattern or one without an end",
        (
            "run/test_tool_search.test_no_match_an_empty_catalogue_and_an_empty_query_say_so",
            "run/test_tool_search.test_an_invalid_pattern_is_named_and_searched_as_words",
            "search/test_search_index.test_a_pattern_over_200_characters_is_searched_as_words",
            "search/test_search_hostile_queries.test_a_search_with_such_a_pattern_finds_by_its_words",
        ),
    ),
    "B34": BadInput(
        "no tool, a thousand, the same twice or unknown ones to add",
        (
            "run/test_tool_search.test_add_tool_takes_every_form",
            "run/test_tool_search.test_add_tool_of_nothing_says_how_to_call_it",
            "run/test_tool_search.test_add_tool_names_each_of_what_it_was_given",
            "run/test_tool_search.test_add_tool_names_what_it_did_not_find_and_refuses_too_many",
        ),
    ),
    "B40": BadInput(
        "an option that there is none of, without its value or against another, and nobody to ask",
        (
            "cli/test_cli_pipes.test_what_cannot_be_used_is_one_plain_line",
            "cli/test_cli_pipes.test_a_variable_that_says_yes_gives_way_to_what_is_typed",
            "cli/test_cli_pipes.test_the_code_says_how_it_ended",
        ),
    ),
    "B41": BadInput(
        "streams that are closed, a terminal that can little, another locale",
        (
            "cli/test_cli_pipes.test_closed_streams_are_no_traceback",
            "cli/test_cli_pipes.test_a_closed_stdin_is_no_question_and_no_error",
            "cli/test_cli_pipes.test_a_reader_that_leaves_in_the_middle_ends_the_run",
            "cli/test_cli_pipes.test_another_locale_gets_what_it_can_show",
            "cli/test_cli_approvals.test_a_narrow_dumb_terminal_gets_plain_lines",
        ),
    ),
    "B42": BadInput(
        "a schema for the answer that is none, or leads outside",
        (
            "cli/test_cli_limits.test_a_file_that_is_no_schema_is_told_before_anything_is_asked",
            "output/test_output_spec.test_references_of_a_schema_lead_where_they_led_once_it_is_a_part",
            "output/test_output_spec.test_a_schema_that_cannot_be_used_is_told_before_anything_is_asked",
        ),
    ),
    "B43": BadInput(
        "an agent used outside its life, from elsewhere, or closed twice",
        (
            "run/test_agent.test_using_it_outside_its_life_is_a_clear_error",
            "run/test_agent.test_another_event_loop_is_refused",
            "run/test_agent.test_a_failure_of_the_model_leaves_an_agent_that_answers_and_closes_twice",
            "run/test_sync.test_a_second_start_is_refused_and_harms_nothing",
            "run/test_sync.test_a_forked_process_is_told_that_the_agent_is_not_its_own",
        ),
    ),
    "B44": BadInput(
        "a listener that raises, takes long, or is none",
        (
            "run/test_agent.test_a_listener_that_raises_is_logged_and_breaks_nothing",
            "run/test_agent.test_a_listener_that_holds_the_run_up_is_told_once",
            "run/test_agent.test_a_listener_that_is_async_is_told_once_and_the_run_goes_on",
            "run/test_wrong_types.test_a_function_that_cannot_be_called_as_it_will_be_is_told_at_once",
        ),
    ),
    "B25": BadInput(
        "a session id that is none, or that nothing is kept under",
        (
            "sessions/test_stores.test_any_printable_id_is_an_id",
            "sessions/test_stores.test_what_is_no_id_is_told",
            "sessions/test_stores.test_managing",
            "cli/test_cli_sessions.test_what_cannot_be_a_session_is_an_error",
        ),
    ),
}

ABSENT = {
    "B35": "results are not moved out of the context, so nothing reads them again by an id",
    "B36": "the same",
    "B37": "no HTTP server of ours",
    "B38": "the same",
    "B39": "the same",
}


@each_row("number", range(1, 45))
def test_each_bad_input_is_tried_or_has_nowhere_to_go(number: int) -> None:
    name = f"B{number}"
    assert (name in BAD_INPUTS) != (name in ABSENT)
    if name in BAD_INPUTS:
        assert BAD_INPUTS[name].tests
        assert [wrong for wrong in map(what_is_wrong, BAD_INPUTS[name].tests) if wrong] == []


def test_databases_are_opened_in_these_places_and_nothing_is_moved_out_of_the_context() -> None:
    """B35 and B36 have to be looked at by whoever adds one; B37 to B39 are held by test_threats.py."""
    package = Path(mcpagent.__file__).parent
    opens: set[str] = set()
    defined: set[str] = set()
    for path in package.rglob("*.py"):
        text = path.read_text("utf-8")
        if "sqlite3.connect" in text:
            opens.add(path.relative_to(package).as_posix())
        if "offload" in text:
            names = (getattr(node, "name", "") for node in ast.walk(ast.parse(text)))
            defined |= {str(name) for name in names if "offload" in str(name)}
    assert opens == {
        "durable/database.py",
        "search/learning.py",
        "search/meaning/vector_cache.py",
        "sessions/sqlite.py",
    }
    assert defined == set()


@each_row("odd", ["../../etc/passwd", "/etc/passwd", "a\0b", "x" * 1_000_000, "\ud800", "\x1b[2J"])
async def test_a_sessions_id_is_a_name_and_touches_no_file(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    async with Agent(ScriptedModel(["done"])) as agent:
        session = agent.session(id=odd)
        assert await session.ask("go") == "done"
        assert session.id == odd
    assert list(tmp_path.rglob("*")) == []
