"""One daemon, several ports: each `[ipc.<port>]` section is a server of its own."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from ..daemon import PROBE, Daemon, until
from ..raw import Raw, request
from .conftest import Serve
from .gates import Gate

pytestmark = pytest.mark.slow

CONFIG = """
[server]
bind = ["unix:~/plain.sock", "unix:~/a.sock#8021", "unix:~/b.sock#8022"]
[handlers]
count = 1
[identity]
trusted-peers = ["uid:self"]
[ipc.8021]
callqueue.impl = "LinkedBlockingQueue"
[ipc.8022]
callqueue.total-capacity = 64
[shutdown]
accept-ms = 0
"""


def connect(daemon: Daemon, name: str) -> Raw:
    return Raw(f"unix:{daemon.folder}/{name}.sock")


@pytest.fixture
def daemon(serve: Serve, tmp_path: Path) -> Daemon:
    config = tmp_path / "faircall.toml"
    config.write_text(CONFIG.replace("~", str(tmp_path)))
    return serve(PROBE, "--config", str(config), binds=(), addresses=3)


def test_a_socket_belongs_to_the_section_that_it_names(daemon: Daemon) -> None:
    with connect(daemon, "a") as a, connect(daemon, "b") as b:
        assert a.call("pid") != b.call("pid")
        a.call("echo", 1)
        with connect(daemon, "plain") as plain:  # the first section of `bind`
            assert plain.call("pid") == a.call("pid")
    ports = {port["port"]: port for port in daemon.stats()["ports"]}
    assert {number: port["totals"]["calls"] for number, port in ports.items()} == {8021: 4, 8022: 1}
    assert ports[8021]["queue"]["impl"] == "LinkedBlockingQueue"
    assert ports[8022]["queue"]["impl"] == "FairCallQueue"


def test_a_death_in_one_port_is_not_felt_in_the_other(daemon: Daemon) -> None:
    with connect(daemon, "a") as a, connect(daemon, "b") as b:
        before = b.call("pid")
        assert a.code("die", signal.SIGKILL) == -32053
        assert b.call("pid") == before
        assert a.call("echo", "the next") == "the next"
    died = daemon.event("handler died")
    assert (died["port"], died["index"]) == (8021, 0)


def test_at_sigterm_both_ports_finish_what_they_began(daemon: Daemon, tmp_path: Path) -> None:
    gates = [Gate(tmp_path, "a"), Gate(tmp_path, "b")]
    with connect(daemon, "a") as a, connect(daemon, "b") as b:
        for raw, gate in zip((a, b), gates, strict=True):
            raw.send(request("hold", gate.path, id=1))
            gate.wait_for_call()
        daemon.send(signal.SIGTERM)
        until(lambda: _phases(daemon) == {"DRAINING"})
        for raw, gate in zip((a, b), gates, strict=True):
            gate.open("done")
            assert raw.receive()["result"] == "done"
        assert daemon.wait() == 0


def _phases(daemon: Daemon) -> set[Any]:
    return {port["phase"] for port in daemon.stats()["ports"]}
