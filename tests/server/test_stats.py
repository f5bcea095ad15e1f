"""What a port has counted, read from words that the tests store."""

from __future__ import annotations

from typing import Any

import pytest

from faircall.server.admin import queues, stats
from faircall.server.admin.queues import policy_in_force
from faircall.server.admin.stats import PortStats
from faircall.server.port import Port
from faircall.shm.columns import Counter
from faircall.shm.mutex import RobustMutex
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import Life, Phase

from ..conftest import Load
from .small_port import Traffic, small_port

SECOND_NS = 1_000_000_000


def snapshot(port: Port, now_ns: int | None = None) -> dict[str, Any]:
    at_ns = port.created_ns + 10 * SECOND_NS if now_ns is None else now_ns
    return PortStats(port, port.created_ns).snapshot(at_ns)


def by_name(rows: list[dict[str, Any]], name: str) -> dict[Any, dict[str, Any]]:
    return {row[name]: row for row in rows}


# -- the port and its queue -----------------------------------------------------------------------


def test_a_port_says_where_it_is_and_for_how_long(port: Port) -> None:
    port.shared.phase.set(Phase.RUNNING, 0)
    found = snapshot(port, port.created_ns + 1_500_000_000)
    assert (found["port"], found["addresses"]) == (0, port.addresses())
    assert (found["phase"], found["uptime_s"]) == ("RUNNING", 1.5)


def test_the_queue_is_shown_level_by_level(port: Port, traffic: Traffic) -> None:
    traffic.offer("spin", "alice", level=0)
    traffic.offer("add", "bob", level=2)
    traffic.offer("resize", "bob", level=2)
    queue = snapshot(port)["queue"]
    assert (queue["impl"], queue["scheduler"]) == ("FairCallQueue", "DecayRpcScheduler")
    assert (queue["waiting"], queue["held"], queue["drawn"]) == (3, 0, 0)
    assert [level["waiting"] for level in queue["levels"]] == [1, 0, 2, 0]
    assert [level["weight"] for level in queue["levels"]] == [8, 4, 2, 1]
    assert [level["capacity"] for level in queue["levels"]] == [16] * 4


def test_the_levels_count_the_users_that_the_last_sweep_put_there(
    port: Port, traffic: Traffic
) -> None:
    rows = port.shared.names.identities.rows
    for name, level in (("alice", 0), ("bob", 3), ("carol", 3), ("dave", 9)):
        rows["level"][traffic.user(name)] = level
    callers = [level["callers"] for level in snapshot(port)["queue"]["levels"]]
    assert callers == [1, 0, 0, 3]  # a level that is no more counts as the last one


