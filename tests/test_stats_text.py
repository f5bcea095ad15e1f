"""Statistics for people: lines, sections, tables; nothing of a client's name reaches a terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faircall.server.admin.text import as_text, cell


def text(counted: dict[str, Any]) -> list[str]:
    return as_text(counted, as_json=False).splitlines()


def test_plain_values_are_a_line_and_mappings_are_sections() -> None:
    counted = {"calls": 12345, "queue": {"impl": "FIFO", "weights": [8, 4], "drawn": 7}}
    assert text(counted) == ["calls=12,345", "", "queue  impl=FIFO  weights=8,4  drawn=7"]


def test_lists_of_mappings_are_tables_with_numbers_at_the_right() -> None:
    counted = {"users": [{"user": "bob", "calls": 12}, {"user": "alice", "late": 3}]}
    assert text(counted) == [
        "users",
        "  user   calls  late",
        "  bob       12",
        "  alice            3",
    ]


def test_columns_that_would_have_the_same_head_keep_their_units() -> None:
    counted = {"throttle": [{"key": "a", "debt": 1, "debt_bytes": 2048, "held_s": 1.5}]}
    assert text(counted) == [
        "throttle",
        "  key  debt  debt_bytes  held",
        "  a       1        2KiB  1.5s",
    ]


def test_the_only_table_of_a_section_stands_right_below_it() -> None:
    assert text({"queue": {"waiting": 1, "levels": [{"level": 0}]}}) == [
        "queue  waiting=1",
        "  level",
        "      0",
    ]


def test_nested_sections_have_their_path_as_title() -> None:
    counted = {"users": {"unique": 1, "top": [{"user": "a"}], "others": {"calls": 2}}}
    assert text(counted) == [
        "users  unique=1",
        "",
        "users.top",
        "  user",
        "  a",
        "",
        "users.others  calls=2",
    ]


def test_things_that_have_sections_are_named_by_their_first_member() -> None:
    counted = {"ports": [{"port": 8020, "up": 1, "queue": {"held": 0}}, {"port": 9, "queue": {}}]}
    assert text(counted) == ["port 8020  up=1", "", "queue  held=0"]
    counted["ports"][1]["up"] = 2
    assert "port 9  up=2" in text(counted)


def test_a_long_line_is_wrapped() -> None:
    lines = text({"totals": {f"counter_{n}": n for n in range(20)}})
    assert max(map(len, lines)) <= 100
    assert [line.startswith("  counter_") for line in lines] == [False, True, True]
    assert " ".join(lines).split() == ["totals", *(f"counter_{n}={n}" for n in range(20))]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("calls", 1234567, "1,234,567"),
        ("pid", 12345, "12345"),
        ("method", None, ""),
        ("in_turn", True, "yes"),
        ("addresses", ["a", "b"], "a,b"),
        ("mean_ms", 1234.5678, "1,234.57"),
        ("calls_per_s", 12.5, "12.50"),
        ("share", 0.125, "12.5%"),
        ("busy_share", 1.0, "100.0%"),
        ("bytes", 60_862_464, "58.0MiB"),
        ("page_bytes", 4096, "4KiB"),
        ("in_bytes", 330, "330B"),
        ("age_s", 9.04, "9.0s"),
        ("uptime_s", 192.5, "3m12s"),
        ("uptime_s", 7_300.0, "2h1m"),
        ("uptime_s", 90_061.0, "1d1h"),
        ("user", "x" * 50, "x" * 45 + "..."),
    ],
)
def test_a_value_is_written_by_the_end_of_its_name(name: str, value: Any, shown: str) -> None:
    assert cell(name, value) == shown


@pytest.mark.parametrize("hostile", ["a\x1b[31mb", "a\nb", "a\x9bb", "a\u202eb"])
def test_what_a_terminal_obeys_is_escaped(hostile: str) -> None:
    escaped = f"a\\u{ord(hostile[1]):04x}{hostile[2:]}"
    assert text({"user": hostile}) == [f"user={escaped}"]
    assert text({"users": [{"user": hostile}]})[-1] == f"  {escaped}"
    line = as_text({"user": hostile}, as_json=True)
    assert line.isascii()
    assert json.loads(line) == {"user": hostile}


def test_json_is_one_line() -> None:
    assert as_text({"a": [1, {"b": "é"}]}, as_json=True) == '{"a":[1,{"b":"é"}]}'
