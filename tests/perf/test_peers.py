"""Peers of the benchmarks: what is compared with what, how servers end, each peer that is here."""

from __future__ import annotations

import asyncio
import json
import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from click.testing import CliRunner

from faircall.client.address import Address, parse_address
from faircall.perf.bench.cli import bench
from faircall.perf.bench.measure import Measured, loaded
from faircall.perf.bench.native import program
from faircall.perf.bench.plan import Group, Plan, Request
from faircall.perf.bench.result import GroupResult, result_of
from faircall.perf.peers import leash, rounds
from faircall.perf.peers.clients import Load
from faircall.perf.peers.functions import answer
from faircall.perf.peers.peer import FAIRCALL, FAIRCALL_CLIENT, Peer, Place
from faircall.perf.peers.ratios import ratio_table
from faircall.perf.peers.running import PeerFailed, run, running
from faircall.perf.peers.table import PEERS, UnknownPeer, chosen
from faircall.perf.peers.workloads import UnknownWorkload, Workload, workloads

from .tiny_server import tiny_server

FAKE = """
import os, socketserver, sys
from faircall.perf.peers.functions import answer, tell_ready
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(answer(line) + b"\\n")
socketserver.ThreadingTCPServer.request_queue_size = 128
server = socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.daemon_threads = True
for _ in range(2):
    if not os.fork():
        os.setsid()  # as a daemon would: no signal to a group finds it
        tell_ready()
        os.execvp("sleep", ["sleep", "1000"])
server.serve_forever()
"""


def fake_peer(name: str = "fake", program: str = FAKE) -> Peer:
    def command(place: Place) -> Sequence[str]:
        return [sys.executable, "-c", program, str(place.port)]

    return Peer(name=name, about="a fake", loaded="lines", command=command)


def workload(name: str, **changes: Any) -> Workload:
    (found,) = workloads(1, [name])
    return replace(found, spec=msgspec.structs.replace(found.spec, **changes))


def test_a_call_is_answered_as_json_rpc() -> None:
    request = b'{"jsonrpc":"2.0","method":"%s","params":[3],"id":7}'
    assert json.loads(answer(request % b"echo")) == {"jsonrpc": "2.0", "result": 3, "id": 7}
    assert json.loads(answer(request % b"turns"))["result"] > 0
    assert json.loads(answer(request % b"gone"))["error"]["code"] == -32601


def test_every_workload_runs_on_faircall_and_asks_for_the_same_work_of_all() -> None:
    for found in workloads(1000):
        assert PEERS[FAIRCALL].runs(found.name, found.spec.framing)
        for peer in PEERS.values():
            spec = found.spec_for(peer)
            assert [g.calls for g in spec.groups] == [g.calls for g in found.spec.groups]
    (one,) = workloads(1000, ["cpu-10ms"])
    assert (one.spec.groups[0].calls[0].params, one.spec.bare) == ([10_000], one.spec.bare)
    assert one.spec.bare is not None
    assert one.spec.bare.turns == 10_000
    with pytest.raises(UnknownWorkload, match="no workload 'cpu'; there are depth-1"):
        workloads(1, ["cpu"])


def test_only_faircall_is_told_who_calls() -> None:
    (noisy,) = workloads(1, ["noisy"])
    assert [g.user for g in noisy.spec_for(PEERS[FAIRCALL]).groups] == ["light", "heavy"]
    assert {g.user for g in noisy.spec_for(PEERS["executor"]).groups} == {""}


def test_over_http_are_those_that_speak_it() -> None:
    fit = {peer.name for peer in PEERS.values() if peer.runs("http", "http")}
    assert fit == {FAIRCALL, "uvicorn", "granian-rsgi", "granian-asgi"}


def test_who_is_named_comes_with_what_it_is_compared_with() -> None:
    assert [peer.name for peer in chosen(["celery"])] == [FAIRCALL_CLIENT, "celery"]
    assert list(chosen([])) == list(PEERS.values())
    with pytest.raises(UnknownPeer, match="no peer 'nginx'; there are faircall"):
        chosen(["nginx"])


