from __future__ import annotations

from dataclasses import replace

import pytest

from faircall.shm import layout
from faircall.shm.layout import Geometry, Layout, word_of

PROMISED_RECORDS = {
    # name: (words, {field: the word at which it begins})
    "HEADER": (
        512,
        "magic 0, layout 1, bytes 2, boot 3, creator_pid 4, created_ns 5, phase 6, phase_ns 7,"
        " log_level 8",
    ),
    "SHARD": (
        136,
        "policy_version 0, cursor 1, credit 2, seq 3, waiting 4, held 5, next_open_ns 6, drawn 7,"
        " turn 8, level_waiting 24, level_held 56, overflowed 72, idle 88,"
        " arrival_turn 104, swept_ns 120, lane_debt 121, strangers_level 123, rates_version 124",
    ),
    "POLICY": (
        64,
        "levels 0, in_turn 1, scan_from_cursor 2, claim_ahead_ns 3, max_principal 4, weight 5,"
        " capacity 21, backoff 37, lane_share 38",
    ),
    "PROCESS": (
        16,
        "pid 0, incarnation 1, status 2, beat_ns 3, current 4, current_deadline_ns 5,"
        " started_ns 6, sleeping 7, connections 8, handed 9, quiet 10, settle_column 11,"
        " settle_total 12, settle_slot 13, settle_cost 14",
    ),
    "ANSWER_RING": (8, "head 0, tail 1"),
    "LIMITER": (
        48,
        "key 0, caller 1, flags 2, period_ns 3, limit 4, next_limit 7, configured 10, used 13, "
        "running_limit 16, debt_periods 17, changed_ns 18, version 19, looked_ns 20, opens_ns 21, "
        "running 22, held 23, opened 24, root 25, events 41, held_ns 47",
    ),
    "SLOT": (
        27,
        "state 0, seq 1, turn 2, next 3, prev 4, child 5, identity 6, principal 7, call 8, "
        "limiters 9, held_by 13, held_since_ns 14, batch 15, budget 16, arrived_ns 17, "
        "deadline_ns 18, claimed_ns 19, charged 20, reserved 21, request 22, answer 23, "
        "answer_page 24, spent_ns 25, queued_ns 26",
    ),
    "IDENTITY": (
        32,
        "hash 0, word 1, level 2, decayed 3, raw 4, seen 5, calls_seen 6, waiting 7,"
        " used_ns 8, quarantined 9, looked 10, name_bytes 11, name 12",
    ),
    "METHOD": (
        24,
        "hash 0, flags 1, timeout_ns 2, expected_ns 3, mean_ns 4, mean_cost 5, average 6, "
        "name_bytes 7, name 8",
    ),
    "METHOD_COLUMN": (
        7,
        "calls 0, failed 1, spent_ns 2, max_ns 3, cost 4, squares 5, died 6",
    ),
    "ARRIVED_COLUMN": (2, "calls 0, bytes 1"),
    "LEVEL_COLUMN": (2, "count 0, response_ns 1"),
    "LEVEL": (8, "backs_off 0, mean_ns 1, weight 2, count 3, seen_count 4, seen_ns 5"),
    "PAGE": (2, "owner 0, next 1"),
    "PAGE_INDEX": (8, "free 0"),
}
PROMISED_SECTIONS = {
    "header": 0,
    "locks": 4096,
    "shard": 4416,
    "policy": 5504,
    "processes": 6528,
    "rings": 7424,
    "answers": 19840,
    "limiters": 20096,
    "slots": 20864,
    "identities": 24320,
    "last_turns": 26368,
    "identity_index": 27392,
    "methods": 27520,
    "method_index": 28288,
    "counters": 28416,
    "costs": 30208,
    "calls": 30656,
    "method_columns": 31104,
    "arrived_columns": 31552,
    "level_columns": 31680,
    "level_words": 32192,
    "rates": 33216,
    "small_words": 164352,
    "large_words": 164736,
    "small_stack": 164800,
    "large_stack": 165056,
    "small_pages": 167936,
    "large_pages": 266240,
    "total_bytes": 528384,
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


def test_the_layout_is_the_one_that_version_7_promises() -> None:
    """Change VERSION with these figures, never these figures alone."""
    assert layout.VERSION == 7
    for name, (words, fields) in PROMISED_RECORDS.items():
        record = getattr(layout, name)
        assert record.itemsize == words * layout.WORD, name
        found = [f"{field} {word_of(record, field)}" for field in record.names]
        assert ", ".join(found) == fields, name
    sections = Layout(GEOMETRY, "abi")
    assert {name: getattr(sections, name) for name in PROMISED_SECTIONS} == PROMISED_SECTIONS


def test_the_constants_are_those_that_version_7_promises() -> None:
    """Change VERSION with these figures, never these figures alone."""
    assert layout.VERSION == 7
    assert layout.MAGIC.to_bytes(8, "little") == b"FAIRCALL"
    assert (layout.SMALL_PAGE, layout.LARGE_PAGE) == (4096, 65536)
    assert (layout.MAX_LEVELS, layout.LANES, layout.CLASSES, layout.IDLE_WORDS) == (16, 2, 2, 16)
    assert (layout.NAME_BYTES, layout.COUNTERS, layout.LIMITERS_PER_CALL) == (128, 32, 8)
    assert layout.LOCKS_BEFORE_ANSWERS == 3


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


@pytest.mark.parametrize("name", Geometry.__slots__)
def test_another_geometry_is_another_layout(name: str) -> None:
    other = replace(GEOMETRY, **{name: getattr(GEOMETRY, name) * 2})
    assert Layout(other, "abi").identity != Layout(GEOMETRY, "abi").identity


def test_another_libc_is_another_layout() -> None:
    assert Layout(GEOMETRY, "musl").identity != Layout(GEOMETRY, "glibc").identity


@pytest.mark.parametrize("name", Geometry.__slots__)
def test_a_geometry_without_any_of_something_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=0"):
        replace(GEOMETRY, **{name: 0})


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
        replace(GEOMETRY, **{name: value})


def test_the_name_indices_stay_half_empty() -> None:
    for identities in (1, 2, 3, 4, 5, 1000, 4096):
        geometry = replace(GEOMETRY, identities=identities)
        assert geometry.buckets >= 2 * identities
        assert geometry.buckets & (geometry.buckets - 1) == 0


def test_a_record_longer_than_it_may_be_is_refused() -> None:
    with pytest.raises(ValueError, match="record of 2 words holds 3"):
        layout._record("a", "b:2", words=2)
