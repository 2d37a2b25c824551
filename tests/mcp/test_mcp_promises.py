"""What is promised of MCP connections, and which fault is met where: each by the tests that would fail if it broke.

The promises P1 to P17 and the faults F1 to F41 are those of the design for reliability. A test is named by its file
(without `test_mcp_`) and function; what covers many modes at once names the modes behind a colon.
"""

from __future__ import annotations

from tests.named_tests import what_is_wrong
from tests.tables import each_row

PROMISES: dict[str, tuple[str, ...]] = {
    "P1 every wait ends": (
        "stdio.test_a_server_that_never_answers_ends_at_the_connect_limit",
        "stdio.test_a_silent_call_ends_at_the_idle_limit_and_tells_the_server",
        "stdio.test_progress_keeps_a_call_alive",
        "stdio.test_progress_does_not_keep_a_call_alive_for_ever",
        "stdio.test_closing_leaves_nothing",
        "tasks.test_a_task_that_never_ends_is_cancelled_at_the_limit",
        "tasks.test_however_a_task_ends_the_call_ends_and_the_next_works",
        "http.test_a_silent_request_ends_at_its_limit",
    ),
    "P2 a dead server fails its calls at once": (
        "stdio.test_a_server_that_dies_in_a_call_is_replaced_and_the_call_not_repeated",
        "faults.test_whatever_a_server_does_the_call_ends_and_the_next_works",
    ),
    "P3 an error names server, tool, phase, cause and last words": (
        "stdio.test_a_server_that_fails_at_start_is_named_with_its_cause",
        "stdio.test_the_last_words_of_a_dying_server_are_shown",
        "stdio.test_a_command_that_cannot_run_says_why",
    ),
    "P4 a dead server is replaced, its call not repeated": (
        "stdio.test_a_server_that_dies_in_a_call_is_replaced_and_the_call_not_repeated",
        "stdio.test_twenty_calls_on_a_dying_server_all_end_and_one_new_process_comes",
        "lists.test_a_server_that_keeps_dying_is_left_alone",
    ),
    "P5 a session that HTTP forgot is opened anew": (
        "http.test_a_forgotten_session_is_opened_anew_once",
        "http.test_a_session_forgotten_twice_is_an_error",
    ),
    "P6 a failed call is data for the model": ("faults.test_each_answer_ends_its_call_at_once",),
    "P7 one failing server does not stop the others": (
        "starts.test_a_server_that_exits_at_start_is_tried_three_times_and_the_others_work",
        "starts.test_a_required_server_is_tried_three_times_before_it_is_fatal",
    ),
    "P8 side effects at most once, unknown outcomes said": (
        "repeat.test_any_other_tool_is_not_and_the_model_is_told",
        "repeat.test_a_tool_marked_safe_is_called_once_more_when_its_server_dies",
        "http.test_a_request_that_may_have_run_says_so",
        "outcomes.test_no_end_over_http_repeats_what_may_have_run",
        "outcomes.test_nor_does_any_status_with_any_headers_and_body",
        "outcomes.test_nor_does_any_end_over_stdio",
        "tasks.test_a_server_that_dies_of_a_task_is_named_and_the_call_not_repeated",
    ),
    "P11 cancelling returns at once and tells the server": (
        "stdio.test_a_cancelled_call_returns_at_once_and_tells_the_server",
        "tasks.test_a_cancelled_call_cancels_its_task",
    ),
    "P12 no process is left": (
        "stdio.test_closing_leaves_nothing",
        "survivors.test_a_killed_agent_leaves_nothing_that_its_servers_started",
        "survivors.test_starts_that_are_cancelled_leave_no_file_open",
        "stdio.test_cancelling_a_connect_leaves_nothing",
        "load.test_connecting_and_closing_a_thousand_times_leaves_nothing",
    ),
    "P13 any bytes: no crash, no hang, bounded memory": (
        "framing.test_any_bytes_read_the_same_however_they_are_cut",
        "framing.test_decoding_never_raises",
        "framing.test_reading_is_linear",
        "faults.test_each_answer_ends_its_call_at_once",
    ),
    "P14 one bad tool is dropped, the rest work": ("stdio.test_one_malformed_tool_costs_only_itself",),
    "P15 list_changed is honoured within the turn": (
        "lists.test_a_change_made_by_a_call_is_known_when_the_call_returns",
        "lists.test_a_server_of_the_2026_era_tells_of_changes_by_subscription",
        "changes.test_a_tool_that_goes_in_the_middle_of_a_turn_is_withdrawn_by_the_conversation",
        "changes.test_a_tool_that_comes_in_the_middle_of_a_turn_is_found_in_it",
        "changes.test_a_tool_that_changes_between_two_calls_is_announced_and_needs_a_yes",
    ),
    "P16 servers of the earlier era connect as fast as before": (
        "stdio.test_a_server_that_ignores_the_probe_is_greeted_after_two_seconds",
        "stdio.test_a_server_that_dies_of_the_probe_is_started_again_without_it",
        "lists.test_the_era_of_a_known_server_is_not_probed_again",
    ),
    "P17 retries only where safe, Retry-After honoured": (
        "http.test_what_can_be_mended_is_mended",
        "http.test_retry_after",
        "http_faults.test_each_response_ends_its_call_at_once",
    ),
}
"""P9 and P10 are promises of sessions, which are not of this room."""