def test_what_is_missing_is_told_as_commands() -> None:
    peer = replace(
        fake_peer(), modules={"json": "json", "no_such": "no-such"}, programs={"nil-d": "nil"}
    )
    assert peer.missing() == "pip install no-such && apt-get install nil"
    assert fake_peer().missing() == ""


def test_each_peer_runs_beside_what_it_is_compared_with() -> None:
    names = [FAIRCALL, FAIRCALL_CLIENT, "uvicorn", "zeromq", "executor", "celery"]
    found = [(a.name if a else "-", b.name) for a, b in rounds.turns(chosen(names))]
    assert found == [
        ("-", FAIRCALL),
        (FAIRCALL, "uvicorn"),
        (FAIRCALL, "zeromq"),
        ("-", FAIRCALL),
        (FAIRCALL, "executor"),
        ("-", FAIRCALL_CLIENT),
        (FAIRCALL_CLIENT, "celery"),
    ]


def test_a_ratio_tells_how_many_times_better_faircall_is() -> None:
    ours = Measured({"calls/s": 300.0, "p50 ms": 2.0})
    theirs = Measured({"calls/s": 100.0, "p50 ms": 5.0})
    assert rounds.ratio_of("calls/s", ours, theirs) == 3
    assert rounds.ratio_of("p50 ms", ours, theirs) == 2.5
    assert math.isnan(rounds.ratio_of("calls/s", ours, Measured({})))


def test_ratios_are_of_neighbours_and_a_peer_that_fails_is_a_warning() -> None:
    rates = iter([100.0, 50.0, 200.0, 50.0])  # faircall, executor; then a faster machine

    def measure(_: Workload, peer: Peer, seed: int) -> Measured:
        if peer.name == "zeromq":
            raise PeerFailed("zeromq: gone")
        return Measured({"calls/s": next(rates)})

    one = workload("depth-1")
    found = rounds.measured(chosen(["zeromq", "executor"]), one, 2, measure)
    assert found["executor"].ratios == [2, 4]
    suite = rounds.suite_document(one, found, 1.0)
    document = {"suites": [suite]}
    table = [line.split() for line in ratio_table([document]).splitlines()[:6]]
    assert table[3:] == [[FAIRCALL, "150"], ["zeromq", "failed"], ["executor", "x", "3", "±33%"]]
    (case,) = (case for case in suite["cases"] if case["labels"]["peer"] == "zeromq")
    assert case["warnings"] == ["zeromq: gone"]


def test_what_is_not_installed_is_named_and_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "fake", replace(fake_peer(), modules={"no_such": "no-such"}))
    found = CliRunner().invoke(bench, ["peers", "--peer", "fake", "--list"])
    assert found.exit_code == 0
    assert "a fake (pip install no-such)" in found.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--peer", "nginx"], "no peer 'nginx'"),
        (["--workload", "cpu"], "no workload 'cpu'"),
    ],
)
def test_what_cannot_run_is_told(words: list[str], why: str) -> None:
    found = CliRunner().invoke(bench, ["peers", *words])
    assert (found.exit_code, why in found.output) == (2, True), found.output


Caller = Callable[[str, Sequence[Any]], Awaitable[Any]]


async def lines_result(address: Address, plan: Plan) -> GroupResult:
    """What a load of callers finds that write newline-delimited JSON."""
    writers = []

    async def connect(address: Address) -> Caller:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writers.append(writer)

        async def call(method: str, params: Sequence[Any]) -> Any:
            body = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
            writer.write(json.dumps(body).encode() + b"\n")
            return json.loads(await reader.readline())["result"]

        return call

    found = await Load(plan, connect).run()
    for writer in writers:
        writer.close()
        await writer.wait_closed()
    return result_of(found).groups[0]


