"""Costs by time, and what follows from response times, over real processes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from ..daemon import PROBE, Daemon, started, until
from ..raw import Raw, request
from .conftest import Serve

pytestmark = pytest.mark.slow


def options(**values: object) -> list[str]:
    """`decay_scheduler__charge="completion"` is `--set ipc.decay-scheduler.charge=completion`."""
    keys = ((key.replace("__", ".").replace("_", "-"), value) for key, value in values.items())
    return [word for key, value in keys for word in ("--set", f"{key}={value}")]


BY_TIME = options(
    ipc__cost_provider__impl="WeightedTimeCostProvider",
    ipc__weighted_cost__response=0,
    ipc__decay_scheduler__period_ms=600,
    rpc__metrics__timeunit="NANOSECONDS",
)


def port(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = daemon.stats()["ports"][0]
    return found


def user(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = port(daemon)["users"]["top"][0]
    return found


@pytest.mark.parametrize("charge", ["arrival", "completion"])
def test_a_callers_cost_is_the_time_of_its_calls(serve: Serve, charge: str) -> None:
    """Handler and lock-free time, of weight 1, are all of a call's time in its handler."""
    daemon = serve(
        PROBE, "--handlers", "2", *BY_TIME, *options(ipc__decay_scheduler__charge=charge)
    )
    with Raw(daemon.tcp, "lines") as raw:
        sent = 0
        while port(daemon)["sweeps"]["done"] < 4:  # reservations follow the mean of each second
            for number in range(20):
                raw.call("echo", number)
            sent += 20
        (echo,) = [m for m in port(daemon)["methods"] if m["method"] == "echo"]
        found = user(daemon)
        assert (echo["calls"], found["calls"]) == (sent, sent)
        assert found["cost"] // sent == echo["mean_ns"]
        raw.code("leave_by_os")
        assert user(daemon)["cost"] > found["cost"]
        assert user(daemon)["calls"] == sent + 1


def test_a_cost_provider_of_ones_own(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Seven:\n    def cost(self, times):\n        return 7\n"
    )
    daemon = serve(PROBE, "--handlers", "2", *options(ipc__cost_provider__impl="mine:Seven"))
    with Raw(daemon.tcp, "lines") as raw:
        for number in range(10):
            raw.call("echo", number)
        raw.code("fail", "x")
        assert (user(daemon)["cost"], user(daemon)["calls"]) == (77, 11)


def test_a_cost_provider_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    wrong = options(ipc__cost_provider__impl="mine:Missing")
    with started(tmp_path, PROBE, *wrong) as daemon:
        assert daemon.wait() != 0
        assert "cost-provider.impl: no class 'mine:Missing'" in daemon.log


def test_a_level_that_answers_slowly_backs_off_and_is_let_in_again(serve: Serve) -> None:
    daemon = serve(
        PROBE,
        "--handlers",
        "2",
        *options(
            ipc__decay_scheduler__period_ms=300,
            ipc__decay_scheduler__backoff__responsetime__enable="true",
            ipc__decay_scheduler__backoff__responsetime__mode="hadoop",
            ipc__decay_scheduler__backoff__responsetime__thresholds="20ms,20ms,20ms,20ms",
        ),
    )
    with Raw(daemon.tcp, "lines") as raw:

        def reason() -> str:
            raw.send({"jsonrpc": "2.0", "id": 1, "method": "wait", "params": [0.05]})
            answer = raw.receive()
            return answer["error"]["data"]["reason"] if "error" in answer else ""

        until(lambda: reason() == "response_time", "back-off")
        assert port(daemon)["totals"]["refused"]["response_time"] > 0
        until(lambda: reason() == "", "an answer")
        levels = port(daemon)["queue"]["levels"]
        assert levels[0]["mean_response_ms"] >= 0


def test_a_call_that_took_far_longer_than_its_method_does_is_logged(serve: Serve) -> None:
    slow = options(log__slow_rpc="true", log__slow_rpc_threshold_ms=100)
    daemon = serve(PROBE, "--handlers", "1", *slow)
    with Raw(daemon.tcp, "lines") as raw:
        raw.call("wait", 0.2)  # too few are known yet
        for _ in range(11):
            raw.send([request("wait", 0, id=number) for number in range(100)])
            assert len(raw.receive()) == 100
        seconds = iter(0.4 * 2**times for times in itertools.count())

        def told() -> bool:
            """Of a call that took twice as long as the one before: calls that a machine under load
            has made slow are among those that the method is known to take, and told, too."""
            raw.call("wait", took_s := next(seconds))
            return any(e["took_ms"] > 1000 * took_s for e in daemon.events("slow call")[-1:])

        until(told, "a call that is far longer than the others")
    events = daemon.events("slow call")
    assert {event["method"] for event in events} == {"wait"}
    assert events[-1]["user"]
    assert daemon.totals()["slow"] == len(events)
