"""How a daemon ends: by SIGTERM, by Ctrl-C once and twice, by the death of its supervisor."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from faircall import Client
from faircall.client import ConnectionFailed, RemoteError

from ..daemon import PROBE, TCP, Daemon, started, until
from ..raw import Raw, connect, request
from .conftest import UNIX, Serve
from .gates import Gate, gates, wait_for_calls

pytestmark = pytest.mark.slow

TWO = ("--handlers", "2")
SHUTTING_DOWN = -32052
LONG = ("--set", "shutdown.accept-ms=600000")
SHORT = ("--set", "shutdown.accept-ms=0")
GRACE = "shutdown.grace-ms"


class Probe:
    """What /readyz and /livez say."""

    def __init__(self, address: str) -> None:
        self._address = address

    def status(self, path: str) -> int:
        with connect(self._address) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return int(sock.recv(1000).split()[1])


def phase_of(daemon: Daemon) -> Any:
    return daemon.stats()["phase"]


def test_after_sigterm_it_goes_on_for_a_while_but_is_not_ready(serve: Serve) -> None:
    """Until `accept-ms` are over: new connections are served, while /readyz fails."""
    daemon = serve(PROBE, *TWO, *LONG)
    probe = Probe(daemon.tcp)
    assert (probe.status("/readyz"), probe.status("/livez")) == (200, 200)
    daemon.send(signal.SIGTERM)
    until(lambda: phase_of(daemon) == "LEAVING")
    assert (probe.status("/readyz"), probe.status("/livez")) == (503, 200)
    with Raw(daemon.tcp) as raw:
        assert raw.call("echo", "served") == "served"
    assert daemon.stop(signal.SIGTERM) == 0  # a second one: now


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_calls_in_flight_are_finished(serve: Serve, tmp_path: Path, number: signal.Signals) -> None:
    """Running and waiting ones; new calls are told to go elsewhere, new connections refused."""
    daemon = serve(PROBE, *TWO, *SHORT, binds=(TCP, UNIX))
    held = gates(tmp_path, 2)
    with Raw(daemon.tcp) as raw, Raw(daemon.unix) as other:
        raw.send(*[request("hold", gate.path, id=index) for index, gate in enumerate(held)])
        wait_for_calls(held)
        raw.send(*[request("echo", index, id=index) for index in range(2, 20)])
        assert other.call("rpc.ping") == "pong"
        until(lambda: daemon.stats()["ports"][0]["queue"]["waiting"] == 18)
        daemon.send(number)
        until(lambda: phase_of(daemon) == "DRAINING")
        error = other.ask("echo", "too late")["error"]
        assert (error["code"], error["data"]["retriable"]) == (SHUTTING_DOWN, True)
        until(lambda: _is_refused(daemon.unix))
        for gate in held:
            gate.open("done")
        answers = [raw.receive() for _ in range(20)]
        assert {answer["id"] for answer in answers if "result" in answer} == set(range(20))
        assert daemon.wait() == 0
        assert raw.rest() == other.rest() == []
    assert "Traceback" not in daemon.log


def _is_refused(address: str) -> bool:
    try:
        connect(address).close()
    except OSError:
        return True
    return False


def test_under_load_every_call_is_answered_or_refused(serve: Serve) -> None:
    daemon = serve(PROBE, *TWO, *SHORT, binds=(TCP, UNIX))
    clients = [_Caller(address) for address in (daemon.tcp, daemon.unix) * 2]
    until(lambda: all(client.answered > 50 for client in clients))
    assert daemon.stop(signal.SIGTERM) == 0
    for client in clients:
        client.join()
        assert client.unexpected == []
    assert "Traceback" not in daemon.log
    assert {event["event"] for event in daemon.events()} <= {
        *("starting", "handler ready", "phase", "ready", "stopped"),
        "woke up late",  # if all of the machine did
    }


class _Caller(threading.Thread):
    """Calls one after the other until the server is gone; none may be lost."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.answered, self.unexpected = 0, list[str]()
        self._address = address
        self.start()

    def run(self) -> None:
        with Client(self._address, retry=None) as client:
            while True:
                try:
                    client.call("echo", self.answered)
                except ConnectionFailed:
                    return
                except RemoteError as error:
                    if error.code == SHUTTING_DOWN:
                        return
                    self.unexpected.append(str(error))
                except Exception as error:
                    self.unexpected.append(repr(error))
                    return
                self.answered += 1


def test_a_call_that_takes_longer_than_the_grace_is_cut_off(serve: Serve, tmp_path: Path) -> None:
    daemon = serve(PROBE, *TWO, *SHORT, "--set", f"{GRACE}=300")
    gate = Gate(tmp_path)
    with Raw(daemon.tcp) as raw:
        raw.send(request("hold", gate.path, id=1))
        gate.wait_for_call()
        assert daemon.stop(signal.SIGTERM) == 0
        assert raw.rest() == []
    assert daemon.event("call cut off")["method"] == "hold"


@pytest.mark.fault
@pytest.mark.parametrize("role", ["handler", "janitor", "admin", "reader"])
def test_a_death_while_it_drains(serve: Serve, tmp_path: Path, role: str) -> None:
    """Does not keep it from its end; the call in flight is lost only with its reader."""
    daemon, gate = serve(PROBE, *TWO, *SHORT), Gate(tmp_path)
    with Raw(daemon.tcp) as raw:
        raw.send(request("hold", gate.path, id=1))
        gate.wait_for_call()
        idle = raw.call("pid")
        daemon.send(signal.SIGTERM)
        until(lambda: phase_of(daemon) == "DRAINING")
        os.kill(idle if role == "handler" else daemon.child(role), signal.SIGKILL)
        daemon.event(f"{role} died")
        if role != "reader":
            gate.open("done")
            assert raw.receive()["result"] == "done"
        assert daemon.wait() == 0
        assert raw.rest() == []


def test_a_second_ctrl_c_stops_now(serve: Serve, tmp_path: Path) -> None:
    daemon = serve(PROBE, *TWO)
    gate = Gate(tmp_path)
    with Raw(daemon.tcp) as raw:
        raw.send(request("hold", gate.path, id=1))
        gate.wait_for_call()
        daemon.send(signal.SIGINT)
        until(lambda: phase_of(daemon) == "DRAINING")
        assert daemon.stop(signal.SIGINT) == 1  # for it cut a call off
        assert raw.rest() == []
    assert daemon.event("call cut off")["method"] == "hold"
    assert daemon.event("stopped")["status"] == 1
    assert "Traceback" not in daemon.log


def test_a_signal_during_the_start_ends_it(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    path = tmp_path / "slow.py"
    path.write_text(
        "from pathlib import Path\nfrom faircall import Service\nservice = Service()\n"
        f"Path({gate.path!r}).read_text()\n"
    )
    with started(tmp_path, path, "--handlers", "1") as daemon:
        gate.wait_for_call()
        assert daemon.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("ready", [True, False])
def test_when_the_supervisor_is_killed_all_are_gone(tmp_path: Path, ready: bool) -> None:
    """Its clients see the end of their connections; nothing stays in /dev/shm."""
    gate = Gate(tmp_path)
    with started(tmp_path, PROBE, *TWO, binds=(UNIX,)) as daemon:
        if not ready:
            daemon.event("starting")
            assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
            return
        daemon.wait_ready()
        with Raw(daemon.unix) as raw:
            raw.send(request("hold", gate.path, id=1))
            gate.wait_for_call()
            assert len(daemon.children()) == 5
            assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
            assert raw.rest() == []