@pytest.mark.parametrize("rate", [0.0, 100.0])
def test_the_client_in_python_counts_what_was_answered(tmp_path: Path, rate: float) -> None:
    with tiny_server("tcp", tmp_path) as (tiny, address):
        requests = [Request("echo", "[1]"), Request("fail", "[1]")]
        group = Group(name="main", requests=requests, connections=3, rate=rate)
        plan = Plan(address=address, groups=[group], seconds=0.3, drain_s=2.0)
        found = asyncio.run(lines_result(address, plan))
    assert found.sent == sum(tiny.calls.values())
    by_name = {method.name: method.total for method in found.methods}
    assert by_name["echo"]["ok"] == tiny.calls["", "echo"] > 0
    assert by_name["fail"]["error"] == tiny.calls["", "fail"] > 0
    assert found.latency.count == found.measured()["ok"]


def test_calls_of_an_open_loop_that_found_no_slot_are_counted() -> None:
    async def never(address: Address) -> Caller:
        async def call(method: str, params: Sequence[Any]) -> Any:
            await asyncio.Event().wait()

        return call

    group = Group(name="main", requests=[Request("echo")], rate=200.0)
    plan = Plan(address=parse_address("h:1"), groups=[group], seconds=0.2, drain_s=0.1)
    (found,) = result_of(asyncio.run(Load(plan, never).run())).groups
    assert found.total()["timeout"] == 1
    assert found.unsent > 0


@pytest.mark.slow
def test_a_peer_is_measured_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    peer = fake_peer()
    spec = workload("depth-1", seconds=1.0, warm_up_s=0.1).spec_for(peer)
    with running(peer, spec) as target:
        of_it = psutil.Process(target.pid).children(recursive=True)
        plan = spec.plan(target.address, 1, 1)
        found = loaded(spec, target, lambda tick: run(peer, plan, print, tick), lambda *_: None)
    assert found.figures["calls/s"] > 0
    assert found.figures["server cores"] > 0
    assert len(of_it) == 3
    assert not [process for process in of_it if process.is_running()]


@pytest.mark.slow
@pytest.mark.fault
def test_nothing_is_left_of_a_peer_whose_leash_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("faircall.perf.peers.running.STOP_S", 0.1)
    peer, one = fake_peer(), workload("depth-1")
    with running(peer, one.spec_for(peer)) as target:
        held = psutil.Process(target.pid).children(recursive=True)
        os.kill(target.pid, signal.SIGSTOP)
    assert len(held) == 3
    psutil.wait_procs(held, timeout=30)
    assert not [process for process in held if process.is_running()]


@pytest.mark.slow
def test_a_peer_that_does_not_start_says_why() -> None:
    peer, one = fake_peer("sad", "raise SystemExit('no more')"), workload("depth-1")
    with pytest.raises(PeerFailed, match="sad: it ended: no more"), running(peer, one.spec):
        pass


@pytest.mark.slow
@pytest.mark.fault
def test_the_leash_ends_all_when_who_measures_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the measuring process closes its end of the pipe, and no more is needed."""
    program = (
        "import subprocess, sys, time\n"
        f"words = [sys.executable, '-m', {leash.__name__!r}, 'sleep', '1000']\n"
        "held = subprocess.Popen(words, stdin=subprocess.PIPE)\n"
        "print(held.pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    measuring = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert measuring.stdout is not None
    pid = int(measuring.stdout.readline())
    ended = os.pidfd_open(pid)
    measuring.kill()
    measuring.wait()
    measuring.stdout.close()
    assert select.select([ended], [], [], 30.0)[0]
    os.close(ended)


HERE = [name for name, peer in PEERS.items() if peer.command and not peer.missing()]


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
@pytest.mark.skipif(program() is None, reason="the load generator needs a C compiler")
def test_each_peer_that_is_installed_answers(name: str) -> None:
    """Two calls at once on two connections, as the load comes."""
    peer, one = PEERS[name], workload("cpu-1ms")
    with running(peer, one.spec_for(peer)) as target:
        group = Group(name="main", requests=[Request("turns", "[10]")], connections=2, calls=20)
        plan = Plan(address=target.address, groups=[group], seconds=10.0)
        (found,) = run(peer, plan, print).groups
    assert found.total() == {**dict.fromkeys(found.total(), 0), "ok": 20}
