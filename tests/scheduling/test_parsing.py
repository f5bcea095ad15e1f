from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling import parsing
from faircall.scheduling.errors import NotParseable


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_integer_reads_back_in_decimal_and_hexadecimal(value: int) -> None:
    assert parsing.integer(f" {value} ") == value
    assert parsing.integer(hex(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back(value: float) -> None:
    assert parsing.number(repr(value)) == value


@pytest.mark.parametrize(
    ("text", "value"), [("0.5d", 0.5), (".5", 0.5), ("5.", 5.0), ("1E2f", 100)]
)
def test_numbers_are_written_as_in_java(text: str, value: float) -> None:
    assert parsing.number(text) == value


def test_not_a_number_is_a_number_and_infinity_too() -> None:
    assert math.isnan(parsing.number("NaN"))
    assert parsing.number("-Infinity") == -math.inf


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parsing.integer, ""),
        (parsing.integer, "1_000"),
        (parsing.integer, "5s"),
        (parsing.integer, str(2**31)),
        (parsing.integer, "0x80000000"),
        (parsing.integers, "1,,2"),
        (parsing.integers, "0x8,1"),
        (parsing.number, "half"),
        (parsing.number, "nan"),
        (parsing.number, "1_0.5"),
        (parsing.number, "0.5x"),
        (parsing.number, "d"),
        (parsing.duration, "1.5s"),
        (parsing.duration, "5 s"),
        (parsing.duration, "soon"),
    ],
)
def test_what_hadoop_cannot_parse_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(NotParseable):
        parse(text)


def test_lists_drop_blanks_line_breaks_and_empty_ends() -> None:
    assert parsing.integers(" 1 ,\n 2,3,, ") == [1, 2, 3]
    assert parsing.integers(" , ") == []
    assert parsing.words("") == []


def test_durations_know_their_units_in_any_case() -> None:
    text = "1500, 2S, 3m, 1h, 1d, 7000000ns, 2500us, 4MS"
    expected = [1500, 2000, 180_000, 3_600_000, 86_400_000, 7, 2, 4]
    assert parsing.durations_ms(text) == expected


def test_a_flag_that_says_neither_is_the_default() -> None:
    assert parsing.boolean(" TRUE ", False)
    assert not parsing.boolean("False", True)
    assert [parsing.boolean("yes", default) for default in (False, True)] == [False, True]


def test_names_keep_their_blanks() -> None:
    assert parsing.names(",, hdfs ,yarn, hdfs ,") == [" hdfs ", "yarn"]
