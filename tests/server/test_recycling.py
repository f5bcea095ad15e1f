"""When a handler is due to be followed by another."""

from __future__ import annotations

import mmap
import os

import pytest

from faircall.server.config_processes import Handlers
from faircall.server.supervisor.recycling import MIB, SECOND_NS, Spent, own_bytes, why_due


def limits(**given: float) -> Handlers:
    every = {"max_calls": 0, "max_age_s": 0, "max_rss_mib": 0, "recycle_jitter": 0.0}
    fixed = {"count": 1, "express": 0, "blas_threads": 1}
    return Handlers(**{**every, **fixed, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "spent", "why"),
    [
        ({"max_calls": 10}, Spent(9, 0, 0), ""),
        ({"max_calls": 10}, Spent(10, 0, 0), "10 calls (handlers.max-calls)"),
        ({"max_age_s": 60}, Spent(0, 60 * SECOND_NS - 1, 0), ""),
        ({"max_age_s": 60}, Spent(0, 60 * SECOND_NS, 0), "60 s old (handlers.max-age-s)"),
        ({"max_rss_mib": 64}, Spent(0, 0, 64 * MIB - 1), ""),
        ({"max_rss_mib": 64}, Spent(0, 0, 64 * MIB), "64 MiB (handlers.max-rss-mib)"),
        ({}, Spent(1 << 40, 1 << 60, 1 << 50), ""),
    ],
)
def test_each_limit_by_itself(given: dict[str, float], spent: Spent, why: str) -> None:
    assert why_due(limits(**given), spent, luck=0.0) == why


def test_chance_lowers_calls_and_age_but_not_memory() -> None:
    calls, age = (
        limits(max_calls=100, recycle_jitter=0.5),
        limits(max_age_s=100, recycle_jitter=0.5),
    )
    assert not why_due(calls, Spent(74, 0, 0), luck=0.5)
    assert why_due(calls, Spent(75, 0, 0), luck=0.5)
    assert not why_due(age, Spent(0, 74 * SECOND_NS, 0), luck=0.5)
    assert why_due(age, Spent(0, 75 * SECOND_NS, 0), luck=0.5)
    assert not why_due(limits(max_rss_mib=100, recycle_jitter=0.5), Spent(0, 0, 99 * MIB), luck=1.0)


def test_own_memory_grows_with_what_a_process_takes() -> None:
    before = own_bytes(os.getpid())
    with mmap.mmap(-1, 32 * MIB, flags=mmap.MAP_PRIVATE) as taken:  # of no allocator's stock
        taken.write(bytes(range(256)) * (32 * MIB // 256))
        assert own_bytes(os.getpid()) - before > 24 * MIB
    assert own_bytes(0) == 0
