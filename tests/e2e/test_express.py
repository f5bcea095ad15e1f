"""Long calls keep every ordinary handler, and short ones are answered meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faircall.server.cli import main

from ..daemon import PROBE, Daemon, serving, until
from ..raw import Raw, request
from .gates import Gate, gates, wait_for_calls

pytestmark = pytest.mark.slow

EXPRESS = ("--handlers", "2", "--set", "handlers.express=1", "--trust-loopback")
ANY_TIME = ("--set", "handlers.express-below-us=5000000")  # what has ended is short


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with serving(tmp_path / "server", PROBE, *EXPRESS, *ANY_TIME) as daemon:
        yield daemon


@pytest.fixture
def held(tmp_path: Path) -> list[Gate]:
    return gates(tmp_path, 4)


def flood(daemon: Daemon, heavy: Raw, held: list[Gate]) -> None:
    """Two calls that nobody knows the length of run, as many wait. `echo` is known to be short."""
    with Raw(daemon.tcp) as raw:
        assert raw.call("echo", 0) == 0
    heavy.send(*[request("hold", gate.path, id=n) for n, gate in enumerate(held)])
    wait_for_calls(held[:2])


def let_go(heavy: Raw, held: list[Gate]) -> None:
    for gate in held[:2]:
        gate.open()
    for gate in held[2:]:
        gate.wait_for_call()
        gate.open()
    assert sorted(heavy.receive()["id"] for _ in held) == list(range(len(held)))


def handlers(daemon: Daemon) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.stats()["ports"][0]["handlers"]
    return found


def express(daemon: Daemon) -> dict[str, Any]:
    [found] = [handler for handler in handlers(daemon) if handler["express"]]
    return found


def test_short_calls_are_answered_beside_long_ones(daemon: Daemon, held: list[Gate]) -> None:
    with Raw(daemon.tcp) as heavy, Raw(daemon.tcp) as light:
        flood(daemon, heavy, held)
        before = express(daemon)["calls"]
        for number in range(20):
            assert light.call("echo", number) == number
        assert express(daemon)["calls"] == before + 20
        running = [handler["method"] for handler in handlers(daemon) if not handler["express"]]
        assert running == ["hold", "hold"]
        assert daemon.stats()["ports"][0]["queue"]["waiting"] == 2
        let_go(heavy, held)

        def by_another() -> bool:
            before = express(daemon)["calls"]
            assert light.call("echo", 0) == 0
            return bool(express(daemon)["calls"] == before)

        until(by_another, "one of the others to claim again")
        before = express(daemon)["calls"]
        for number in range(20):
            assert light.call("echo", number) == number
        assert express(daemon)["calls"] == before, "the others have time again"


def test_a_method_that_nobody_has_run_yet_is_not_short(daemon: Daemon, held: list[Gate]) -> None:
    with Raw(daemon.tcp) as heavy, Raw(daemon.tcp) as light:
        flood(daemon, heavy, held)
        light.send(request("pid", id="pid"))
        until(lambda: daemon.stats()["ports"][0]["queue"]["waiting"] == 3)
        light.send(request("echo", 1, id="echo"))
        assert light.receive()["id"] == "echo"
        let_go(heavy, held)
        answer = light.receive()
        assert answer["id"] == "pid"
        assert answer["result"] != express(daemon)["pid"]


def test_a_call_that_turns_out_long_there_changes_nothing(
    daemon: Daemon, held: list[Gate], tmp_path: Path
) -> None:
    """It runs to its end; others wait for it, as for any."""
    late = Gate(tmp_path, "late")
    with Raw(daemon.tcp) as heavy, Raw(daemon.tcp) as light, Raw(daemon.tcp) as other:
        light.send(request("hold", held[0].path, id="first"))
        held[0].wait_for_call()
        held[0].open()
        assert light.receive()["id"] == "first", "from now on it is a short one"
        other.send(*[request("wait", 3600, id=n) for n in range(2)])
        until(lambda: sum(handler["method"] == "wait" for handler in handlers(daemon)) == 2)
        light.send(request("hold", late.path, id="late"))
        late.wait_for_call()
        assert express(daemon)["method"] == "hold"
        late.open("done")
        assert light.receive()["result"] == "done"
        heavy.send(request("echo", 1, id="unknown"))  # never run: it waits
        until(lambda: daemon.stats()["ports"][0]["queue"]["waiting"] == 1)
        daemon.process.send_signal(signal.SIGKILL)  # its calls of an hour are nobody's to wait for
        daemon.process.wait()


def test_one_that_died_is_replaced(daemon: Daemon, held: list[Gate]) -> None:
    with Raw(daemon.tcp) as heavy, Raw(daemon.tcp) as light:
        flood(daemon, heavy, held)
        pid = express(daemon)["pid"]
        os.kill(pid, signal.SIGKILL)
        for number in range(5):
            assert light.call("echo", number) == number
        assert express(daemon)["pid"] not in (0, pid)
        let_go(heavy, held)


def test_a_reload_of_the_workers_replaces_it_too(
    daemon: Daemon, held: list[Gate], capsys: pytest.CaptureFixture[str]
) -> None:
    before = {handler["pid"] for handler in handlers(daemon)}
    assert main(["reload", "--workers", "--to", str(daemon.admin_socket)]) == 0
    assert "replaced: 3 handlers" in capsys.readouterr().out
    after = {handler["pid"] for handler in handlers(daemon)}
    assert len(after) == 3
    assert not before & after
    with Raw(daemon.tcp) as heavy, Raw(daemon.tcp) as light:
        flood(daemon, heavy, held)
        assert light.call("echo", 1) == 1
        let_go(heavy, held)


def test_operators_see_which_it_is(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    to = ["--to", str(daemon.admin_socket), "--json"]
    assert main(["dump", "handlers", *to]) == 0
    [port] = json.loads(capsys.readouterr().out)["ports"]
    rows = port["rows"]
    assert [row.get("express", False) for row in rows] == [False, False, True]
    assert daemon.event("starting")["express"] == 1