def test_a_policy_that_changes_while_it_is_read_is_read_again(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, changes = port.shared.table.blocks, 2
    read = blocks.read

    def read_late(version: int) -> QueuePolicy:
        nonlocal changes
        found = read(version)
        if changes:
            changes -= 1
            blocks.write(QueuePolicy(weights=(changes + 1,), capacities=(7,)))
        return found

    monkeypatch.setattr(blocks, "read", read_late)
    assert policy_in_force(port.shared).weights == (1,)
    changes = queues.READ_AT_MOST
    with pytest.raises(RuntimeError, match="changed 100 times"):
        policy_in_force(port.shared)


# -- counters -------------------------------------------------------------------------------------


def test_every_counter_is_shown_once() -> None:
    groups = (stats.TOTALS, stats.REFUSED, stats.CONNECTIONS, stats.SWEEPS)
    shown = [counter for group in groups for counter in group.values()]
    assert len(shown) == len(set(shown))
    assert set(Counter) - set(shown) == {Counter.BUSY_NS}  # shown as each handler's share


def test_counters_are_summed_over_all_processes_there_were(port: Port) -> None:
    add = port.shared.columns.add
    add(port.shared.index("reader"), Counter.CALLS, 5)
    add(port.shared.index("reader"), Counter.REFUSED_PRINCIPAL, 2)
    add(port.shared.index("handler", 0), Counter.RUN, 3)
    add(port.shared.index("handler", 1), Counter.RUN, 4)
    add(port.shared.index("janitor"), Counter.SWEEPS_MISSED, 6)
    port.shared.row("reader")["connections"] = 9
    found = snapshot(port)
    assert (found["totals"]["calls"], found["totals"]["run"]) == (5, 7)
    assert found["totals"]["refused"]["too_many_in_flight"] == 2
    assert found["totals"]["connections"]["now"] == 9
    assert found["sweeps"] == {"done": 0, "missed": 6}


def test_rates_are_those_of_the_last_ten_seconds(port: Port) -> None:
    begin_ns, reader = port.created_ns, port.shared.index("reader")
    counted = PortStats(port, begin_ns)
    for second in range(1, 31):
        port.shared.columns.add(reader, Counter.CALLS, 100 if second > 20 else 1)
        counted.tick(begin_ns + second * SECOND_NS)
    rates = counted.snapshot(begin_ns + 30 * SECOND_NS)["rates"]
    assert rates == {"window_s": 9.0, "calls_per_s": 100.0, "answered_per_s": 0.0}


# -- methods, handlers, processes, memory ---------------------------------------------------------


def test_methods_show_mean_and_maximum_over_all_handlers(port: Port) -> None:
    shared = port.shared
    spin, add = (shared.names.method(name, 0, 0) for name in ("spin", "add"))
    shared.names.method("(undecoded)", 0, 0)
    shared.columns.ran(0, spin, 1_000_000, False)
    shared.columns.ran(1, spin, 3_000_000, True)
    shared.names.methods.rows["expected_ns"][add] = 500_000
    assert snapshot(port)["methods"] == [
        {
            "method": "spin",
            "calls": 2,
            "failed": 1,
            "died": 0,
            "mean_ms": 2.0,
            "max_ms": 3.0,
            "expected_ms": None,
        },
        {
            "method": "add",
            "calls": 0,
            "failed": 0,
            "died": 0,
            "mean_ms": None,
            "max_ms": None,
            "expected_ms": 0.5,
        },
    ]


def test_a_run_that_ended_with_its_handler_is_a_failed_call_without_a_time(port: Port) -> None:
    shared = port.shared
    spin = shared.names.method("spin", 0, 0)
    shared.columns.ran(0, spin, 1_000_000, False)
    shared.columns.died(1, spin, 7)
    found = snapshot(port)
    (row,) = found["methods"]
    assert (row["calls"], row["failed"], row["mean_ms"]) == (2, 1, 1.0)
    assert [(h["calls"], h["failed"]) for h in found["handlers"]] == [(0, 0), (1, 1)]


def test_times_are_in_the_unit_of_the_settings_and_say_so(load: Load) -> None:
    with small_port(load, "[rpc]\nmetrics.timeunit = 'MICROSECONDS'\n") as port:
        shared = port.shared
        shared.columns.ran(0, shared.names.method("spin", 0, 0), 1_500, False)
        (spin,) = snapshot(port)["methods"]
    assert (spin["mean_us"], spin["max_us"]) == (1.5, 1.5)


def test_a_handler_shows_what_it_runs_for_whom_and_how_long(port: Port, traffic: Traffic) -> None:
    now_ns = port.created_ns + 5 * SECOND_NS
    for number in range(2):
        row = port.shared.row("handler", number)
        row.prepare(port.created_ns)
        row.enter()
        row["status"] = Life.READY
    traffic.offer("resize", "alice")
    traffic.begin(1, now_ns - 2 * SECOND_NS)
    idle, busy = snapshot(port, now_ns)["handlers"]
    assert (idle["state"], idle["method"], idle["busy_share"]) == ("idle", None, 0.0)
    assert (busy["state"], busy["method"], busy["user"]) == ("running", "resize", "alice")
    assert (busy["age_ms"], busy["busy_share"]) == (2000, 0.4)


def test_processes_show_their_age_and_how_often_they_were_replaced(port: Port) -> None:
    row = port.shared.row("handler", 1)
    for started_ns in (0, port.created_ns + SECOND_NS):
        row.prepare(started_ns)
    row.enter()
    (shown,) = snapshot(port, port.created_ns + 3 * SECOND_NS)["processes"]
    assert (shown["role"], shown["index"], shown["pid"]) == ("handler", 1, row["pid"])
    assert (shown["age_s"], shown["restarts"], shown["status"]) == (2.0, 1, "STARTING")


def test_the_segment_shows_its_slots_and_pages(port: Port, traffic: Traffic) -> None:
    traffic.offer("spin", "alice")
    segment, geometry = snapshot(port)["segment"], port.shared.geometry
    assert segment["slots"] == {"FREE": geometry.calls - 1, "QUEUED": 1}
    assert segment["pages"][0]["pages"] - segment["pages"][0]["free"] == 1
    assert segment["bytes"] == port.shared.segment.layout.total_bytes


def test_a_snapshot_takes_no_lock(
    port: Port, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic.offer("spin", "alice")
    traffic.begin(0, port.created_ns)
    taken: list[RobustMutex] = []
    monkeypatch.setattr(RobustMutex, "__enter__", lambda lock: taken.append(lock))
    snapshot(port)
    assert taken == []
    port.shared.names.lock.__enter__()
    assert taken == [port.shared.names.lock], "the trap does not work"
