"""The switches of dispatch throttling."""

from __future__ import annotations

import pytest

from faircall.scheduling.dispatch_settings import (
    CountedBytes,
    DispatchSettings,
    counted_calls,
    has_backlog,
)
from faircall.scheduling.errors import BadValue


@pytest.mark.parametrize(
    ("counted", "charged"),
    [(CountedBytes.REQUEST, 100), (CountedBytes.ANSWER, 7), (CountedBytes.BOTH, 107)],
)
def test_bytes_are_those_of_the_request_the_answer_or_both(
    counted: CountedBytes, charged: int
) -> None:
    assert counted.of(100, 7) == charged


def test_precise_reads_and_counting_batches_exclude_each_other() -> None:
    with pytest.raises(BadValue, match="mutually exclusive: turn one of them off"):
        DispatchSettings(precise=True, on_batch_message=True)


def test_a_negative_threshold_is_refused() -> None:
    with pytest.raises(BadValue, match="backlog-threshold = -1"):
        DispatchSettings(backlog_threshold=-1)


def test_a_batch_counts_as_its_calls_or_as_one() -> None:
    assert counted_calls(25, on_batch_message=False) == 25
    assert counted_calls(25, on_batch_message=True) == 1


def test_a_backlog_begins_above_the_threshold_and_lasts_until_the_queue_is_empty() -> None:
    seen, had = [], False
    for waiting in (0, 1, 2, 1, 0, 1):
        had = has_backlog(had, waiting, 1)
        seen.append(had)
    assert seen == [False, False, True, True, False, False]
