from __future__ import annotations

from typing import NamedTuple

import pytest

from faircall.scheduling.admission import Admission
from faircall.scheduling.call_queue import CallQueue, Parts, failover_enabled, priority_levels
from faircall.scheduling.conf import Conf
from faircall.scheduling.errors import BadValue
from faircall.scheduling.queues import FairCallQueue, LinkedBlockingQueue, QueueSettings
from faircall.scheduling.scheduler import DefaultRpcScheduler


class Call(NamedTuple):
    number: int
    level: int = 0
    identity: str = "a"


class Strict(DefaultRpcScheduler):
    """Backs off everything but level 0."""

    def backs_off(self, level: int) -> bool:
        return level > 0


def parts(capacity: int, *, failover: bool = False) -> Parts[Call]:
    """A plain queue under the strict scheduler."""
    return Parts(LinkedBlockingQueue(capacity), Strict(), failover)


def test_policy_refuses_only_while_back_off_is_enabled() -> None:
    calls = CallQueue(parts(9))
    assert calls.put(Call(1, level=1)) is Admission.QUEUED
    assert calls.add(Call(2, level=1)) is Admission.QUEUED
    calls.backoff = True
    assert calls.put(Call(3, level=1)) is Admission.DISCONNECT
    assert calls.add(Call(4, level=1)) is Admission.DISCONNECT
    assert calls.offer(Call(5, level=1))
    assert calls.put(Call(6)) is Admission.QUEUED


@pytest.mark.parametrize(
    ("failover", "form"), [(False, Admission.DISCONNECT), (True, Admission.FAILOVER)]
)
def test_a_full_queue_blocks_or_refuses(failover: bool, form: Admission) -> None:
    calls = CallQueue(parts(1, failover=failover))
    assert calls.put(Call(1)) is Admission.QUEUED
    assert calls.put(Call(2)) is Admission.BLOCKED
    calls.backoff = True
    assert calls.put(Call(3)) is form
    assert not calls.offer(Call(4))


def test_a_swap_neither_loses_nor_reorders_a_call() -> None:
    calls = CallQueue(parts(9))
    old = calls.scheduler
    for number in range(3):
        calls.put(Call(number))
    assert not calls.swap(parts(9))
    assert calls.scheduler is old
    for number in range(3, 6):
        calls.put(Call(number))
    assert [call.number for call in iter(calls.poll, None)] == [0, 1, 2, 3, 4, 5]
    assert calls.scheduler is not old


def test_a_swap_of_an_idle_queue_is_done_at_once() -> None:
    calls = CallQueue(parts(9))
    assert calls.swap(parts(5))
    assert calls.taking is calls.putting


def test_the_deprecated_number_of_levels_wins_unless_it_is_zero() -> None:
    values = {"ipc.faircallqueue.priority-levels": "2", "ipc.scheduler.priority.levels": "3"}
    assert priority_levels(Conf(values)) == 2
    assert priority_levels(Conf(values | {"ipc.faircallqueue.priority-levels": "0"})) == 3
    assert priority_levels(Conf({})) == 4
    with pytest.raises(BadValue):
        priority_levels(Conf({"ipc.scheduler.priority.levels": "-1"}))


def test_fail_over_is_a_port_s_setting_or_everyone_s() -> None:
    key = "callqueue.overflow.trigger.failover"
    assert failover_enabled(Conf({f"ipc.{key}": "true"}, "ipc.8020"))
    assert not failover_enabled(Conf({f"ipc.{key}": "true", f"ipc.8020.{key}": "no"}, "ipc.8020"))


def test_the_configuration_of_the_guide_s_example() -> None:
    values = {
        "ipc.8020.scheduler.priority.levels": "2",
        "ipc.8020.faircallqueue.multiplexer.weights": "99,1",
        "ipc.8020.decay-scheduler.thresholds": "90",
        "ipc.8020.callqueue.capacity.weights": "7,3",
    }
    built: Parts[Call] = Parts.from_conf(
        Conf(values, "ipc.8020"), FairCallQueue, DefaultRpcScheduler, 100
    )
    assert built.queue.capacities == [70, 30]
    assert isinstance(built.queue, FairCallQueue)
    assert built.queue.settings == QueueSettings(
        levels=2, capacity=100, capacity_weights=[7, 3], conf=Conf(values, "ipc.8020")
    )
