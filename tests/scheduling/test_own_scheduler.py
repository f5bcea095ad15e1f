"""Classes of one's own that give levels: how they are made, and what is done with their answers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from faircall.scheduling.conf import Conf
from faircall.scheduling.errors import BadValue, NotBuilt
from faircall.scheduling.own_scheduler import level_scheduler, within

CONF = Conf({"ipc.8020.decay-scheduler.period-ms": "250"}, "ipc.8020")


class Settled:
    """Made from settings, though its constructor would do, too."""

    def __init__(self, period_ms: int) -> None:
        self.made_with = period_ms

    @classmethod
    def from_conf(cls, conf: Conf) -> Settled:
        return cls(conf.integer("decay-scheduler.period-ms", 0))

    def levels(self, costs: object, calls: object, names: object) -> list[int]:
        return []


class Counted:
    def __init__(self, levels: int) -> None:
        self.made_with = levels

    def levels(self, costs: object, calls: object, names: object) -> list[int]:
        return []


class Plain:
    made_with = 0

    def levels(self, costs: object, calls: object, names: object) -> list[int]:
        return []


class Greedy(Plain):
    def __init__(self, levels: int, more: str) -> None:
        raise AssertionError


class NoLevels:
    levels = 3


@pytest.mark.parametrize(("name", "made_with"), [("Settled", 250), ("Counted", 4), ("Plain", 0)])
def test_it_is_made_from_what_it_takes(name: str, made_with: int) -> None:
    made = level_scheduler(f"{__name__}:{name}", 4, CONF)
    assert type(made).__name__ == name
    assert made.made_with == made_with  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("no.such.module:Thing", "No module named 'no'"),
        (f"{__name__}:Absent", "has no attribute 'Absent'"),
        (f"{__name__}:CONF", "is not a class"),
        (f"{__name__}:NoLevels", "has no method levels()"),
        (f"{__name__}:Greedy", "no usable constructor"),
    ],
)
def test_what_is_no_scheduler_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(NotBuilt, match=complaint.replace("(", r"\(").replace(")", r"\)")):
        level_scheduler(name, 4, CONF)


@pytest.mark.parametrize(
    "answer",
    [[-5, 0, 3, 99], np.array([-128, 0, 3, 127], np.int8), np.array([0, 0, 3, 2**64 - 1], "u8")],
)
def test_levels_are_clamped_to_those_that_there_are(answer: npt.ArrayLike) -> None:
    clamped = within(answer, 4, 4)
    assert clamped.tolist() == [0, 0, 3, 3]
    assert clamped.dtype == np.int64


def test_truths_are_levels_0_and_1() -> None:
    assert within(np.array([True, False]), 2, 4).tolist() == [1, 0]
    assert within(np.array([True, False]), 2, 1).tolist() == [0, 0]


@pytest.mark.parametrize("answer", [[0, 1], [0.0, 1.0, 2.0], [math.nan] * 3, None, 1, [[0, 1, 2]]])
def test_anything_else_is_refused(answer: npt.ArrayLike) -> None:
    with pytest.raises(BadValue, match="must give 3 integers"):
        within(answer, 3, 4)
