"""Declarations that cannot be served are refused when the service is loaded, in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from faircall.workers.errors import ServiceError
from faircall.workers.signature import declared_parameters

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


class Plain:
    pass


class Tree(msgspec.Struct):
    children: list[Tree]


class Holder(msgspec.Struct):
    inside: dict[str, Plain | None]


class Later(msgspec.Struct):
    """Named by an annotation before it exists."""


T = TypeVar("T")


def refusal(function: Callable[..., Any]) -> str:
    with pytest.raises(ServiceError) as caught:
        declared_parameters(function)
    return str(caught.value)


def test_annotations_are_evaluated_and_missing_ones_mean_anything() -> None:
    def function(a: int, b, *args: list[Tree], **kwargs: T) -> OnlyForCheckers:  # type: ignore[no-untyped-def]
        raise NotImplementedError

    kinds = [parameter.annotation for parameter in declared_parameters(function)]
    assert kinds == [int, Any, list[Tree], T]


@pytest.mark.parametrize(
    "kind", [Plain, list[Plain], Iterable[int], Holder, Callable[[int], int], complex]
)
def test_a_class_that_json_cannot_become_is_refused_by_name(kind: Any) -> None:
    def function(x: Any) -> None: ...

    function.__annotations__["x"] = kind
    text = refusal(function)
    assert "parameter `x`" in text
    assert "function" in text
    assert "cannot be read from JSON" in text


@pytest.mark.parametrize(
    "kind",
    [
        Tree,
        Later,
        Sequence[int],
        object,
        np.ndarray,
        NDArray[np.float32] | None,
        list[NDArray[Any]],
    ],
)
def test_recursive_generic_and_array_types_can_be_read(kind: Any) -> None:
    def function(x: Any) -> None: ...

    function.__annotations__["x"] = kind
    assert declared_parameters(function)[0].annotation == kind


def test_a_union_that_json_cannot_tell_apart_is_refused() -> None:
    def function(x: list[int] | list[str]) -> None: ...

    assert "more than one array-like" in refusal(function)


def test_a_name_that_does_not_exist_is_refused() -> None:
    def function(x: OnlyForCheckers) -> None: ...

    assert "annotations" in refusal(function)
    assert "OnlyForCheckers" in refusal(function)


def test_a_callable_without_a_signature_is_refused() -> None:
    assert "no signature" in refusal(range)
