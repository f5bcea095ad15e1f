"""Who does how much, from words that the tests store."""

from __future__ import annotations

import pytest

from faircall.server.admin.user_list import SORTS, UserList
from faircall.server.janitor.sweep import Sweep
from faircall.server.port import Port
from faircall.server.user_rows import UserRows
from faircall.shm.columns import Counter
from faircall.shm.mutex import RobustMutex

from .small_port import Traffic

SECOND_NS = 1_000_000_000


def test_rates_are_what_a_row_gained_in_the_last_ten_seconds(port: Port, traffic: Traffic) -> None:
    start_ns = port.created_ns
    traffic.user("alice", 5000)
    users = UserList(port, start_ns)
    for second in range(1, 16):
        traffic.user("alice", 40)
        port.shared.columns.refused(0, traffic.user("alice"))
        port.shared.columns.add(0, Counter.CALLS)
        users.tick(start_ns + second * SECOND_NS)
    (alice,) = users.snapshot(start_ns + 15 * SECOND_NS)["top"]
    assert (alice["cost_per_s"], alice["calls_per_s"], alice["refused_per_s"]) == (40, 2, 1)


def test_a_rest_counts_as_time_though_no_rows_are_read(
    port: Port, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds in which nothing is counted are a rest; what comes then is averaged over them."""
    at_ns = port.created_ns
    users, read = UserList(port, at_ns), list[int]()
    rows = users.rows

    def noted() -> UserRows:
        read.append(at_ns)
        return rows()

    monkeypatch.setattr(users, "rows", noted)

    def second(cost: int) -> None:
        nonlocal at_ns
        at_ns += SECOND_NS
        if cost:
            traffic.user("alice", cost)
            port.shared.columns.add(0, Counter.CALLS)
        users.tick(at_ns)

    second(50)
    assert (len(read), users.rests) == (1, False)
    for _ in range(9):
        second(0)
    assert not users.rests, "the sample with the call is within the window still"
    second(0)
    assert (len(read), users.rests) == (1, True)
    second(30)
    assert (len(read), users.rests) == (2, False)
    (alice,) = users.snapshot(at_ns)["top"]
    assert (alice["cost_per_s"], alice["calls_per_s"]) == (3.3, 0.1)


def test_a_row_that_went_to_another_counts_from_its_beginning(port: Port, traffic: Traffic) -> None:
    row = traffic.user("alice", 5000)
    users = UserList(port, port.created_ns)
    port.shared.names.evict([row])
    assert traffic.user("bob", 30) == row
    found = users.snapshot(port.created_ns + SECOND_NS)
    (bob,) = found["top"]
    assert (bob["user"], bob["cost_per_s"], bob["calls_per_s"]) == ("bob", 30, 1)
    assert found["total"]["cost_per_s"] == 30


def test_totals_do_not_go_back_when_a_row_is_evicted(port: Port, traffic: Traffic) -> None:
    row = traffic.user("alice", 5000)
    traffic.user("bob", 30)
    port.shared.columns.refused(0, row)
    users = UserList(port, port.created_ns)
    before = users.rows()
    Sweep(port).tick(port.created_ns + 5 * SECOND_NS)
    port.shared.names.evict([row])
    after = users.rows()
    for figures in ("cost", "calls", "refused"):
        sums = [int(getattr(rows, figures).sum()) for rows in (before, after)]
        assert sums[0] == sums[1] > 0, figures
    assert after.volumes()["ever"] == 5030
    found = users.snapshot(port.created_ns + 6 * SECOND_NS, top=1)
    assert [user["user"] for user in found["top"]] == ["bob"]
    assert (found["others"]["calls"], found["others"]["users"]) == (1, 0)


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("share", "alice"),
        ("cost", "bob"),
        ("calls", "carol"),
        ("waiting", "dave"),
        ("refused", "erin"),
    ],
)
def test_it_is_sorted_by_what_is_asked_for(
    port: Port, traffic: Traffic, sort: str, first: str
) -> None:
    columns = port.shared.columns
    for name, cost in (("alice", 500), ("carol", 1), ("dave", 1), ("erin", 1)):
        traffic.user(name, cost)
    users = UserList(port, port.created_ns)
    traffic.user("bob", 200)
    columns.charge(0, traffic.user("carol"), 2, 50)
    columns.refused(0, traffic.user("erin"))
    traffic.offer("spin", "dave")
    found = users.snapshot(port.created_ns + 10 * SECOND_NS, sort, top=2)
    assert found["top"][0]["user"] == first
    assert found["others"]["users"] == 3
    assert sort in SORTS


def test_waiting_and_running_calls_are_those_in_the_slots(port: Port, traffic: Traffic) -> None:
    for method in ("spin", "add", "resize"):
        traffic.offer(method, "alice")
    traffic.begin(0, port.created_ns)
    (alice,) = UserList(port, port.created_ns).snapshot(port.created_ns + SECOND_NS)["top"]
    assert (alice["waiting"], alice["running"]) == (2, 1)


def test_waits_of_the_heaviest_are_shown_where_they_are_measured(
    port: Port, traffic: Traffic
) -> None:
    row = traffic.user("alice", 100)
    traffic.user("bob", 1)
    Sweep(port).tick(port.created_ns + 5 * SECOND_NS)
    handler = port.shared.histograms.of_handler(0)
    handler.ran(0, 0, port.shared.names.reference(row), 8_000_000, 1)
    found = UserList(port, port.created_ns).snapshot(port.created_ns + 6 * SECOND_NS)
    waits = {user["user"]: user["wait_p99_ms"] for user in found["top"]}
    assert waits["alice"] == pytest.approx(8, rel=0.15)
    assert waits["bob"] is None


def test_it_takes_no_lock(port: Port, traffic: Traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    traffic.offer("spin", "alice")
    users, taken = UserList(port, port.created_ns), list[RobustMutex]()
    monkeypatch.setattr(RobustMutex, "__enter__", lambda lock: taken.append(lock))
    users.tick(port.created_ns + SECOND_NS)
    users.snapshot(port.created_ns + SECOND_NS)
    assert taken == []
