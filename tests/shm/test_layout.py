from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faircall.shm import layout
from faircall.shm.layout import Geometry, Layout, word_of

PROMISED_RECORDS = {
    # name: (words, {field: the word at which it begins})
    "HEADER": (
        512,
        "magic 0, layout 1, bytes 2, boot 3, creator_pid 4, created_ns 5, phase 6, phase_ns 7,"
        " log_level 8, generation 9",
    ),
    "SHARD": (
        48,
        "policy_version 0, seq 1, held 2, next_open_ns 3, idle 4, swept_ns 20, "
        "strangers_level 21, rates_version 22, limiters_changed 23, renewed_ns 24, taken 25",
    ),
    "GROUP": (
        16,
        "cursor 0, credit 1, waiting 2, drawn 3, lane_debt 4, gathering 6, gathering_room 7,"
        " served 8, served_since_ns 9, brief_ns 10, express_cursor 11, express_credit 12,"
        " express_lane_debt 13, express_ns 15",
    ),
    "POLICY": (
        160,
        "levels 0, in_turn 1, scan_from_cursor 2, claim_ahead_ns 3, max_principal 4, "
        "weight 5, capacity 21, backoff 37, lane_share 38, held_share 40, other_groups "
        "41, other_capacity 42, long_ns 154, short_ns 155",
    ),
    "PROCESS": (
        24,
        "pid 0, incarnation 1, status 2, beat_ns 3, current 4, current_deadline_ns 5,"
        " started_ns 6, sleeping 7, connections 8, handed 9, quiet 10, settle_column 11,"
        " settle_total 12, settle_slot 13, settle_cost 14, leaving 15, serving 16",
    ),
    "ANSWER_RING": (8, "head 0, tail 1"),
    "LIMITER": (
        40,
        "key 0, caller 1, flags 2, period_ns 3, limit 4, next_limit 7, configured 10, "
        "used 13, running_limit 16, debt_periods 17, changed_ns 18, version 19, looked_ns "
        "20, opens_ns 21, running 22, held 23, opened 24, events 25, held_ns 31, waiting 32, "
        "backlog 33",
    ),
    "SLOT": (
        26,
        "state 0, seq 1, turn 2, next 3, prev 4, child 5, identity 6, principal 7, call 8, "
        "limiters 9, held_by 12, held_since_ns 13, batch 14, budget 15, arrived_ns 16, "
        "deadline_ns 17, claimed_ns 18, charged 19, reserved 20, request 21, answer 22, "
        "answer_page 23, spent_ns 24, queued_ns 25",
    ),
    "IDENTITY": (
        32,
        "hash 0, word 1, level 2, decayed 3, raw 4, seen 5, calls_seen 6, refused_seen 7, "
        "waiting 8, used_ns 9, quarantined 10, looked 11, watch 12, name_bytes 13, name 14",
    ),
    "METHOD": (
        26,
        "hash 0, flags 1, timeout_ns 2, expected_ns 3, mean_ns 4, mean_cost 5, average 6, "
        "since 7, last 8, name_bytes 9, name 10",
    ),
    "METHOD_COLUMN": (
        8,
        "calls 0, failed 1, spent_ns 2, max_ns 3, cost 4, squares 5, died 6, joint_runs 7",
    ),
    "ARRIVED_COLUMN": (2, "calls 0, bytes 1"),
    "LEVEL_COLUMN": (2, "count 0, response_ns 1"),
    "LEVEL": (8, "backs_off 0, mean_ns 1, weight 2, count 3, seen_count 4, seen_ns 5"),
    "HISTOGRAM": (264, "sum_ns 0, counts 1"),
    "WATCHED": (1, "identity 0"),
    "WATCHED_HISTOGRAM": (265, "identity 0, sum_ns 1, counts 2"),
    "TOP_VERSION": (8, "version 0"),
    "TOP_BLOCK": (
        16,
        "count 0, published_ns 1, seconds 2, calls 3, cost 4, busy_ns 5, refused 6",
    ),
    "TOP_CALLER": (
        48,
        "calls 0, cost 1, busy_ns 2, refused 3, identity 8, method 9, user_bytes 10, "
        "context_bytes 11, address_bytes 12, user 13, context 29, address 41",
    ),
    "PAGE": (2, "owner 0, next 1"),
    "PAGE_INDEX": (8, "free 0"),
}
PROMISED_SECTIONS = {
    "header": 0,
    "locks": 4096,
    "shard": 4416,
    "groups": 4800,
    "level_turns": 4928,
    "arrival_turns": 5056,
    "short_leads": 5184,
    "level_waiting": 5312,
    "level_held": 5568,
    "level_opened": 5696,
    "overflowed": 5824,
    "policy": 5952,
    "processes": 8512,
    "rings": 9856,
    "answers": 22272,
    "limiters": 22528,
    "limiter_roots": 23168,
    "slots": 23424,
    "identities": 26752,
    "last_turns": 28800,
    "last_short": 29824,
    "group_waiting": 29888,
    "identity_index": 29952,
    "methods": 30080,
    "method_index": 30912,
    "counters": 31040,
    "costs": 32832,
    "calls": 33280,
    "refused": 33728,
    "method_columns": 33856,
    "arrived_columns": 34368,
    "level_columns": 34496,
    "level_words": 35008,
    "top_callers": 36032,
    "histograms": 429888,
    "watched": 683328,
    "watched_histograms": 683584,
    "rates": 819264,
    "small_words": 950400,
    "large_words": 950784,
    "small_stack": 950848,
    "large_stack": 951104,
    "small_pages": 954368,
    "large_pages": 1052672,
    "total_bytes": 1314816,
}
GEOMETRY = Geometry(
    readers=2,
    handlers=2,
    slots=8,
    levels=4,
    turns=64,
    identities=8,
    methods=4,
    limiters=2,
    small_pages=24,
    large_pages=4,
)


