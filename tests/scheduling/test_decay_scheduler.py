from __future__ import annotations

import pytest

from faircall.scheduling import decay, summary
from faircall.scheduling.conf import Conf
from faircall.scheduling.cost import NO_TIMES, PhaseTimes, WeightedTimeCostProvider
from faircall.scheduling.decay_scheduler import DecayRpcScheduler
from faircall.scheduling.decay_settings import Charge, DecaySettings
from faircall.scheduling.errors import BadValue
from faircall.scheduling.identity import Caller

ALICE, BOB = Caller("alice"), Caller("bob")
MS = 1_000_000


def counted(charge: Charge = "arrival") -> DecayRpcScheduler:
    """A scheduler that counts calls."""
    return DecayRpcScheduler(DecaySettings(levels=4, charge=charge))


def test_a_count_is_charged_on_arrival_and_not_again() -> None:
    scheduler = counted()
    charged = scheduler.arrive(ALICE)
    assert scheduler.ledger.cost("alice") == 1
    scheduler.complete(ALICE, 0, NO_TIMES, charged)
    assert scheduler.ledger.cost("alice") == 1


def test_a_refused_call_stays_charged() -> None:
    scheduler = counted()
    for _ in range(8):
        scheduler.arrive(ALICE)
    scheduler.sweep()
    assert (scheduler.level_of(ALICE), scheduler.level_of(BOB)) == (3, 0)


def test_hadoop_s_rule_charges_on_completion_only() -> None:
    scheduler = counted("completion")
    charged = scheduler.arrive(ALICE)
    assert (charged, len(scheduler.ledger)) == (0, 0)
    scheduler.complete(ALICE, 0, NO_TIMES, charged)
    assert scheduler.ledger.cost("alice") == 1


def test_a_time_is_reserved_on_arrival_and_settled_on_completion() -> None:
    settings = DecaySettings(levels=4, cost_provider=WeightedTimeCostProvider())
    scheduler = DecayRpcScheduler(settings)
    charged = scheduler.arrive(ALICE, expected_cost=500)
    assert scheduler.ledger.cost("alice") == 500
    scheduler.complete(ALICE, 0, PhaseTimes.of({"lockfree": 20}), charged)
    assert scheduler.ledger.cost("alice") == 20


def test_sweeps_are_timed_from_the_first_tick_and_missed_ones_counted() -> None:
    scheduler = counted()
    start = 7 * MS
    assert not scheduler.tick(start)
    for _ in range(8):
        scheduler.arrive(ALICE)
    assert not scheduler.tick(start + 4999 * MS)
    assert scheduler.tick(start + 5000 * MS)
    assert scheduler.ledger.cost("alice") == 4
    assert scheduler.tick(start + 22_000 * MS)
    assert (scheduler.ledger.cost("alice"), scheduler.missed_sweeps) == (2, 2)
    assert not scheduler.tick(start + 24_999 * MS)
    assert scheduler.tick(start + 25_000 * MS)


def test_a_user_that_stops_recovers_when_the_arithmetic_says_so() -> None:
    scheduler = counted()
    for _ in range(1000):
        scheduler.arrive(ALICE)
    sweeps = 0
    while scheduler.level_of(ALICE) > 0:
        for _ in range(100):
            scheduler.arrive(BOB)
        scheduler.sweep()
        sweeps += 1
    alice, bob, expected = 1000, 0, 0
    while alice / (alice + bob) >= 0.125:
        alice, bob, expected = int(alice * 0.5), int((bob + 100) * 0.5), expected + 1
    assert sweeps == expected == decay.sweeps_until(1000, alice, 0.5)


def test_a_level_is_the_sweep_s_until_the_next_sweep() -> None:
    scheduler = counted()
    for caller, count in ((ALICE, 90), (BOB, 10)):
        for _ in range(count):
            scheduler.arrive(caller)
    scheduler.sweep()
    for _ in range(1000):
        scheduler.arrive(BOB)
    assert (scheduler.level_of(ALICE), scheduler.level_of(BOB)) == (3, 0)
    assert scheduler.level_of(Caller("carol")) == 0
    scheduler.sweep()
    assert (scheduler.level_of(ALICE), scheduler.level_of(BOB)) == (0, 3)


@pytest.mark.parametrize(
    "bad",
    [
        {"levels": 0},
        {"levels": 2, "factor": 1.0},
        {"levels": 2, "period_ms": 0},
        {"levels": 2, "thresholds": [0.1, 0.2]},
        {"levels": 2, "backoff_thresholds_ms": [1]},
        {"levels": 2, "backoff_thresholds_ms": [1, 0]},
        {"levels": 2, "top_users": 0},
    ],
)
def test_settings_out_of_bounds_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadValue):
        DecaySettings(**bad)  # type: ignore[arg-type]


def test_our_two_keys_take_their_words_only() -> None:
    keys = ("decay-scheduler.charge", "decay-scheduler.backoff.responsetime.mode")
    words = ("completion", "hadoop")
    values = {f"ipc.{key}": word for key, word in zip(keys, words, strict=True)}
    settings = DecaySettings.from_conf(4, Conf(values))
    assert (settings.charge, settings.backoff_mode) == words
    default = DecaySettings.from_conf(4, Conf({}))
    assert (default.charge, default.backoff_mode) == ("arrival", "guide")
    for key in keys:
        with pytest.raises(BadValue, match=key):
            DecaySettings.from_conf(4, Conf({f"ipc.{key}": "sometimes"}))


def test_the_heaviest_users_are_listed_by_raw_cost_then_name() -> None:
    scheduler = DecayRpcScheduler(DecaySettings(levels=2, top_users=3))
    for name, count in (("d", 5), ("b", 7), ("a", 5), ("c", 5)):
        for _ in range(count):
            scheduler.arrive(Caller(name))
    assert summary.top_users(scheduler) == [("b", 7), ("a", 5), ("c", 5)]
