"""Whatever a method returns becomes JSON, or an error that says what cannot."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.workers.results import encode


class Colour(enum.Enum):
    RED = "red"


class Record(msgspec.Struct):
    key: bytes
    row: Any = None


@dataclasses.dataclass
class Point:
    x: int
    tag: bytes


class Opaque:
    pass


ARRAY = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ((1, [2.5, True]), "[1,[2.5,true]]"),
        ("é\u2028\0", '"é\u2028\\u0000"'),
        (2**64, "18446744073709551616"),
        ([-(10**30), b"a"], "[-1000000000000000000000000000000," + '"YQ=="]'),
        (math.nan, "null"),
        ([math.inf, 10**20], "[null,100000000000000000000]"),
        (b"hi", '"aGk="'),
        ([bytearray(b"hi"), memoryview(b"hi")], '["aGk=","aGk="]'),
        ({1: "a", np.int64(2): "b"}, '{"1":"a","2":"b"}'),
        ({"a": {2: 3}}, '{"a":{"2":3}}'),
        (Point(1, b"hi"), '{"x":1,"tag":"aGk="}'),
        (Record(b"hi", ARRAY[0]), '{"key":"aGk=","row":[0,1,2]}'),
        ([Record(b"", {3: Point(1, b"")})], '[{"key":"","row":{"3":{"x":1,"tag":""}}}]'),
        (Colour.RED, '"red"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (datetime.datetime(2024, 2, 29, 12), '"2024-02-29T12:00:00"'),
        (datetime.timedelta(seconds=90), '"PT90S"'),
        (decimal.Decimal("1.10"), '"1.10"'),
        ({7}, "[7]"),
        (ARRAY, "[[0,1,2],[3,4,5]]"),
        (ARRAY.T, "[[0,3],[1,4],[2,5]]"),
        (ARRAY[:, ::2], "[[0,2],[3,5]]"),
        (np.array(5), "5"),
        (np.array([1.5, math.nan]), "[1.5,null]"),
        (np.array([True]), "[true]"),
        (np.array([1, 2], ">i4"), "[1,2]"),
        (np.array(["a", "b"]), '["a","b"]'),
        (np.array([1, None, "x"], object), '[1,null,"x"]'),
        ([np.float32(0.5), np.int64(3), np.bool_(False)], "[0.5,3,false]"),
        ([np.arange(2), 2**70], "[[0,1],1180591620717411303424]"),
    ],
    ids=lambda value: ascii(value) if isinstance(value, str) else type(value).__name__,
)
def test_values_have_one_form(value: Any, text: str) -> None:
    assert encode(value).decode() == text


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Opaque(), "an object of type Opaque"),
        ({"a": [Opaque()]}, "Opaque"),
        (1j, "complex"),
        (np.array([1j]), "complex"),
        (range(3), "range"),
        ([open], "builtin_function_or_method"),
        ({(1, 2): 3}, "a key of type tuple"),
        ({None: 3}, "a key of type NoneType"),
        ("\ud800", "Unicode"),
        (["\ud800", 2**70], "Unicode"),
    ],
    ids=lambda value: ascii(value) if isinstance(value, str) else type(value).__name__,
)
def test_what_json_cannot_hold_is_named(value: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        encode(value)


def test_a_value_that_contains_itself_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="contains itself"):
        encode(endless)


def test_nesting_beyond_what_orjson_writes_is_written() -> None:
    value: Any = 1
    for _ in range(300):
        value = [value]
    assert encode(value) == b"[" * 300 + b"1" + b"]" * 300


_scalars = st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | st.text()
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(_json)
def test_json_values_come_back_as_they_were(value: Any) -> None:
    assert json.loads(encode(value)) == value
