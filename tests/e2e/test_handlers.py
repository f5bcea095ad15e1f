"""What becomes of a call whose handler hangs, dies or runs out of memory; and of the next one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..daemon import PROBE, Daemon, serving, until
from ..raw import Raw, request
from .gates import Gate

pytestmark = [pytest.mark.slow, pytest.mark.fault]

DEADLINE, DIED, RAISED = -32050, -32053, -32000
HUNG_MS = 1000  # long enough that the call has mostly begun by then


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One handler: what it does to one call is felt by the next."""
    folder = tmp_path_factory.mktemp("daemon")
    quick = ("--set", "handlers.hang-grace-ms=100")
    with serving(folder, PROBE, "--handlers", "1", *quick) as daemon:
        yield daemon


@pytest.fixture
def raw(daemon: Daemon) -> Iterator[Raw]:
    with Raw(daemon.tcp) as raw:
        yield raw


def stacks(daemon: Daemon) -> list[str]:
    return [event["stack"] for event in daemon.events("handler hung")]


def failures(daemon: Daemon, method: str) -> int:
    """Failed calls of the method, as `faircall stats` has them."""
    rows = daemon.stats()["ports"][0]["methods"]
    return next(int(row["failed"]) for row in rows if row["method"] == method)


def test_a_call_that_waits_too_long_is_answered_at_its_deadline(raw: Raw, tmp_path: Path) -> None:
    """It never ran; the one that runs is not disturbed."""
    gate, trace = Gate(tmp_path), tmp_path / "trace"
    raw.send(request("hold", gate.path, id="runs"))
    gate.wait_for_call()
    raw.send(request("append", str(trace), "ran", id="waits", meta={"timeout_ms": 200}))
    answer = raw.receive()
    assert (answer["id"], answer["error"]["code"]) == ("waits", DEADLINE)
    gate.open("done")
    assert raw.receive()["result"] == "done"
    assert raw.call("echo", "next") == "next"
    assert not trace.exists()


@pytest.mark.parametrize("method", ["hold", "spin"])
def test_a_hung_handler_is_shown_and_replaced(
    daemon: Daemon, raw: Raw, tmp_path: Path, method: str
) -> None:
    """The call is answered at its deadline; then the stack is logged, and the handler killed."""
    gate, before, hung = Gate(tmp_path), raw.call("pid"), len(stacks(daemon))
    failed = failures(daemon, method)
    params = [gate.path] if method == "hold" else []

    def began() -> bool:
        """One that did not was dropped, and its handler serves the next; no other can."""
        raw.send(request(method, *params, id=1, meta={"timeout_ms": HUNG_MS}))
        assert raw.receive()["error"]["code"] == DEADLINE
        return bool(raw.call("pid") != before)

    until(began, "a call that began before its deadline")
    assert len(stacks(daemon)) == hung + 1
    assert f"in {method}" in stacks(daemon)[-1]
    event = daemon.events("handler hung")[-1]
    assert (event["pid"], event["method"]) == (before, method)
    until(lambda: daemon.events("handler died")[-1].get("killed") == "hung")
    assert failures(daemon, method) == failed + 1


@pytest.mark.parametrize(
    ("method", "params", "cause"),
    [
        ("die", [signal.SIGKILL], {"signal": "SIGKILL"}),
        ("die", [signal.SIGSEGV], {"signal": "SIGSEGV"}),
        ("die", [signal.SIGABRT], {"signal": "SIGABRT"}),
        ("leave_by_os", [], {"status": 0}),
        ("leave_by_sys", [], {"status": 0}),
        ("stop", [], {"signal": "SIGKILL", "killed": "stopped"}),
    ],
)
def test_a_death_is_an_answer_and_the_next_call_works(
    daemon: Daemon, raw: Raw, method: str, params: list[Any], cause: dict[str, object]
) -> None:
    deaths, before = len(daemon.events("handler died")), raw.call("pid")
    error = raw.ask(method, *params)["error"]
    assert (error["code"], error["data"]["retriable"]) == (DIED, False)
    assert raw.call("pid") != before
    died = daemon.events("handler died")[deaths]
    assert cause.items() <= died.items()
    assert (died["pid"], died["method"], died["user"]) == (before, method, "127.0.0.1")
    assert "age_ms" in died


def test_calls_behind_a_death_are_served(raw: Raw) -> None:
    raw.send(request("die", signal.SIGKILL, id=0))
    raw.send(*[request("echo", number, id=number) for number in range(1, 50)])
    answers = {answer["id"]: answer for answer in (raw.receive() for _ in range(50))}
    assert answers.pop(0)["error"]["code"] == DIED
    assert {id: answer["result"] for id, answer in answers.items()} == {n: n for n in range(1, 50)}


def test_a_batch_with_a_death_in_it(raw: Raw) -> None:
    raw.send([request("echo", 1, id=1), request("die", signal.SIGKILL, id=2), request("pid", id=3)])
    answers = {answer["id"]: answer for answer in raw.receive()}
    assert answers[1]["result"] == 1
    assert answers[2]["error"]["code"] == DIED
    assert answers[3]["result"] > 0


def test_an_idempotent_call_is_run_again(raw: Raw, tmp_path: Path) -> None:
    assert raw.call("die_until", str(tmp_path / "attempts"), 2) == [0, 1, 2]


def test_but_not_for_ever(raw: Raw, tmp_path: Path) -> None:
    error = raw.ask("die_until", str(tmp_path / "attempts"), 99)["error"]
    assert (error["code"], error["data"]["retriable"]) == (DIED, True)
    assert (tmp_path / "attempts").read_text().split() == ["0", "1", "2"]
    assert raw.call("echo", "next") == "next"


def test_memory_that_is_not_there_is_an_error_of_the_call(raw: Raw) -> None:
    before = raw.call("pid")
    error = raw.ask("take_memory", 1024, 2048)["error"]
    assert error["code"] == RAISED
    assert "MemoryError" in error["message"]
    assert raw.call("take_memory", 1024, 1) == 1 << 20
    assert raw.call("pid") == before
