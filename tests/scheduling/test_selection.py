from __future__ import annotations

import pytest

from faircall.scheduling.errors import NotBuilt, UnknownClass
from faircall.scheduling.selection import OURS, QUEUES, SCHEDULERS, Selection, select


def test_without_a_word_hadoop_uses_fifo_and_we_do_not() -> None:
    assert select({}, 8020) == Selection("LinkedBlockingQueue", "DefaultRpcScheduler", False)
    assert OURS.queue in QUEUES
    assert OURS.scheduler in SCHEDULERS


def test_a_port_s_fair_queue_brings_the_decay_scheduler() -> None:
    selected = select({"ipc.8020.callqueue.impl": "FairCallQueue"}, 8020)
    assert selected == Selection("FairCallQueue", "DecayRpcScheduler", False, True)


def test_a_user_s_own_classes_are_named_by_module() -> None:
    values = {"ipc.callqueue.impl": "collections:deque", "ipc.scheduler.impl": "fractions:Fraction"}
    assert select(values, 1) == Selection("collections:deque", "fractions:Fraction", False)


def test_a_class_that_does_not_exist_is_the_cause() -> None:
    with pytest.raises(NotBuilt) as refused:
        select({"ipc.8020.scheduler.impl": "DecayScheduler"}, 8020)
    assert isinstance(refused.value.__cause__, UnknownClass)


def test_both_names_of_the_history_scheduler_are_one_class() -> None:
    assert SCHEDULERS["HistoryBasedScheduler"] is SCHEDULERS["HistoryRpcScheduler"]
