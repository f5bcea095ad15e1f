"""`faircall call` and `faircall stats` against real servers: what they print, how they end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faircall.server.cli import main

from ..daemon import PROBE, Daemon
from ..raw import Raw, request
from .conftest import Serve
from .gates import Gate

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]


def test_as_a_program(shared: Daemon) -> None:
    command = [sys.executable, "-m", "faircall", "call", "--to", shared.unix, "echo", '{"a": 1}']
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{\n  "a": 1\n}\n', "")


def test_0_for_a_result_whatever_the_transport(shared: Daemon, capsys: Capture) -> None:
    http = f"http://127.0.0.1:{shared.tcp_port}"
    for address in (shared.tcp, shared.unix, http, f"http+{shared.unix}"):
        assert main(["call", "--to", address, "--json", "echo", "x=[1,null]"]) == 0
        assert capsys.readouterr().out == "[1,null]\n"
    assert main(["call", "--to", shared.tcp, "--user", "alice", "about"]) == 0
    assert '"user": "alice"' in capsys.readouterr().out


def test_1_for_an_error_of_the_call(shared: Daemon, capsys: Capture) -> None:
    assert main(["call", "--to", shared.tcp, "fail", "boom"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "boom" in output.err
    assert output.err.count("\n") == 1
    assert main(["call", "--to", shared.tcp, "no_such_method"]) == 1


def test_2_for_a_usage_error(shared: Daemon) -> None:
    assert main(["call", "--to", shared.tcp, "echo", "1", "x=2"]) == 2
    assert main(["call", "--to", "gopher://127.0.0.1", "echo"]) == 2
    assert main(["call"]) == 2


def test_3_where_nobody_answers(tmp_path: Path, capsys: Capture) -> None:
    assert main(["call", "--to", f"unix:{tmp_path}/x.sock", "echo", "1"]) == 3
    assert main(["stats", "--to", f"{tmp_path}/admin.sock"]) == 3
    assert capsys.readouterr().err.count("\n") == 2


def test_130_for_a_call_that_was_interrupted_and_is_cancelled(serve: Serve, tmp_path: Path) -> None:
    daemon, gate = serve(PROBE, "--handlers", "1"), Gate(tmp_path)
    command = [sys.executable, "-m", "faircall", "call", "--to", daemon.tcp, "hold", gate.path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        gate.wait_for_call()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == "faircall: interrupted: the call was cancelled\n"
    assert process.returncode == 130
    assert daemon.totals()["cancelled"] == 1
    gate.open()


def test_4_for_the_deadline(shared: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    gate.hold_any_call()
    assert main(["call", "--to", shared.tcp, "--timeout", "0.3", "hold", gate.path]) == 4
    gate.open()


def test_75_for_a_busy_server(serve: Serve, tmp_path: Path, capsys: Capture) -> None:
    daemon = serve(PROBE, "--handlers", "1", "--set", "ipc.0.callqueue.total-capacity=4")
    gate = Gate(tmp_path)
    with Raw(daemon.tcp) as raw:
        raw.send(request("hold", gate.path, id=1))
        gate.wait_for_call()
        raw.send(request("echo", 2, id=2))
        raw.call("rpc.ping")
        assert main(["call", "--to", daemon.tcp, "echo", "3"]) == 75
        assert "try again in" in capsys.readouterr().err
        gate.open()
        assert {raw.receive()["id"], raw.receive()["id"]} == {1, 2}
    assert main(["call", "--to", daemon.tcp, "echo", "3"]) == 0
