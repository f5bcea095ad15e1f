"""`faircall stats` counts what was sent, no more and no less."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faircall.server.cli import main

from ..daemon import CONFORMANCE, TCP, Daemon, until
from ..raw import FRAMINGS, Raw, request
from .conftest import UNIX, Serve

pytestmark = pytest.mark.slow


@pytest.fixture
def daemon(serve: Serve) -> Daemon:
    return serve(CONFORMANCE, "--handlers", "2", "--trust-loopback", binds=(TCP, UNIX))


def test_what_was_sent_is_what_is_counted(
    daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    for address in (daemon.tcp, daemon.unix):
        for framing in FRAMINGS:
            _send_some(address, framing)
    until(lambda: daemon.totals()["run"] == 6 * 12)  # nobody waits for notifications
    assert main(["stats", "--json", "--to", str(daemon.admin_socket)]) == 0
    port = json.loads(capsys.readouterr().out)["ports"][0]
    totals, refused = port["totals"], port["totals"]["refused"]
    assert totals["calls"] == 6 * 15
    assert totals["answered"] == 6 * 15
    assert totals["run"] == 6 * 12
    assert totals["failed"] == 6 * 1
    assert refused["invalid"] == 6 * 2
    assert sum(refused.values()) == refused["invalid"]
    assert totals["connections"]["ever"] == 6
    assert totals["connections"]["closed_slow"] == totals["connections"]["closed_protocol"] == 0
    assert _methods(port) == {"echo": 6 * 10, "fail": 6, "add": 6}


def _send_some(address: str, framing: str) -> None:
    """15 calls: 12 that run, of which 1 fails, 2 that are none, and a ping."""
    with Raw(address, framing) as raw:
        for number in range(7):
            raw.call("echo", number)
        raw.send([request("echo", 1, id=1), request("echo", 2), request("add", 1, 2, id=3)])
        assert len(raw.receive()) == 2
        raw.code("fail", "boom")
        raw.code("no_such_method")
        raw.send(17)
        assert raw.receive()["error"]["code"] == -32600
        raw.call("rpc.ping")
        raw.send(request("echo", "a notification"))
        assert framing != "http" or raw.receive() is None
        raw.end_input()
        assert raw.rest() == []


def _methods(port: dict[str, Any]) -> dict[str, int]:
    return {method["method"]: method["calls"] for method in port["methods"] if method["calls"]}


def test_bytes_and_processes(daemon: Daemon) -> None:
    body = b'{"jsonrpc":"2.0","method":"add","params":[1,2],"id":1}'
    with Raw(daemon.tcp) as raw:
        raw.send(body)
        assert raw.receive()["result"] == 3
    until(lambda: daemon.totals()["out_bytes"])  # counted after they were sent
    stats = daemon.stats()
    port = stats["ports"][0]
    assert stats["pid"] == daemon.pid
    assert port["addresses"] == daemon.addresses
    assert port["totals"]["in_bytes"] == len(body) + 1
    assert port["totals"]["out_bytes"] == len('{"jsonrpc":"2.0","id":1,"result":3}\n')
    told: dict[str, list[int]] = {}
    for process in port["processes"]:
        assert process["status"] == "READY"
        assert process["restarts"] == 0
        told.setdefault(process["role"], []).append(process["pid"])
    assert told == daemon.children()


def test_without_json_it_is_a_text(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAIRCALL_ADMIN", str(daemon.admin_socket))
    assert main(["stats"]) == 0
    assert "FairCallQueue" in capsys.readouterr().out