SIZES = [name for name in Geometry.__slots__ if not name.startswith("group_")]


def test_the_layout_is_the_one_that_version_15_promises() -> None:
    """Change VERSION with these figures, never these figures alone."""
    assert layout.VERSION == 16
    for name, (words, fields) in PROMISED_RECORDS.items():
        record = getattr(layout, name)
        assert record.itemsize == words * layout.WORD, name
        found = [f"{field} {word_of(record, field)}" for field in record.names]
        assert ", ".join(found) == fields, name
    sections = Layout(GEOMETRY, "abi")
    assert {name: getattr(sections, name) for name in PROMISED_SECTIONS} == PROMISED_SECTIONS


def test_the_constants_are_those_that_version_15_promises() -> None:
    """Change VERSION with these figures, never these figures alone."""
    assert layout.VERSION == 16
    assert layout.MAGIC.to_bytes(8, "little") == b"FAIRCALL"
    assert (layout.SMALL_PAGE, layout.LARGE_PAGE) == (4096, 65536)
    assert (layout.MAX_LEVELS, layout.LANES, layout.CLASSES, layout.IDLE_WORDS) == (16, 2, 2, 16)
    assert (layout.GROUP_SHIFT, layout.MOST_GROUPS) == (4, 8)
    assert (layout.NAME_BYTES, layout.COUNTERS, layout.LIMITERS_PER_CALL) == (128, 32, 8)
    assert layout.LOCKS_BEFORE_ANSWERS == 3
    assert (layout.METHOD_HISTOGRAMS, layout.MEASURES) == (64, 2)


def test_every_field_is_made_of_aligned_words() -> None:
    for name in PROMISED_RECORDS:
        record = getattr(layout, name)
        for field, kind in ((field, record.fields[field]) for field in record.names):
            assert kind[0].base == "<u8", (name, field)
            assert kind[1] % layout.WORD == 0, (name, field)


def test_sections_lie_in_order_on_lines_of_their_own() -> None:
    starts = [getattr(Layout(GEOMETRY, "abi"), name) for name in PROMISED_SECTIONS]
    assert starts == sorted(set(starts))
    assert all(start % layout.CACHE_LINE == 0 for start in starts)


