"""JSON params become arguments, or an error that names the parameter."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from faircall.workers.errors import INVALID_PARAMS, RpcError
from faircall.workers.parameters import Parameters


def call(function: Callable[..., Any], params: Any = b"") -> Any:
    """What `function` returns for these params, given as a Python value or as raw JSON."""
    raw = params if isinstance(params, bytes) else json.dumps(params).encode()
    args, kwargs = Parameters(function).bind(raw)
    return function(*args, **kwargs)


def complaint(function: Callable[..., Any], params: Any) -> str:
    with pytest.raises(RpcError) as caught:
        call(function, params)
    assert caught.value.code == INVALID_PARAMS
    return caught.value.message.removeprefix("Invalid params: ")


# -- by position and by name -----------------------------------------------------------------------


def untyped(a, b, c=3):  # type: ignore[no-untyped-def]
    return a, b, c


@pytest.mark.parametrize("params", [[1, 2], [1, 2, 3], {"a": 1, "b": 2}, {"b": 2, "a": 1, "c": 3}])
def test_values_go_by_position_or_by_name(params: Any) -> None:
    assert call(untyped, params) == (1, 2, 3)


@pytest.mark.parametrize("params", [b"", b"[]", b"{}"])
def test_no_params_call_without_arguments(params: bytes) -> None:
    assert call(lambda: "called", params) == "called"
    assert call(lambda a=1: a, params) == 1


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (b"", "missing parameter `a`"),
        ([1], "missing parameter `b`"),
        ({"a": 1}, "missing parameter `b`"),
        ([1, 2, 3, 4], "too many values for parameters `a`, `b`, `c`"),
        ({"a": 1, "b": 2, "d": 4}, "unknown parameter `d`"),
        ({"A": 1, "b": 2}, "unknown parameter `A`"),
    ],
)
def test_a_wrong_number_or_name_is_said_by_name(params: Any, text: str) -> None:
    assert complaint(untyped, params) == text


def test_a_function_without_parameters_takes_none() -> None:
    text = "too many values for a method without positional parameters"
    assert complaint(lambda: None, [1]) == text
    assert complaint(lambda: None, {"x": 1}) == "unknown parameter `x`"


def test_positional_only_and_keyword_only_keep_their_meaning() -> None:
    def function(a: int, /, b: int, *, c: int, d: int = 4) -> tuple[int, ...]:
        return a, b, c, d

    assert complaint(function, [1, 2]) == "parameter `c` must be given by name"
    assert (
        complaint(function, {"a": 1, "b": 2, "c": 3}) == "parameter `a` must be given by position"
    )

    def optional(a: int = 1, /, *, c: int = 3) -> tuple[int, int]:
        return a, c

    assert call(optional, [7]) == (7, 3)
    assert call(optional, {"c": 8}) == (1, 8)


def test_args_collect_what_is_left_each_value_checked() -> None:
    def function(first: str = "none", *rest: int) -> tuple[str, tuple[int, ...]]:
        return first, rest

    assert call(function) == ("none", ())
    assert call(function, ["a"]) == ("a", ())
    assert call(function, ["a", 1, 2]) == ("a", (1, 2))
    assert complaint(function, ["a", 1, "x"]) == "parameter `rest[1]`: Expected `int`, got `str`"
    assert call(lambda *values: values, [1, [2]]) == (1, [2])


def test_kwargs_collect_what_is_left_each_value_checked() -> None:
    def function(a: bytes, **rest: int) -> tuple[bytes, dict[str, int]]:
        return a, rest

    assert call(function, {"a": "aGk="}) == (b"hi", {})
    assert call(function, {"b": 2, "a": "aGk=", "c": 3}) == (b"hi", {"b": 2, "c": 3})
    wrong = complaint(function, {"a": "aGk=", "b": "x"})
    assert wrong == "parameter `rest[b]`: Expected `int`, got `str`"
    assert complaint(function, {"b": 1}) == "missing parameter `a`"


def test_parameter_names_may_be_unusual() -> None:
    def function(self: int, _x: int, __y: int, naïve: int, name: int) -> int:
        return self + _x + __y + naïve + name

    assert call(function, {"self": 1, "_x": 2, "__y": 3, "naïve": 4, "name": 5}) == 15


def test_bound_methods_and_builtins_can_be_called() -> None:
    class Adder:
        def add(self, a: int, b: int) -> int:
            return a + b

    assert call(Adder().add, {"a": 1, "b": 2}) == 3
    assert call(abs, [-3]) == 3


# -- types -----------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Shape(msgspec.Struct):
    corners: list[Point]


@pytest.mark.parametrize(
    ("kind", "sent", "got"),
    [
        (int, 2**200, 2**200),
        (float, 1, 1.0),
        (bytes, "aGk=", b"hi"),
        (int | None, None, None),
        (int | float, 1, 1),
        (list[bytes], ["aGk="], [b"hi"]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[str, float], {"a": 1.5}, {"a": 1.5}),
        (dict[int, str], {"7": "a"}, {7: "a"}),
        (set[int], [1, 1], {1}),
        (Literal["a", "b"], "b", "b"),
        (Colour, "red", Colour.RED),
        (datetime.date, "2024-02-29", datetime.date(2024, 2, 29)),
        (Point, {"x": 1}, Point(1)),
        (Shape, {"corners": [{"x": 1, "y": 2}]}, Shape([Point(1, 2)])),
        (Annotated[int, msgspec.Meta(ge=1)], 1, 1),
        (Any, {"a": [None]}, {"a": [None]}),
        (object, [1.5], [1.5]),
    ],
    ids=str,
)
def test_annotations_convert(kind: Any, sent: Any, got: Any) -> None:
    def function(x: kind) -> Any:
        return x

    function.__annotations__["x"] = kind
    for params in ([sent], {"x": sent}):
        found = call(function, params)
        assert found == got
        assert type(found) is type(got)


@pytest.mark.parametrize(
    ("kind", "sent", "text"),
    [
        (int, "1", "parameter `x`: Expected `int`, got `str`"),
        (int, True, "parameter `x`: Expected `int`, got `bool`"),
        (bytes, "!!", "parameter `x`: Invalid base64 encoded string"),
        (Annotated[int, msgspec.Meta(ge=1)], 0, "parameter `x`: Expected `int` >= 1"),
        (list[int], [1, "a"], "parameter `x[1]`: Expected `int`, got `str`"),
        (Shape, {"corners": [{}]}, "parameter `x.corners[0]`: Object missing required field `x`"),
        (dict[int, int], {"a": 1}, "a key of parameter `x`: Expected `int`, got `str`"),
        (dict[str, int], {"a": ""}, "parameter `x[...]`: Expected `int`, got `str`"),
        (Literal["a"], "b", "parameter `x`: Invalid enum value 'b'"),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_said_by_name(kind: Any, sent: Any, text: str) -> None:
    def function(before: Any, x: Any) -> None: ...

    function.__annotations__["x"] = kind
    assert complaint(function, [0, sent]) == text
    assert complaint(function, {"before": 0, "x": sent}) == text


def test_the_error_carries_the_parameter_for_programs() -> None:
    with pytest.raises(RpcError) as caught:
        call(untyped, [1])
    assert caught.value.wire_data == {
        "reason": "invalid_params",
        "retriable": False,
        "parameter": "b",
    }


def test_numbers_keep_their_digits_or_are_refused() -> None:
    big = 123456789012345678901234567890
    assert call(lambda x: x, [big]) == big
    assert type(call(lambda x: x, [2**64])) is int
    assert call(lambda x: x, [0.1]) == 0.1
    assert complaint(lambda x: x, b"[1e400]") == "parameter `x`: Number out of range"
    assert "out of range" in complaint(lambda x: x, b"[" + b"9" * 5000 + b"]")


def test_nesting_that_no_parser_follows_is_an_error() -> None:
    assert "nested too deeply" in complaint(lambda x: x, b"[" * 50_000 + b"]" * 50_000)


def test_defaults_are_the_functions_own_and_not_checked() -> None:
    shared: list[int] = [1, 2]
    nothing = object()

    def function(a: list[int] = shared, b: Any = nothing, c: Any = None) -> Any:
        return a, b, c

    function.__annotations__["c"] = int
    a, b, c = call(function, {})
    assert a is shared
    assert b is nothing
    assert c is None


def test_arrays_come_from_numbers_in_the_dtype_that_is_named() -> None:
    def plain(x: np.ndarray[Any, Any]) -> Any:
        return x

    def small(x: NDArray[np.uint8]) -> Any:
        return x

    assert call(plain, [[[1, 2], [3, 4]]]).tolist() == [[1, 2], [3, 4]]
    assert call(small, [[1, 255]]).dtype == np.uint8
    assert call(small, [[]]).shape == (0,)
    for wrong in ([256], [1.5], ["1"], [[1], [2, 3]], "abc", [None]):
        assert complaint(small, [wrong]).startswith("parameter `x`: ")
    assert "Expected an `array` of numbers" in complaint(plain, [["a"]])


# -- anything --------------------------------------------------------------------------------------

_scalars = st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | st.text()
_json = st.recursive(_scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=6)


@given(st.lists(_json, max_size=5) | st.dictionaries(st.sampled_from("abcde"), _json, max_size=5))
def test_untyped_functions_accept_exactly_what_python_accepts(params: Any) -> None:
    def function(a: Any, b: Any = 1, *, c: Any = 2) -> Any:
        return a, b, c

    is_list = isinstance(params, list)
    args, kwargs = (params, {}) if is_list else ([], params)
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        assert complaint(function, params)
    else:
        assert call(function, params) == function(*args, **kwargs)
