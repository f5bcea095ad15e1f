"""`faircall cancel` restores service: on a daemon whose queue and handlers are full of one user."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircall.server.cli import main

from ..daemon import PROBE, Daemon, until
from ..raw import Raw, request
from .conftest import Serve
from .gates import gates, wait_for_calls

pytestmark = pytest.mark.slow

CANCELLED = -32051
CAPACITY = 64


def test_a_full_queue_is_free_again(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = serve(
        PROBE,
        *("--handlers", "2", "--readers", "2", "--trust-loopback"),
        *("--set", f"ipc.0.callqueue.total-capacity={CAPACITY}"),
        *("--set", "ipc.0.callqueue.max-principal-share=1.0"),
    )
    held = gates(tmp_path, 2)
    with Raw(daemon.tcp) as ann, Raw(daemon.tcp) as too, Raw(daemon.tcp) as bob:
        for raw in (ann, too):
            raw.call("faircall.hello", "ann")
        bob.call("faircall.hello", "bob")
        ann.send(*[request("hold", gate.path, id=f"run{n}") for n, gate in enumerate(held)])
        wait_for_calls(held)
        bob.send(request("echo", "bob", id="b"))
        until(lambda: daemon.stats()["ports"][0]["queue"]["waiting"] == 1)
        for raw in (ann, too):
            raw.send(*[request("text", 5, id=n) for n in range(100, 100 + CAPACITY)])
        found = [raw.receive() for raw in (ann, too)]
        assert {answer["error"]["data"]["reason"] for answer in found} == {"queue_full"}
        until(lambda: placed(daemon) == 1 + 2 * CAPACITY, "all of them wait or were refused")
        waits = daemon.stats()["ports"][0]["queue"]["waiting"]
        assert main(["cancel", "--user", "ann", "--to", str(daemon.admin_socket)]) == 0
        printed = capsys.readouterr().out
        waiting = int(printed.split()[1])
        assert printed == f"cancelled: {waiting} waiting, 2 running\n"
        assert waits - 1 <= waiting <= CAPACITY
        codes: dict[object, int] = {}
        while len([id for id in codes if str(id).startswith("run")]) < 2:
            answer = ann.receive()
            codes[answer["id"]] = answer["error"]["code"]
        assert codes["run0"] == codes["run1"] == CANCELLED
        for gate in held:
            gate.open("a result that nobody gets")
        assert bob.receive() == {"jsonrpc": "2.0", "id": "b", "result": "bob"}
        assert bob.call("echo", 1) == 1
        assert daemon.totals()["cancelled"] == waiting + 2
        main(["cancel", "--user", "ann", "--to", str(daemon.admin_socket)])
        assert capsys.readouterr().out == "cancelled: 0 waiting, 0 running\n"


def placed(daemon: Daemon) -> int:
    """Calls that wait, or found no room."""
    (port,) = daemon.stats()["ports"]
    return int(port["queue"]["waiting"] + port["totals"]["refused"]["queue_full"])
