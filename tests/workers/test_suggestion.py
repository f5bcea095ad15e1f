from __future__ import annotations

import json
import time

import pytest

from faircall.workers import suggestion
from faircall.workers.suggestion import unknown_method

KNOWN = ("add", "factorise", "text_statistics")


@pytest.fixture(autouse=True)
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestion, "_rests_until_ns", 0)


def message(wanted: str) -> str:
    error = json.loads(unknown_method(wanted, lambda: KNOWN))
    assert (error["code"], error["data"]["reason"]) == (-32601, "method_not_found")
    return str(error["message"])


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [("factorize", "factorise"), ("Add", "add"), ("text_statistic", "text_statistics")],
)
def test_the_nearest_name_is_suggested(wanted: str, meant: str) -> None:
    assert message(wanted) == f"Method not found: {wanted}; did you mean {meant}?"


@pytest.mark.parametrize("wanted", ["", "mandelbrot", "__class__"])
def test_a_name_like_no_other_is_only_not_found(wanted: str) -> None:
    assert message(wanted) == f"Method not found: {wanted}"


def test_a_long_name_is_cut_and_not_looked_for() -> None:
    assert message("factorise" * 20) == "Method not found: " + ("factorise" * 20)[:100] + "..."


def test_a_flood_of_wrong_names_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = iter([1000, 1100, 1101, 3099, 3100, 3200])
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now_ns))
    suggested = ["did you mean" in message("factorize") for _ in range(4)]
    assert suggested == [True, False, False, True]
