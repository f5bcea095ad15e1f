"""What is in a port at one moment, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from faircall.server.admin.dump import dump
from faircall.server.admin.users_text import as_csv, dump_lines
from faircall.server.port import Port

from ..conftest import Load
from .small_port import Traffic, small_port

SECOND_NS = 1_000_000_000


@pytest.fixture
def port(load: Load) -> Iterator[Port]:
    with small_port(load) as made:
        traffic = Traffic(made)
        for method, user, level in (("spin", "bob", 2), ("add", "alice", 0), ("echo", "bob", 2)):
            traffic.offer(method, user, level)
        traffic.begin(1, made.created_ns + SECOND_NS)
        yield made


def rows(port: Port, what: str, most: int = 100) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dump(port, what, most, port.created_ns + 3 * SECOND_NS)["rows"]
    return found


def test_queues_are_in_the_order_of_levels_and_turns(port: Port) -> None:
    found = rows(port, "queues")
    assert [(row["level"], row["user"], row["method"]) for row in found] == [
        (2, "bob", "spin"),
        (2, "bob", "echo"),
    ]


def test_requests_say_their_state_and_their_handler(port: Port) -> None:
    found = {row["method"]: row for row in rows(port, "requests")}
    assert (found["add"]["state"], found["add"]["handler"]) == ("RUNNING", 1)
    assert (found["spin"]["state"], found["spin"]["handler"]) == ("QUEUED", None)
    assert found["add"]["age_ms"] == 2000


def test_levels_show_their_size_and_the_cursor(port: Port) -> None:
    found = rows(port, "levels")
    assert [row["waiting"] for row in found] == [0, 0, 2, 0]
    assert [row["weight"] for row in found] == [8, 4, 2, 1]
    assert [row["cursor"] for row in found].count(True) == 1


def test_handlers_show_what_they_run_and_for_whom(port: Port) -> None:
    idle, busy = rows(port, "handlers")
    assert (idle["runs"], busy["runs"]) == (False, True)
    assert (busy["method"], busy["user"], busy["age_ms"]) == ("add", "alice", 2000)


def test_only_so_many_rows_are_shown_and_the_rest_is_counted(port: Port) -> None:
    found = dump(port, "queues", 1, port.created_ns)
    assert (len(found["rows"]), found["total"]) == (1, 2)
    lines = list(dump_lines({"ports": [found]}))
    assert (lines[0], lines[-1]) == ("port 0: 2 calls wait", "  (1 more)")


def test_csv_has_a_head_and_no_formulas() -> None:
    text = as_csv([{"user": "=1+1", "n": 2, "m": None}, {"user": 'a"\x1bb', "n": 3, "m": 1.5}])
    assert text == "user,n,m\n'=1+1,2,\n" + '"a""\\u001bb",3,1.5'
