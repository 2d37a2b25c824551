"""What could be done to a user of mcpagent, each by the tests that try it for real; SECURITY.md says the same in words.

T1 to T24 are the threats of the design for reliability. `ABSENT` are surfaces that there are none of today: a test
holds that there is none, and what there is instead is tried. `LISTED` are the places where other people's words, files
and programs meet ours.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mcpagent
from tests.named_tests import TESTS, what_is_wrong
from tests.tables import each_row


@dataclass(frozen=True)
class Threat:
    """`what` in plain words, as SECURITY.md has it."""

    what: str
    tests: tuple[str, ...]
    absent: str = ""


THREATS: dict[str, Threat] = {
    "T1": Threat(
        "orders hidden in what a server says of its tools",
        (
            "mcp/test_mcp_funnel.test_nothing_hidden_comes_through_any_door",
            "mcp/test_mcp_funnel.test_ten_megabytes_of_description_are_cut_and_a_change_of_their_last_letter_is_found",
            "run/test_prompt.test_a_hostile_description_cannot_break_out",
            "cli/test_cli_doctor.test_texts_that_look_poisoned_are_told",
        ),
    ),
    "T2": Threat(
        "a tool that changes after it was approved",
        (
            "mcp/test_mcp_pins.test_a_changed_tool_is_called_only_with_a_yes",
            "mcp/test_mcp_changes.test_a_tool_that_changes_between_two_calls_is_announced_and_needs_a_yes",
            "chat/test_cli_chat_servers.test_a_tool_that_its_server_changed_is_called_only_after_a_yes",
            "cli/test_cli_approvals.test_always_ends_where_the_server_changes_the_tool",
        ),
    ),
    "T3": Threat(
        "a tool named as another server's or as one of ours",
        (
            "run/test_names.test_a_plain_name_where_unique_else_the_servers_prefix",
            "run/test_tool_search.test_a_server_tool_with_a_reserved_name_gets_the_longer_form",
            "run/test_tool_search.test_tools_that_share_a_name_reach_their_own_server",
            "run/test_sessions.test_another_servers_tool_of_that_name_is_neither_offered_nor_run",
            "cli/test_cli_approvals.test_a_tool_has_the_name_that_its_own_server_gives_it",
            "trust/test_poisoned_content.test_whatever_a_list_says_its_tools_are_those_of_its_server",
        ),
    ),
    "T4": Threat(
        "orders in what a tool gives back",
        (
            "mcp/test_mcp_funnel.test_no_result_passes_for_words_of_ours_where_results_are_words",
            "run/test_for_model.test_no_text_ends_its_envelope_and_no_words_of_ours_are_taken_for_its_own",
            "mcp/test_mcp_asks.test_a_link_in_a_result_is_named_and_not_followed",
            "trust/test_hostile_words.test_no_words_of_a_server_or_a_model_are_a_command_of_the_chat",
        ),
    ),
    "T5": Threat(
        "a configuration, card or script that runs something unasked",
        (
            "trust/test_attacks.test_another_folder_with_the_trusted_file_is_another_place",
            "trust/test_attacks.test_a_script_that_changed_after_the_yes",
            "trust/test_attacks.test_a_changed_env_file_runs_nothing",
            "trust/test_attacks.test_a_card_runs_and_sends_nothing_by_itself",
            "trust/test_attacks.test_between_the_yes_and_the_start_nothing_changes",
            "cli/test_cli_trust.test_whatever_is_changed_is_asked_about_anew",
            "trust/test_planted_files.test_a_configuration_that_somebody_left_in_the_users_folder_starts_nothing_unasked",
            "trust/test_planted_files.test_settings_that_somebody_left_in_the_users_folder_run_no_program",
        ),
    ),
    "T6": Threat(
        "a server that reads keys from the environment",
        (
            "mcp/test_mcp_stdio.test_a_server_sees_the_allowed_and_declared_environment_only",
            "config/test_permissions.test_a_server_sees_of_our_environment_what_it_needs_to_run_and_what_is_declared",
            "run/test_agent_servers.test_an_unset_variable_costs_that_server_only",
        ),
    ),
    "T7": Threat(
        "secrets in logs, errors, recordings, files and what the model is sent",
        (
            "mcp/test_mcp_secrets.test_what_a_server_says_is_without_its_secrets_wherever_it_says_it",
            "mcp/test_mcp_secrets.test_nothing_of_them_reaches_the_model_or_the_recording",
            "mcp/test_mcp_secrets.test_nothing_of_them_is_on_the_terminal_or_in_a_file_of_ours",
            "cli/test_cli_private.test_debug_shows_no_secret_in_what_libraries_log_or_in_a_traceback",
            "recording/test_recording.test_a_secret_that_came_in_pieces_is_no_less_one",
            "models/test_failures_and_retries.test_the_key_is_in_no_error",
        ),
    ),
    "T8": Threat(
        "an address that has us ask somebody else: metadata, redirects, references, links",
        (
            "mcp/test_mcp_oauth.test_an_address_that_is_refused_is_never_asked",
            "mcp/test_mcp_oauth.test_a_server_that_sends_us_elsewhere",
            "mcp/test_mcp_oauth.test_a_name_is_judged_by_what_it_leads_to_which_is_asked",
            "mcp/test_mcp_stdio.test_a_remote_reference_in_a_schema_is_never_fetched",
            "output/test_output_spec.test_a_schema_that_cannot_be_used_is_told_before_anything_is_asked",
        ),
    ),
    "T9": Threat(
        "a token or key that goes to somebody else",
        (
            "mcp/test_mcp_oauth.test_a_token_goes_to_its_own_server_only",
            "mcp/test_mcp_oauth.test_tokens_of_one_address_are_not_read_for_another",
            "mcp/test_mcp_http.test_a_failed_request_is_a_named_error_and_the_next_works:redirect-cross",
            "models/test_http_model_hostile_answers.test_the_key_follows_no_redirect",
            "models/test_resolve.test_an_address_given_with_the_model_never_gets_the_usual_key",
            "models/test_http_model_secrets.test_variables_for_the_provider_are_not_sent_to_another_address",
        ),
        absent="no HTTP server of ours takes a caller's token that it could hand on",
    ),
    "T10": Threat(
        "a session or sign-in that somebody else takes over",
        (
            "mcp/test_mcp_oauth.test_only_the_callback_of_this_sign_in_is_listened_to",
            "mcp/test_mcp_http.test_an_illegal_session_id_is_refused",
            "toolsets/test_toolsets_history.test_a_forged_history_reveals_nothing_that_is_filtered_out",
            "trust/test_threats.test_nothing_of_ours_listens_but_the_page_of_a_sign_in",
        ),
        absent="no HTTP server of ours gives out session ids",
    ),
    "T11": Threat(
        "a web page that reaches a port of this machine",
        (
            "trust/test_threats.test_nothing_of_ours_listens_but_the_page_of_a_sign_in",
            "mcp/test_mcp_oauth.test_only_the_callback_of_this_sign_in_is_listened_to",
        ),
        absent="no HTTP server of ours",
    ),
    "T12": Threat(
        "a pattern or schema that takes for ever",
        (
            "search/test_search_pattern.test_a_hostile_pattern_is_answered_in_time_and_never_holds_the_loop",
            "search/test_search_hostile_queries.test_hostile_patterns_take_no_memory",
            "toolsets/test_hostile_schemas.test_a_hostile_schema_is_answered_in_time_and_never_holds_the_loop",
            "toolsets/test_hostile_schemas.test_hostile_schemas_take_no_memory",
        ),
    ),
    "T13": Threat(
        "a name or link that leads to another file",
        (
            "mcp/test_mcp_server_log.test_any_name_gives_a_file_in_the_folder",
            "mcp/test_mcp_server_log.test_two_names_never_share_a_file",
            "config/test_secret_store.test_names_that_look_alike_are_kept_apart",
            "example/test_demo_server.test_nothing_outside_the_folder_is_read",
            "trust/test_written_files.test_a_recording_empties_no_file_that_a_link_leads_to",
            "trust/test_written_files.test_what_is_saved_goes_through_no_link_and_is_never_open_to_others",
            "trust/test_written_files.test_a_planted_link_in_our_folder_is_replaced_and_not_written_through",
        ),
        absent="no outputs are moved to files that a model could name",
    ),
    "T14": Threat(
        "text that steers the terminal",
        (
            "run/test_safe_text.test_what_could_forge_or_hide_is_gone",
            "chat/test_cli_chat_screens.test_other_peoples_text_cannot_set_the_title_or_move_the_cursor",
            "cli/test_cli_headless.test_an_answer_in_a_pipe_has_no_links_and_nothing_that_moves_or_hides",
            "cli/test_cli_tools.test_what_a_tool_gave_moves_nothing_that_reads_the_pipe",
            "mcp/test_mcp_server_log.test_control_characters_do_not_get_into_the_log",
            "trust/test_hostile_words.test_a_hostile_recording_steers_no_terminal",
        ),
    ),
    "T15": Threat(
        "a server that never answers",
        (
            "mcp/test_mcp_stdio.test_a_server_that_never_answers_ends_at_the_connect_limit",
            "mcp/test_mcp_stdio.test_a_silent_call_ends_at_the_idle_limit_and_tells_the_server",
            "mcp/test_mcp_stdio.test_progress_does_not_keep_a_call_alive_for_ever",
            "mcp/test_mcp_stdio.test_endless_pages_stop",
            "mcp/test_mcp_http.test_a_silent_request_ends_at_its_limit",
            "models/test_failures_and_retries.test_a_silent_provider_is_not_waited_for_without_end",
        ),
    ),
    "T16": Threat(
        "floods and bombs",
        (
            "mcp/test_mcp_load.test_fifty_megabytes_in_one_answer_are_delivered_and_the_loop_stays_free",
            "mcp/test_mcp_faults.test_whatever_a_server_does_the_call_ends_and_the_next_works",
            "mcp/test_mcp_http.test_a_failed_request_is_a_named_error_and_the_next_works:gzip-bomb",
            "mcp/test_mcp_server_log.test_a_flood_is_kept_in_part_and_in_bounds",
            "mcp/test_mcp_silence.test_one_without_end_is_ended_with_its_reason",
            "mcp/test_mcp_memory.test_an_answer_of_50_megabytes_is_not_held_many_times",
            "mcp/test_mcp_asks.test_a_flood_of_messages_is_kept_in_part_and_told_in_part",
            "mcp/test_mcp_stdio.test_no_more_tools_than_the_limit",
        ),
    ),
    "T17": Threat(
        "processes that are left behind",
        (
            "mcp/test_mcp_stdio.test_closing_leaves_nothing",
            "mcp/test_mcp_survivors.test_a_killed_agent_leaves_nothing_that_its_servers_started",
            "chat/test_cli_chat_endings.test_a_closed_window_ends_everything",
            "chat/test_cli_chat_shell.test_a_command_ends_with_all_it_started",
        ),
    ),
    "T18": Threat(
        "a call that is sent twice",
        (
            "mcp/test_mcp_stdio.test_a_server_that_dies_in_a_call_is_replaced_and_the_call_not_repeated",
            "mcp/test_mcp_repeat.test_any_other_tool_is_not_and_the_model_is_told",
            "mcp/test_mcp_repeat.test_a_call_that_it_may_have_read_is_not",
            "mcp/test_mcp_outcomes.test_no_end_over_http_repeats_what_may_have_run",
            "mcp/test_mcp_tasks.test_a_server_that_dies_of_a_task_is_named_and_the_call_not_repeated",
        ),
    ),
    "T19": Threat(
        "a conversation or file that is torn by a crash",
        (
            "run/test_conversation.test_any_history_becomes_valid_and_stays_as_it_is",
            "config/test_file_changes.test_what_cannot_be_written_leaves_what_was_there_and_nothing_else",
            "trust/test_written_files.test_a_kill_loses_nothing_that_was_acknowledged",
            "trust/test_written_files.test_a_killed_recording_holds_every_answer_that_was_given",
        ),
    ),
    "T20": Threat(
        "a run that goes on and on, or costs too much",
        (
            "run/test_agent.test_max_turns_ends_with_one_forced_answer",
            "run/test_agent.test_identical_calls_are_spoken_of_once_and_then_stopped",
            "run/test_sessions.test_calls_in_turns_are_noticed_told_and_then_ended",
            "cli/test_cli_limits.test_a_limit_ends_the_run_with_what_there_is",
            "mcp/test_mcp_lists.test_the_way_closes_after_five_crashes_and_opens_for_one_try",
        ),
    ),
    "T21": Threat(
        "a way around the question whether a call may run",
        (
            "toolsets/test_toolsets_approval.test_an_answer_to_another_definition_or_other_arguments_runs_nothing",
            "toolsets/test_toolsets_approval.test_an_answer_given_to_another_description_of_the_tool_runs_nothing",
            "run/test_pending_calls.test_an_answer_is_good_for_one_call_of_one_session",
            "mcp/test_mcp_changes.test_a_yes_is_for_the_tool_as_it_was_when_it_was_asked",
            "cli/test_cli_approvals.test_no_two_tools_look_alike_and_none_speaks_for_us",
            "config/test_rule_names.test_a_denied_host_is_denied_as_others_write_it",
            "toolsets/test_toolsets_approval.test_arguments_that_do_not_fit_never_reach_a_person",
            "toolsets/test_toolsets_approval.test_a_callback_decides_at_once_and_fails_closed",
            "cli/test_cli_approvals.test_where_nobody_can_be_asked_the_flag_that_would_allow_it_is_named",
            "cli/test_cli_approvals.test_rules_hold_for_tools_whose_name_several_servers_have",
            "trust/test_door.test_what_reaches_a_server_where_nobody_can_be_asked",
            "trust/test_door.test_what_denies_a_tool_denies_what_could_pass_for_it",
            "trust/test_door.test_what_allows_a_tool_allows_no_other",
            "trust/test_door.test_a_rule_that_fits_nothing_says_so",
            "chat/test_cli_chat_typed_ahead.test_a_yes_typed_ahead_approves_no_call",
            "models/test_http_model_hostile_answers.test_a_call_with_broken_arguments_is_kept_and_never_run",
        ),
    ),
    "T22": Threat(
        "a server that asks us: for a person's answer, our model, our folders",
        (
            "mcp/test_mcp_stdio.test_what_a_server_asks_of_us_is_refused_at_once",
            "mcp/test_mcp_asks.test_nothing_is_answered_that_is_not_allowed",
            "mcp/test_mcp_asks.test_a_server_may_ask_so_often_a_minute",
            "cli/test_cli_server_requests.test_a_servers_words_cannot_pass_for_ours_nor_move_the_cursor",
            "cli/test_cli_server_requests.test_an_address_is_shown_and_never_opened",
        ),
    ),
    "T23": Threat(
        "a package that is another one tomorrow",
        (
            "cli/test_cli_doctor.test_a_package_without_a_version_is_told",
            "trust/test_attacks.test_an_installed_package_of_the_project_goes_before_what_npx_fetches",
            "trust/test_attacks.test_a_program_that_comes_first_on_the_path_later",
        ),
    ),
    "T24": Threat(
        "what one user of a program can see of another",
        (
            "run/test_sessions.test_sessions_run_side_by_side_and_keep_apart",
            "run/test_sessions.test_tools_that_differ_by_session_stay_apart",
            "run/test_state.test_one_toolset_serves_fifty_runs_at_once_without_cross_talk",
            "example/test_web.test_three_users_are_answered_side_by_side_and_nothing_of_theirs_mixes",
            "trust/test_threats.test_nothing_of_ours_listens_but_the_page_of_a_sign_in",
        ),
        absent="no HTTP server of ours; the web example has its users' sign-in left to who takes it over",
    ),
}

LISTED: dict[str, tuple[str, ...]] = {
    "poisoned caches": (
        "mcp/test_mcp_funnel.test_a_poisoned_cache_comes_through_the_same_door",
        "trust/test_poisoned_content.test_a_list_with_anything_in_any_place_is_read_or_counts_as_none",
        "trust/test_poisoned_content.test_small_files_of_any_kind_count_as_none",
    ),
    "poisoned indexes": (
        "trust/test_poisoned_content.test_an_index_with_anything_in_it_answers_or_is_built_again",
        "trust/test_poisoned_content.test_vectors_of_any_kind_leave_the_words",
    ),
    "poisoned pins, trust, approvals": (
        "trust/test_poisoned_content.test_pins_of_any_kind_are_another_tool_or_none",
        "trust/test_poisoned_content.test_approvals_of_any_kind_are_listed_printable",
    ),
    "hostile recordings": (
        "trust/test_hostile_words.test_a_hostile_recording_steers_no_terminal",
        "trust/test_hostile_words.test_a_hostile_recording_cannot_hide_anything_in_the_system_prompt",
        "trust/test_written_files.test_what_is_replayed_is_a_file",
        "recording/test_recording.test_whatever_is_edited_the_replay_runs_or_says_in_one_line_why_not",
    ),
    "hostile catalogues in the system prompt": (
        "trust/test_poisoned_content.test_whatever_a_list_says_its_tools_are_those_of_its_server",
        "run/test_prompt.test_a_category_is_one_short_line_of_plain_text",
    ),
    "chat screens": (
        "chat/test_cli_chat_screens.test_other_peoples_text_cannot_set_the_title_or_move_the_cursor",
        "chat/test_cli_chat.test_what_a_tool_says_cannot_touch_the_terminal",
    ),
    "exports": (
        "trust/test_hostile_words.test_an_exported_conversation_is_inert",
        "chat/test_cli_chat_commands.test_a_file_of_the_conversation_can_be_read_again_and_holds_no_secret",
        "trust/test_written_files.test_what_is_saved_goes_through_no_link_and_is_never_open_to_others",
    ),
    "!command": (
        "chat/test_cli_chat_shell.test_nothing_runs_before_a_yes",
        "chat/test_cli_chat_shell.test_output_is_shown_printable_and_kept",
        "chat/test_cli_chat_typed_ahead.test_a_yes_typed_ahead_runs_no_command",
        "trust/test_hostile_words.test_no_words_of_a_server_or_a_model_are_a_command_of_the_chat",
    ),
    "/server:prompt": (
        "chat/test_cli_chat_attachments.test_a_servers_prompt_is_its_words_alone_and_set_apart_beside_others",
        "trust/test_hostile_words.test_no_words_of_a_server_or_a_model_are_a_command_of_the_chat",
    ),
    "two writers": (
        "trust/test_written_files.test_two_programs_that_write_lose_nothing_of_each_other",
        "trust/test_written_files.test_two_programs_do_not_record_into_one_file",
        "config/test_file_changes.test_two_processes_that_change_one_file_lose_nothing",
    ),
    "folders that everybody may write into": (
        "cli/test_cli_private.test_own_folders_that_others_may_write_into_are_taken_back",
        "trust/test_planted_files.test_what_somebody_else_can_have_written_is_not_believed",
        "trust/test_planted_files.test_an_index_of_somebody_else_is_built_again",
        "config/test_file_changes.test_what_is_written_is_its_users_only_whatever_the_umask",
    ),
    "links in shared temporary folders": (
        "trust/test_written_files.test_a_recording_empties_no_file_that_a_link_leads_to",
        "trust/test_written_files.test_a_recording_waits_for_no_pipe_and_takes_one_that_is_read",
        "trust/test_written_files.test_what_takes_the_place_of_the_edited_file_is_not_read",
    ),
    "kills while something is recorded, typed or learned": (
        "trust/test_written_files.test_a_kill_loses_nothing_that_was_acknowledged",
        "trust/test_written_files.test_a_killed_recording_holds_every_answer_that_was_given",
    ),
}


@each_row("number", range(1, 25))
def test_each_threat_is_tried(number: int) -> None:
    threat = THREATS[f"T{number}"]
    assert threat.tests
    assert [wrong for wrong in map(what_is_wrong, threat.tests) if wrong] == []


@each_row("place", LISTED)
def test_each_place_is_tried(place: str) -> None:
    assert [wrong for wrong in map(what_is_wrong, LISTED[place]) if wrong] == []


def test_security_md_promises_something_of_each_and_says_where_it_is_tried() -> None:
    text = (TESTS.parent / "SECURITY.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "](tests/" in line]
    promised = {row[0]: row for row in rows if len(row) == 3}
    assert list(promised) == [threat.what for threat in THREATS.values()]
    for threat in THREATS.values():
        _, promise, tried = promised[threat.what]
        assert promise
        files = {f"tests/{test.partition('.')[0]}.py" for test in threat.tests}
        linked = re.findall(r"\]\(([^)]+)\)", tried)
        assert linked
        assert set(linked) <= files, threat.what
    assert [link for link in re.findall(r"\]\((\w[\w/.]+)\)", text) if not (TESTS.parent / link).exists()] == []


LISTENS = {"start_server", "start_unix_server", "create_server", "create_unix_server", "bind", "HTTPServer"}
SERVES = {"http.server", "socketserver", "uvicorn", "starlette", "fastapi", "aiohttp", "flask", "xmlrpc"}


def test_nothing_of_ours_listens_but_the_page_of_a_sign_in() -> None:
    """Threats of an HTTP server have to be looked at again by whoever adds one."""
    package = Path(mcpagent.__file__).parent
    found: set[str] = set()
    for path in package.rglob("*.py"):
        text, file = path.read_text("utf-8"), path.relative_to(package).as_posix()
        if any(word in text for word in LISTENS | SERVES):  # reading all of them takes seconds
            found |= {f"{file}: {name}" for node in ast.walk(ast.parse(text)) for name in _serving(node)}
    assert found == {"mcp/auth/oauth.py: start_server('127.0.0.1')"}


def _serving(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LISTENS:
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == "definition":  # `Definition.bind`, which binds tools
            return
        if isinstance(owner, ast.Attribute) and owner.attr == "definition":
            return
        if ast.unparse(owner).startswith("signature("):  # binds arguments
            return
        yield f"{node.func.attr}({', '.join(ast.unparse(item) for item in node.args[1:2])})"
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    yield from (module for module in modules if module in SERVES or module.split(".")[0] in SERVES)
