"""Who calls how much, by the words of the identity table."""

from __future__ import annotations

from typing import Any

import pytest

from faircall.server.admin.stats import PortStats
from faircall.server.admin.users import Users
from faircall.server.janitor.sweep import Sweep
from faircall.server.port import Port
from faircall.shm.names import OTHERS

from ..conftest import Load
from .small_port import Traffic, small_port

SECOND_NS = 1_000_000_000


def snapshot(port: Port, now_ns: int | None = None) -> dict[str, Any]:
    at_ns = port.created_ns + 10 * SECOND_NS if now_ns is None else now_ns
    return PortStats(port, port.created_ns).snapshot(at_ns)


def by_name(rows: list[dict[str, Any]], name: str) -> dict[Any, dict[str, Any]]:
    return {row[name]: row for row in rows}


def test_the_heaviest_users_come_first_and_the_rest_is_one(load: Load) -> None:
    top = "decay-scheduler.metrics.top.user.count = 2\n"
    with small_port(load, top) as port:
        traffic = Traffic(port)
        for name, cost in (("alice", 10), ("bob", 60), ("carol", 25), ("dave", 5)):
            traffic.user(name, cost)
        traffic.offer("spin", "dave")
        users = snapshot(port)["users"]
    assert users["unique"] == 4
    assert [(u["user"], u["share"], u["calls"]) for u in users["top"]] == [
        ("bob", 0.6, 1),
        ("carol", 0.25, 1),
    ]
    others = users["others"]
    assert (others["users"], others["share"], others["decayed"]) == (2, 0.15, 15)
    assert others["waiting"] == 1


def test_a_cost_counts_as_decayed_and_what_came_since(port: Port, traffic: Traffic) -> None:
    row, rows = traffic.user("alice", 100), port.shared.names.identities.rows
    rows["raw"][row] = rows["seen"][row] = 100
    rows["decayed"][row], rows["level"][row] = 50, 3
    traffic.user("alice", 7)
    (alice,) = snapshot(port)["users"]["top"]
    assert (alice["decayed"], alice["cost"], alice["level"]) == (57, 107, 3)


def test_who_found_no_row_counts_among_the_others_but_not_as_a_user(
    port: Port, traffic: Traffic
) -> None:
    port.shared.columns.charge(port.shared.index("reader"), OTHERS, 30)
    traffic.user("alice", 10)
    users = snapshot(port)["users"]
    assert [user["user"] for user in users["top"]] == ["alice"]
    assert (users["unique"], users["others"]["users"], users["others"]["cost"]) == (1, 0, 30)


def test_a_service_user_has_no_share_and_takes_none(load: Load) -> None:
    with small_port(load, "decay-scheduler.service-users = ['hbase']\n") as port:
        traffic = Traffic(port)
        traffic.user("hbase", 900)
        traffic.user("alice", 10)
        users = by_name(snapshot(port)["users"]["top"], "user")
    assert (users["hbase"]["share"], users["alice"]["share"]) == (None, 1.0)


def test_calls_are_exact_whatever_a_call_costs(load: Load) -> None:
    with small_port(load, "cost-provider.impl = 'WeightedTimeCostProvider'\n") as port:
        traffic, columns = Traffic(port), port.shared.columns
        row = traffic.user("alice", 900)
        columns.charge(port.shared.index("handler", 0), row, -250, 0)
        Sweep(port).tick(port.created_ns + 5 * SECOND_NS)
        columns.charge(port.shared.index("reader"), row, 100, 2)
        (alice,) = snapshot(port)["users"]["top"]
    assert (alice["cost"], alice["calls"]) == (750, 3)


def test_calls_of_a_rows_former_user_are_not_counted(port: Port, traffic: Traffic) -> None:
    row = traffic.user("alice", 900)
    port.shared.names.evict([row])
    assert traffic.user("bob", 4) == row
    (bob,) = snapshot(port)["users"]["top"]
    assert (bob["user"], bob["cost"], bob["calls"]) == ("bob", 4, 1)


def test_volumes_are_those_of_ordinary_and_of_service_users(load: Load) -> None:
    with small_port(load, "decay-scheduler.service-users = ['hbase']\n") as port:
        traffic = Traffic(port)
        for name, cost in (("hbase", 900), ("alice", 10), ("bob", 30)):
            traffic.user(name, cost)
        Sweep(port).tick(port.created_ns + 5 * SECOND_NS)
        volume = snapshot(port)["users"]["volume"]
    assert volume == {"decayed": 20, "ever": 40, "service_decayed": 450, "service_ever": 900}


def test_a_row_that_goes_to_another_user_while_it_is_read_is_left_out(
    port: Port, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = port.shared.names
    row = traffic.user("alice", 10)
    traffic.user("bob", 5)
    name = names.identities.name

    def name_late(asked: int) -> str:
        if asked == row and name(row) == "alice":
            names.evict([row])
            assert names.identity("mallory", 0) == row
        return name(asked)

    monkeypatch.setattr(names.identities, "name", name_late)
    users = Users(port).snapshot()
    assert [user["user"] for user in users["top"]] == ["bob"]
    assert users["others"]["decayed"] == 10