FAULTS: dict[str, tuple[str, ...]] = {
    "F1 exits at start": ("starts.test_a_server_that_exits_at_start_is_tried_three_times_and_the_others_work",),
    "F2 slow or flaky start": (
        "stdio.test_an_odd_start_still_connects:slow-start",
        "starts.test_a_server_that_starts_the_second_time_joins",
    ),
    "F3 hangs at start": ("stdio.test_a_server_that_never_answers_ends_at_the_connect_limit",),
    "F4 dies of, refuses or garbles initialize": (
        "stdio.test_a_server_that_fails_at_start_is_named_with_its_cause:init-bad-version",
        "faults.test_whatever_a_server_says_at_first_it_is_used_or_named",
    ),
    "F5 banner, byte order mark": ("stdio.test_text_before_the_protocol_is_quoted_once_and_harmless",),
    "F6 ignores the probe": ("stdio.test_a_server_that_ignores_the_probe_is_greeted_after_two_seconds",),
    "F7 dies of the probe": ("stdio.test_a_server_that_dies_of_the_probe_is_started_again_without_it",),
    "F8 both eras": (
        "asks.test_the_way_is_the_one_meant",
        "asks.test_a_change_of_a_resource_is_told_once_to_who_subscribed",
    ),
    "F9 no tools": ("stdio.test_a_server_without_tools_has_none",),
    "F10 list hangs or fails": (
        "stdio.test_a_server_that_never_answers_ends_at_the_connect_limit:hang-list",
        "stdio.test_a_server_that_fails_at_start_is_named_with_its_cause:list-error",
    ),
    "F11 endless pages": ("stdio.test_endless_pages_stop",),
    "F12 bad tools, remote references": (
        "stdio.test_one_malformed_tool_costs_only_itself",
        "stdio.test_a_remote_reference_in_a_schema_is_never_fetched",
    ),
    "F13 names twice": ("stdio.test_a_name_listed_twice_is_one_tool",),
    "F14 huge lists": (
        "stdio.test_no_more_tools_than_the_limit",
        "faults.test_whatever_a_server_says_at_first_it_is_used_or_named",
    ),
    "F15 dies in a call": ("stdio.test_a_server_that_dies_in_a_call_is_replaced_and_the_call_not_repeated",),
    "F16 one crash, twenty calls": ("stdio.test_twenty_calls_on_a_dying_server_all_end_and_one_new_process_comes",),
    "F17 crash loop": (
        "lists.test_the_way_closes_after_five_crashes_and_opens_for_one_try",
        "lists.test_the_fifth_crash_in_a_minute_says_when_it_is_tried_again",
    ),
    "F18 hangs, or reports progress for ever": (
        "stdio.test_a_silent_call_ends_at_the_idle_limit_and_tells_the_server",
        "stdio.test_progress_does_not_keep_a_call_alive_for_ever",
    ),
    "F19 frozen or stopped": ("stdio.test_a_frozen_server_is_replaced",),
    "F20 slow, late": (
        "stdio.test_odd_answers_are_delivered:slow-call",
        "faults.test_each_answer_ends_its_call_at_once",
    ),
    "F21 half a line": ("stdio.test_half_a_line_does_not_swallow_the_next_answer",),
    "F22 slow drip": ("faults.test_whatever_a_server_does_the_call_ends_and_the_next_works",),
    "F23 junk": ("stdio.test_odd_answers_are_delivered:garbage-then-answer", "faults.test_large_answers_too"),
    "F24 malformed answers": (
        "stdio.test_an_answer_that_is_none_ends_its_call_at_once",
        "faults.test_each_answer_ends_its_call_at_once",
    ),
    "F25 odd ids": ("faults.test_each_answer_ends_its_call_at_once", "stdio.test_an_error_of_the_tool_is_its_text"),
    "F26 50 MB": (
        "load.test_fifty_megabytes_in_one_answer_are_delivered_and_the_loop_stays_free",
        "stdio.test_a_large_answer_does_not_hold_the_loop",
        "framing.test_reading_is_linear",
    ),
    "F27 standard error flood": (
        "server_log.test_a_flood_is_kept_in_part_and_in_bounds",
        "stdio.test_odd_answers_are_delivered:flood-stderr",
    ),
    "F28 floods of messages": (
        "stdio.test_odd_answers_are_delivered:flood-requests",
        "lists.test_a_storm_of_changes_is_read_a_few_times_only",
        "asks.test_a_flood_of_messages_is_kept_in_part_and_told_in_part",
    ),
    "F29 does not stop": ("stdio.test_closing_leaves_nothing:flood-at-exit",),
    "F30 children and daemons": ("stdio.test_closing_leaves_nothing:daemon-child",),
    "F31 the host is killed": (
        "survivors.test_a_killed_agent_leaves_nothing_that_its_servers_started",
        "survivors.test_nor_a_server_behind_a_shell_that_ignores_the_end_of_its_input",
    ),
    "F32 HTTP statuses": (
        "http_faults.test_each_response_ends_its_call_at_once",
        "http.test_what_can_be_mended_is_mended:429-once",
    ),
    "F33 session forgotten": ("http.test_a_forgotten_session_is_opened_anew_once",),
    "F34 reset, cut off, gone": (
        "http.test_a_failed_request_is_a_named_error_and_the_next_works",
        "http.test_nobody_at_the_address",
        "http.test_a_server_that_went_away_and_came_back",
    ),
    "F35 streams that close": ("http.test_a_stream_that_closes_at_once_is_not_hammered",),
    "F36 redirects": ("http.test_a_failed_request_is_a_named_error_and_the_next_works:redirect-cross",),
    "F37 wrong bodies": ("http_faults.test_each_response_ends_its_call_at_once",),
    "F38 huge events, bombs": (
        "http.test_a_large_event_is_delivered",
        "http.test_a_failed_request_is_a_named_error_and_the_next_works:gzip-bomb",
    ),
    "F39 session ids": ("http.test_an_illegal_session_id_is_refused",),
    "F40 the older transport": (
        "http_faults.test_an_event_stream_that_goes_wrong_is_named",
        "http_faults.test_an_event_stream_that_breaks_costs_its_calls_and_a_new_one_is_opened",
    ),
    "F41 asks without being allowed": ("stdio.test_what_a_server_asks_of_us_is_refused_at_once",),
}


@each_row("what, tests", [*PROMISES.items(), *FAULTS.items()])
def test_it_is_tested(what: str, tests: tuple[str, ...]) -> None:
    for named in tests:
        assert not what_is_wrong(f"mcp/test_mcp_{named}"), what


def test_no_number_is_left_out() -> None:
    assert [int(what.split()[0][1:]) for what in FAULTS] == list(range(1, 42))
    assert [int(what.split()[0][1:]) for what in PROMISES] == [*range(1, 9), *range(11, 18)]
