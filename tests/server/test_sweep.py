"""Decay, levels and their publication, over the shared arrays; time is handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from faircall.scheduling.decay_scheduler import DecayRpcScheduler
from faircall.scheduling.decay_settings import DecaySettings
from faircall.scheduling.identity import Caller
from faircall.server.config import Settings
from faircall.server.janitor.history_levels import HistoryLevels
from faircall.server.janitor.method_times import EVERY_NS, MethodTimes
from faircall.server.janitor.sweep import Sweep
from faircall.server.port import Port
from faircall.shm.columns import Counter
from faircall.shm.draws import SERVICE

from ..conftest import Load
from .supervised import SMALL

UNBOUNDED = "scheduler.service-users.max-share = 1.0"
PERIOD_NS = 5_000_000_000
Make = Callable[..., Port]


@pytest.fixture
def make(load: Load) -> Iterator[Make]:
    """A port with more settings under [ipc]."""
    ports: list[Port] = []

    def make_port(more: str = "") -> Port:
        settings = load(SMALL.replace("[limits]", f"{more}\n[limits]"))
        ports.append(Port(settings, settings.ports[0]))
        return ports[-1]

    yield make_port
    for port in ports:
        port.close()


def charge(port: Port, **costs: int) -> dict[str, int]:
    """Charge users, in the columns of several processes; their rows."""
    shared = port.shared
    rows = {user: shared.names.identity(user, 1) for user in costs}
    for user, cost in costs.items():
        for process, part in ((0, cost // 3), (1, cost - cost // 3)):
            shared.columns.charge(process, rows[user], part, part)
    return rows


def levels(port: Port, rows: dict[str, int]) -> dict[str, int]:
    return {user: port.shared.names.level(row) for user, row in rows.items()}


def at(port: Port, periods: float) -> int:
    return port.created_ns + int(periods * PERIOD_NS)


def test_a_level_follows_from_the_share_of_all_costs(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, heavy=6000, middle=2600, light=1300, rare=100)
    assert sweep.tick(at(port, 1))
    assert levels(port, rows) == {"heavy": 3, "middle": 2, "light": 1, "rare": 0}


def test_costs_decay_by_the_factor_and_keep_their_raw_sum(make: Make) -> None:
    port = make("decay-scheduler.decay-factor = 0.25")
    sweep = Sweep(port)
    (row,) = charge(port, alice=100).values()
    sweep.tick(at(port, 1))
    charge(port, alice=60)
    sweep.tick(at(port, 2))
    record = port.shared.names.identities.rows[row]
    assert int(record["decayed"]) == int((100 * 0.25 + 60) * 0.25)
    assert int(record["raw"]) == 160
    assert int(record["seen"]) == 160


def test_levels_are_those_of_the_scheduler_of_the_policies(make: Make) -> None:
    port = make("callqueue.newcomer-calls = 0\ndecay-scheduler.thresholds = [10, 30, 55]")
    sweep = Sweep(port)
    pure = DecayRpcScheduler(DecaySettings(levels=4, thresholds=[0.1, 0.3, 0.55]))
    random = np.random.default_rng(1)
    for period in range(1, 20):
        costs = {f"user{n}": int(random.integers(0, 50)) for n in range(12)}
        rows = charge(port, **costs)
        for user, cost in costs.items():
            pure.ledger.charge(user, cost)
        sweep.tick(at(port, period))
        pure.sweep()
        known = {user: pure.level_of(Caller(user)) for user in pure.ledger}
        assert {user: levels(port, rows)[user] for user in known} == known


def test_sweeps_that_were_missed_are_counted_and_not_replayed(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    (row,) = charge(port, alice=64).values()
    assert sweep.tick(at(port, 7.5))
    assert int(port.shared.names.identities.rows["decayed"][row]) == 32
    counted = [port.shared.columns.total(c) for c in (Counter.SWEEPS, Counter.SWEEPS_MISSED)]
    assert counted == [1, 6]


def test_a_successor_goes_on_in_the_same_beat(make: Make) -> None:
    port = make()
    assert Sweep(port).tick(at(port, 1))
    successor = Sweep(port)
    assert not successor.tick(at(port, 1.9))
    assert successor.tick(at(port, 2))


def test_service_users_are_level_0_and_nobodys_share(make: Make) -> None:
    port = make(f'decay-scheduler.service-users = ["robot"]\n{UNBOUNDED}')
    rows = charge(port, robot=1000, alice=6, bob=4)
    Sweep(port).tick(at(port, 1))
    assert levels(port, rows) == {"robot": 0, "alice": 3, "bob": 2}


def test_service_users_whose_share_is_bounded_are_in_their_lane(make: Make) -> None:
    """From the first look after their first call on, before any sweep."""
    port = make('decay-scheduler.service-users = ["robot"]')
    sweep, lane = Sweep(port), port.shared.geometry.levels + SERVICE
    rows = charge(port, robot=9000, heavy=90, rare=10)
    assert not sweep.tick(at(port, 0.5))
    assert levels(port, rows)["robot"] == lane
    sweep.tick(at(port, 1))
    assert levels(port, rows) == {"robot": lane, "heavy": 3, "rare": 0}
    port.refresh(_with(port, service_users_max_share=1.0))
    sweep.refresh()
    assert levels(port, rows) == {"robot": 0, "heavy": 3, "rare": 0}


def test_service_users_stay_in_their_lane_during_a_sweep(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = make('decay-scheduler.service-users = ["robot"]')
    sweep, lane = Sweep(port), port.shared.geometry.levels + SERVICE
    rows = charge(port, robot=9000, heavy=90)
    sweep.tick(at(port, 1))
    seen, unswept_begin = [], sweep._unswept.begin

    def begin(found: npt.NDArray[np.uint8]) -> None:
        seen.append(levels(port, rows)["robot"])
        unswept_begin(found)

    monkeypatch.setattr(sweep._unswept, "begin", begin)
    sweep.tick(at(port, 2))
    assert seen == [lane]


def _with(port: Port, **scheduler: object) -> Settings:
    ipc = replace(port.ipc, scheduler=replace(port.ipc.scheduler, **scheduler))  # type: ignore[arg-type]
    return replace(port.settings, ports={ipc.port: ipc})


def test_without_a_scheduler_costs_are_kept_and_all_are_level_0(make: Make) -> None:
    port = make('scheduler.impl = "DefaultRpcScheduler"')
    rows = charge(port, alice=100)
    Sweep(port).tick(at(port, 1))
    assert levels(port, rows) == {"alice": 0}
    assert int(port.shared.names.identities.rows["decayed"][rows["alice"]]) == 50


def test_a_row_made_during_a_sweep_begins_without_costs(make: Make) -> None:
    port = make()
    rows = charge(port, alice=100)
    Sweep(port).tick(at(port, 1))
    port.shared.names.evict(list(rows.values()))
    again = port.shared.names.identity("bob", 1)
    assert again == rows["alice"]
    Sweep(port).tick(at(port, 2))
    assert int(port.shared.names.identities.rows["decayed"][again]) == 0


def test_what_is_taken_back_after_a_sweep_leaves_no_credit(make: Make) -> None:
    port = make()
    sweep, columns = Sweep(port), port.shared.columns
    rows = charge(port, long=1000, other=100)
    record = port.shared.names.identities.rows
    sweep.tick(at(port, 1))
    columns.charge(2, rows["long"], -990, 0)  # it cost 10: more goes back than decay has left
    sweep.tick(at(port, 2))
    assert int(record["decayed"][rows["long"]]) == 0
    assert int(record["raw"][rows["long"]]) == 10
    assert levels(port, rows) == {"long": 0, "other": 3}
    columns.charge(0, rows["long"], 400)
    columns.charge(2, rows["long"], -300, 0)
    sweep.tick(at(port, 3))
    assert int(record["decayed"][rows["long"]]) == 50


# -- history -------------------------------------------------------------------------------------


def test_the_history_scheduler_counts_the_last_calls(make: Make) -> None:
    port = make(
        'scheduler.impl = "HistoryRpcScheduler"\nhistory-scheduler.history-length = 100\n'
        "history-scheduler.thresholds = [10, 40, 75]"
    )
    sweep = Sweep(port)
    sweep.tick(1)
    rows = charge(port, heavy=80, light=15, rare=5)
    sweep.tick(2)
    assert levels(port, rows) == {"heavy": 3, "light": 1, "rare": 0}
    charge(port, light=90)
    sweep.tick(3)
    assert levels(port, rows) == {"heavy": 0, "light": 3, "rare": 0}


def test_a_window_holds_its_length_and_forgets_the_oldest_first() -> None:
    history = HistoryLevels(3, 10, [1, 5])
    totals = np.zeros(3, np.uint64)
    history.follow(totals, [])
    for row, calls in ((0, 4), (1, 5), (2, 3), (0, 1)):
        totals = totals.copy()
        totals[row] += calls
        history.follow(totals, [])
    assert history.counts.tolist() == [2, 5, 3]
    assert history.counts.sum() == 10


def test_service_calls_do_not_fill_the_window_and_silence_changes_nothing() -> None:
    history = HistoryLevels(2, 10, [1])
    history.follow(np.array([0, 0], np.uint64), [1])
    levels = history.follow(np.array([1, 9], np.uint64), [1])
    assert levels is not None
    assert levels.tolist() == [1, 0]
    assert history.follow(np.array([1, 20], np.uint64), [1]) is None


# -- method times --------------------------------------------------------------------------------


def ran(port: Port, row: int, *spent_ns: int) -> None:
    for number, spent in enumerate(spent_ns):
        port.shared.columns.ran(number % 2, row, spent, failed=False)


def test_the_expected_time_decays_while_calls_are_quick_and_never_below_their_mean(
    make: Make,
) -> None:
    port = make()
    names = port.shared.names
    row = names.method("work", 0, 0)
    record = names.methods.rows
    times = MethodTimes(port.shared)
    record["expected_ns"][row] = 1000
    seen = []
    for second in range(1, 31):
        ran(port, row, 100, 300)
        assert times.tick(second * EVERY_NS)
        seen.append(int(record["expected_ns"][row]))
    assert seen[:3] == [900, 810, 729]
    assert seen[-1] == 200
    assert int(record["mean_ns"][row]) == 200


def test_what_does_not_run_keeps_its_times(make: Make) -> None:
    port = make()
    row = port.shared.names.method("work", 0, 0)
    times = MethodTimes(port.shared)
    record = port.shared.names.methods.rows
    record["expected_ns"][row], record["mean_ns"][row] = 1000, 500
    for second in range(1, 5):
        times.tick(second * EVERY_NS)
    assert (int(record["expected_ns"][row]), int(record["mean_ns"][row])) == (1000, 500)


def test_the_mean_follows_by_halves_once_a_second(make: Make) -> None:
    port = make()
    row = port.shared.names.method("work", 0, 0)
    times = MethodTimes(port.shared)
    means = []
    for second, spent_ns in ((1, 800), (2, 400), (2.5, 9000), (3.5, 400)):
        ran(port, row, spent_ns)
        times.tick(int(second * EVERY_NS))
        means.append(int(port.shared.names.methods.rows["mean_ns"][row]))
    assert means == [800, 600, 600, (600 + 4700) // 2]


def test_the_mean_cost_follows_in_the_same_way_and_may_be_below_zero(make: Make) -> None:
    port = make()
    row = port.shared.names.method("work", 0, 0)
    times, means = MethodTimes(port.shared), []
    for second, cost in ((1, 800), (2, 400), (3, -1000)):
        ran(port, row, 1, 1)
        for number in range(2):
            port.shared.columns.cost(number, row, cost)
        times.tick(second * EVERY_NS)
        means.append(port.shared.names.methods.rows["mean_cost"][row].astype(np.int64))
    assert means == [800, 600, -200]