def test_payload_begins_on_a_page() -> None:
    for geometry in (GEOMETRY, Geometry(), replace(GEOMETRY, slots=4, small_pages=7)):
        sections = Layout(geometry, "abi")
        assert sections.small_pages % 4096 == sections.large_pages % 4096 == 0
        assert sections.total_bytes % 4096 == 0


def test_the_default_segment_fits_64_mib() -> None:
    assert Layout(Geometry(), "abi").total_bytes <= 64 << 20


@pytest.mark.parametrize("name", SIZES)
def test_another_geometry_is_another_layout(name: str) -> None:
    changes: dict[str, Any] = {name: getattr(GEOMETRY, name) * 2}
    other = replace(GEOMETRY, **changes)
    assert Layout(other, "abi").identity != Layout(GEOMETRY, "abi").identity


def test_groups_share_the_handlers_and_have_rings_of_their_own() -> None:
    grouped = replace(GEOMETRY, handlers=5, group_handlers=(3, 2))
    assert (grouped.groups, grouped.ring_numbers, grouped.rings) == (2, 32, 16 + 6)
    assert [list(grouped.handlers_of(group)) for group in (0, 1)] == [[0, 1, 2], [3, 4]]
    assert [grouped.group_of(handler) for handler in range(5)] == [0, 0, 0, 1, 1]
    one = replace(GEOMETRY, handlers=5)
    assert (one.groups, list(one.handlers_of(0)), one.group_of(4)) == (1, [0, 1, 2, 3, 4], 0)
    assert Layout(grouped, "abi").identity != Layout(one, "abi").identity


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((2, 2), "handlers=5, but by groups"),
        ((5, 0), "each group needs a handler"),
        ((1,) * 9, "groups must be at most 8"),
    ],
)
def test_groups_that_are_none_are_refused(groups: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GEOMETRY, handlers=5, group_handlers=groups)


def test_express_handlers_have_the_last_places_of_their_group() -> None:
    geometry = replace(GEOMETRY, handlers=7, group_handlers=(4, 3), group_express=(2, 0))
    assert [list(geometry.ordinary_of(group)) for group in (0, 1)] == [[0, 1], [4, 5, 6]]
    assert [list(geometry.express_of(group)) for group in (0, 1)] == [[2, 3], []]
    assert [geometry.is_express(handler) for handler in range(7)] == [False] * 2 + [True] * 2 + [
        False
    ] * 3
    assert geometry.has_express
    assert not replace(geometry, group_express=(0, 0)).has_express
    assert (
        Layout(geometry, "abi").identity
        != Layout(replace(geometry, group_express=(1, 0)), "abi").identity
    )


@pytest.mark.parametrize("express", [(5,), (1, 1)])
def test_a_group_has_an_ordinary_handler(express: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="each group needs an ordinary handler"):
        replace(GEOMETRY, handlers=5, group_express=express)


def test_another_libc_is_another_layout() -> None:
    assert Layout(GEOMETRY, "musl").identity != Layout(GEOMETRY, "glibc").identity


@pytest.mark.parametrize("name", SIZES)
def test_a_geometry_without_any_of_something_is_refused(name: str) -> None:
    changes: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=f"{name}=0"):
        replace(GEOMETRY, **changes)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("slots", 12, "slots must be a power of two"),
        ("turns", 96, "turns must be a power of two"),
        ("levels", 17, "levels must be at most 14"),
        ("handlers", 1025, "handlers must be at most 1024"),
        ("turns", 1 << 17, "turns must be at most"),
        ("slots", 1 << 23, "readers x slots"),
    ],
)
def test_a_geometry_out_of_bounds_is_refused(name: str, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GEOMETRY, **{name: value})  # type: ignore[arg-type]


def test_the_name_indices_stay_half_empty() -> None:
    for identities in (1, 2, 3, 4, 5, 1000, 4096):
        geometry = replace(GEOMETRY, identities=identities)
        assert geometry.buckets >= 2 * identities
        assert geometry.buckets & (geometry.buckets - 1) == 0


def test_a_record_longer_than_it_may_be_is_refused() -> None:
    with pytest.raises(ValueError, match="record of 2 words holds 3"):
        layout._record("a", "b:2", words=2)
