"""Reading and showing values: what is shown reads as the same value."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.server.settings import kinds, lists, places
from faircall.server.settings.kinds import UNSET, Kind

INT64 = st.integers(-(2**63), 2**63 - 1)
# What a TOML basic string can hold, without surrogates; lists of names have no blanks around them.
TEXT = st.text(st.characters(exclude_categories=["Cs"])).map(str.strip)
NAME = TEXT.filter(bool)

ROUND_TRIPS: list[tuple[Kind, st.SearchStrategy[Any]]] = [
    (kinds.INTEGER, INT64),
    (kinds.NUMBER, st.floats(allow_nan=False, allow_infinity=False)),
    (kinds.FLAG, st.booleans()),
    (kinds.TEXT, TEXT),
    (kinds.BYTES, st.integers(0, 2**50)),
    (kinds.choice("a", "b"), st.sampled_from(["a", "b"])),
    (kinds.choice(200, 429), st.sampled_from([200, 429])),
    (lists.INTEGERS, st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1).map(tuple)),
    (lists.DURATIONS, st.lists(st.integers(1, 2**40), min_size=1).map(tuple)),
    (lists.NAMES, st.lists(NAME, unique=True).map(tuple)),
]


@pytest.mark.parametrize(
    ("kind", "values"), ROUND_TRIPS, ids=lambda part: getattr(part, "name", "")
)
@given(data=st.data())
def test_a_value_that_is_shown_reads_as_itself(
    kind: Kind, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    assert kind.read(tomllib.loads(f"x = {kind.show(value)}")["x"]) == value


@pytest.mark.parametrize("percent", [0, 1, 7, 12.5, 33, 85, 90, 100, 0.001953125 * 100])
def test_percents_are_shown_as_they_were_written(percent: float) -> None:
    fractions = lists.PERCENTS.read([percent])
    shown = tomllib.loads(f"x = {lists.PERCENTS.show(fractions)}")["x"]
    assert (shown, lists.PERCENTS.read(shown)) == ([percent], fractions)


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        (kinds.INTEGER, " -0x10 ", -16),
        (kinds.INTEGER, "+5", 5),
        (kinds.NUMBER, "0.5d", 0.5),
        (kinds.NUMBER, 2, 2.0),
        (kinds.FLAG, " False", False),
        (kinds.BYTES, "64 KiB", 65536),
        (kinds.BYTES, "16m", 16 << 20),
        (kinds.BYTES, "1GiB", 1 << 30),
        (kinds.choice("json", "text"), " JSON ", "json"),
        (kinds.choice(200, 503), "503", 503),
        (lists.INTEGERS, "1, 2,\n3,,", (1, 2, 3)),
        (lists.INTEGERS, 7, (7,)),
        (lists.INTEGERS, "", UNSET),
        (lists.INTEGERS, [], UNSET),
        (lists.DURATIONS, ["2s", 5, "1500us"], (2000, 5, 1)),
        (lists.NAMES, "a, b,a", ("a", "b")),
        (lists.NAMES, [], ()),
        (places.PEERS, "uid:self,10.0.0.0/8", ("uid:self", "10.0.0.0/8")),
    ],
)
def test_text_and_toml_values_are_read(kind: Kind, raw: object, expected: object) -> None:
    assert kind.read(raw) == expected


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (kinds.INTEGER, "1_000"),
        (kinds.INTEGER, "٣"),
        (kinds.INTEGER, "99999999999999999999"),
        (kinds.INTEGER, None),
        (kinds.NUMBER, "inf"),
        (kinds.NUMBER, True),
        (kinds.NUMBER, []),
        (kinds.FLAG, 1),
        (kinds.TEXT, 1),
        (kinds.BYTES, "16 MB x"),
        (kinds.BYTES, "-1"),
        (kinds.BYTES, 1.5),
        (kinds.choice("a"), "b"),
        (lists.INTEGERS, "1,,2"),
        (lists.INTEGERS, [1.5]),
        (lists.INTEGERS, [[1]]),
        (lists.DURATIONS, ["10 s"]),
        (lists.NAMES, "a,,b"),
        (lists.NAMES, [""]),
        (lists.NAMES, [1]),
        (lists.PERCENTS, [-1]),
    ],
)
def test_what_cannot_be_read_is_a_value_error(kind: Kind, raw: object) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|does) "):
        kind.read(raw)
