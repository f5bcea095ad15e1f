"""Dispatch throttling over real processes: what a limit says is what goes, and when."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
from collections import Counter
from pathlib import Path

import pytest

from faircall.server.admin.client import refresh_call_queue
from faircall.server.cli import main

from ..daemon import PROBE, SERVICES, Daemon, launch, serving, until
from ..raw import Raw, request
from ..stalls import Stalls
from .conftest import Serve
from .gates import Gate

pytestmark = pytest.mark.slow

STAMPS = SERVICES / "stamps.py"
S = 1_000_000_000
LIMIT, CALLERS, CALLS = 50, 4, 40
# Periods begin at the multiples of their length by the machine's clock: none of this one ends here.
PERIOD_S = 366 * 86_400
# Long before that period ends, and longer than any call has to wait here: it is refused at once.
SOON = {"timeout_ms": 60_000}


def hello(user: str) -> dict[str, object]:
    return request("faircall.hello", id=-1) | {"params": {"user": user}}


def configured(folder: Path, *lines: str) -> tuple[str, str]:
    (folder / "throttle.toml").write_text("\n".join(["[throttle]", *lines]))
    return "--config", str(folder / "throttle.toml")


def stamps(daemon: Daemon) -> list[int]:
    """When each call of busy callers was claimed."""
    found = []
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(Raw(daemon.tcp, "lines")) for _ in range(CALLERS)]
        for number, raw in enumerate(raws):
            raw.send(hello(f"user-{number}"))
            raw.send(*[request("claimed_ns", id=id_) for id_ in range(CALLS)])
        for raw in raws:
            answers = [raw.receive() for _ in range(CALLS + 1)]
            found += [answer["result"] for answer in answers if answer["id"] != -1]
    return sorted(found)


def test_no_period_has_more_than_its_limit_and_each_is_used_up(
    serve: Serve, tmp_path: Path
) -> None:
    """Used up, if there was time for that: which periods are told to be so is up to the machine."""
    daemon = serve(
        STAMPS,
        "--handlers",
        "4",
        "--trust-loopback",
        *configured(tmp_path, f"calls = {LIMIT}"),
    )
    with Stalls() as stalls:
        claimed = stamps(daemon)
    (row,) = daemon.stats()["ports"][0]["throttle"]
    assert (row["limiter"], row["limit"], row["held"]) == ("server", LIMIT, 0)
    assert row["held_total_s"] > 1
    # Sent within some 50 ms: looked at in two periods at most, unless something stood still.
    assert stalls.any() or row["calls_holds"] >= len(claimed) - 2 * LIMIT
    assert row["calls_holds"] > 0
    assert len(claimed) == CALLERS * CALLS
    periods = Counter(stamp // S for stamp in claimed)
    assert max(periods.values()) <= LIMIT
    first, last = min(periods), max(periods)
    calm = [at for at in range(first + 1, last + 1) if not stalls.between(at * S, (at + 1) * S)]
    assert [at for at in calm if at < last and periods[at] < LIMIT] == []
    late_ns = [min(s % S for s in claimed if s // S == at) for at in calm]
    assert not calm or min(late_ns) < S // 10, "the first of a period goes at its beginning"


@pytest.mark.fault
def test_handlers_that_die_give_no_quota_away(serve: Serve, tmp_path: Path) -> None:
    """Whatever was charged stays charged: no period has more than its limit."""
    daemon = serve(STAMPS, "--handlers", "4", *configured(tmp_path, f"calls = {LIMIT}"))
    found: list[int] = []
    with Raw(daemon.tcp, "lines") as raw:
        raw.send(*[request("claimed_ns", id=id_) for id_ in range(3 * LIMIT)])
        for number in range(3 * LIMIT):
            answer = raw.receive()
            if "result" in answer:
                found.append(answer["result"])
            if number % 40 == 20:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(daemon.child("handler", number % 4), signal.SIGKILL)
    periods = Counter(stamp // S for stamp in found)
    assert max(periods.values()) <= LIMIT
    assert len(found) >= 3 * LIMIT - 12, "only what was claimed by the dead is lost"


def test_what_cannot_go_before_its_deadline_is_refused_at_once(
    serve: Serve, tmp_path: Path
) -> None:
    lines = [f"rates = ['method echo: calls=1 period-s={PERIOD_S}', 'method text: block']"]
    daemon = serve(PROBE, "--handlers", "2", *configured(tmp_path, *lines))
    with Raw(daemon.tcp, "lines") as raw:
        assert raw.call("echo", 1) == 1
        error = raw.ask("echo", 2, meta=SOON)["error"]
        assert (error["code"], error["data"]["reason"]) == (-32005, "throttled")
        assert error["data"]["retriable"]
        assert SOON["timeout_ms"] <= error["data"]["retry_after_ms"] <= PERIOD_S * 1000
        error = raw.ask("text", 1)["error"]
        assert (error["code"], error["data"]["retriable"]) == (-32005, False)
        assert raw.call("pid") > 0, "others are not held"
    rows = {row["limiter"]: row for row in daemon.stats()["ports"][0]["throttle"]}
    echo, text = rows["method echo"], rows["method text"]
    assert (echo["used"], echo["limit"], echo["refused"]) == (1, 1, 1)
    assert echo["opens_in_s"] > 1
    assert (text["opens_in_s"], text["refused"]) == (None, 1)
    assert daemon.totals()["refused"]["throttled"] == 2


def test_a_cap_lets_as_many_run_at_once_as_it_says(serve: Serve, tmp_path: Path) -> None:
    lines = ["rates = ['method about: running=1']"]
    daemon = serve(PROBE, "--handlers", "4", *configured(tmp_path, *lines))
    with Raw(daemon.tcp, "lines") as raw:
        raw.send(*[request("about", id=id_) for id_ in range(1, 101)])
        assert sorted(raw.receive()["id"] for _ in range(100)) == list(range(1, 101))


def reload_with(daemon: Daemon, folder: Path, *lines: str) -> list[str]:
    """The keys that a reload has applied."""
    configured(folder, *lines)
    changed = refresh_call_queue(str(daemon.admin_socket))
    assert changed["needs_restart"] == []
    return [change["key"] for change in changed["applied"]]


def test_a_reload_limits_a_server_that_had_no_limit_and_lifts_it_again(
    serve: Serve, tmp_path: Path
) -> None:
    """Calls that wait since before are limited, too; the same again gives no fresh quota."""
    daemon = serve(STAMPS, "--handlers", "1", *configured(tmp_path))
    with Raw(daemon.tcp, "lines") as raw:
        assert raw.call("claimed_ns") > 0
        assert daemon.stats()["ports"][0]["throttle"] == []
        limit = f"rates = ['method claimed_ns: calls=3 period-s={PERIOD_S}']"
        assert reload_with(daemon, tmp_path, limit) == ["throttle.rates"]
        raw.send(*[request("claimed_ns", id=id_, meta=SOON) for id_ in range(3)])
        assert all("result" in raw.receive() for _ in range(3))
        assert reload_with(daemon, tmp_path, limit) == []
        assert reload_with(daemon, tmp_path, limit, "paced = false", "calls = 999") != []
        error = raw.ask("claimed_ns", meta=SOON)["error"]
        assert error["data"]["reason"] == "throttled"
        more = f"rates = ['method claimed_ns: calls=4 period-s={PERIOD_S}']"
        reload_with(daemon, tmp_path, more)
        assert "result" in raw.ask("claimed_ns"), "three of the four were used"
        assert "error" in raw.ask("claimed_ns", meta=SOON)
        reload_with(daemon, tmp_path)
        assert "result" in raw.ask("claimed_ns")


def test_calls_that_wait_are_limited_and_held_ones_let_go(serve: Serve, tmp_path: Path) -> None:
    daemon, gate = serve(PROBE, "--handlers", "1", *configured(tmp_path)), Gate(tmp_path)
    with Raw(daemon.tcp, "lines") as raw, Raw(daemon.tcp, "lines") as other:
        raw.send(request("hold", gate.path, id=0))
        gate.wait_for_call()
        raw.send(*[request("echo", id_, id=id_) for id_ in range(1, 9)])
        until(lambda: daemon.stats()["ports"][0]["queue"]["waiting"] == 8)
        reload_with(daemon, tmp_path, f"rates = ['method echo: calls=2 period-s={PERIOD_S}']")
        until(lambda: daemon.stats()["ports"][0]["throttle"], "the reader's look")
        assert raw.call("rpc.ping"), "its pass is over"
        gate.open()
        assert [raw.receive()["id"] for _ in range(3)] == [0, 1, 2]
        assert other.call("pid") > 0
        assert daemon.stats()["ports"][0]["throttle"][0]["held"] == 6
        reload_with(daemon, tmp_path)
        assert [raw.receive()["id"] for _ in range(6)] == [3, 4, 5, 6, 7, 8]


def test_callers_without_a_backlog_go_free_where_they_may(serve: Serve, tmp_path: Path) -> None:
    limit = f"rates = ['server: calls=1 period-s={PERIOD_S}']"
    lines = (limit, "limit-without-backlog = false")
    daemon = serve(PROBE, "--handlers", "1", "--trust-loopback", *configured(tmp_path, *lines))
    gate = Gate(tmp_path)
    with Raw(daemon.tcp, "lines") as raw, Raw(daemon.tcp, "lines") as other:
        other.send(hello("other"))
        assert other.receive()["id"] == -1
        assert [raw.call("echo", n) for n in range(5)] == [*range(5)]
        assert daemon.stats()["ports"][0]["throttle"][0]["used"] == 0
        raw.send(request("hold", gate.path, id=0))
        gate.wait_for_call()
        raw.send(*[request("echo", id_, id=id_) for id_ in range(1, 5)])
        until(lambda: daemon.stats()["ports"][0]["queue"]["waiting"] == 4)
        gate.open()
        assert [raw.receive()["id"] for _ in range(2)] == [0, 1]
        until(lambda: held_by(daemon, "server") == 3, "the others are a backlog")
        assert [other.call("echo", n) for n in range(3)] == [0, 1, 2]
        assert reload_with(daemon, tmp_path, limit, "limit-without-backlog = true") == [
            "throttle.dispatch-throttling-on-non-backlog-consumer-enabled"
        ]
        error = other.ask("echo", 3, meta=SOON)["error"]
        assert error["data"]["reason"] == "throttled"


def test_calls_that_are_dropped_are_charged_where_they_are_to_be(
    serve: Serve, tmp_path: Path
) -> None:
    limit = f"rates = ['method echo: calls=5 period-s={PERIOD_S}']"
    daemon = serve(PROBE, "--handlers", "1", *configured(tmp_path, limit))
    gate, reloaded = Gate(tmp_path), (limit, "charge-dropped = true")
    with Raw(daemon.tcp, "lines") as raw, Raw(daemon.tcp, "lines") as gone:
        raw.send(request("hold", gate.path, id=0))
        gate.wait_for_call()
        assert raw.ask("echo", 1, meta={"timeout_ms": 20})["error"]["code"] == -32050
        assert reload_with(daemon, tmp_path, *reloaded) == [
            "throttle.dispatch-throttling-for-filtered-entries-enabled"
        ]
        for _ in range(3):
            assert raw.ask("echo", 1, meta={"timeout_ms": 20})["error"]["code"] == -32050
        gone.send(*[request("echo", id_, id=id_) for id_ in range(2)])
        until(lambda: daemon.stats()["ports"][0]["queue"]["waiting"] == 2)
        gone.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        until(lambda: daemon.stats()["ports"][0]["queue"]["waiting"] == 0)
        (row,) = daemon.stats()["ports"][0]["throttle"]
        assert row["used"] == 5, "three expired, two were disconnected"
        gate.open()
        assert raw.receive()["id"] == 0
        assert "error" in raw.ask("echo", 1, meta=SOON)


@pytest.mark.fault
def test_a_janitor_that_dies_leaves_the_rates_to_its_successor(
    serve: Serve, tmp_path: Path
) -> None:
    daemon = serve(PROBE, "--handlers", "1", *configured(tmp_path))
    with Raw(daemon.tcp, "lines") as raw:
        reload_with(daemon, tmp_path, f"rates = ['method echo: calls=1 period-s={PERIOD_S}']")
        assert raw.call("echo", 1) == 1
        before = daemon.child("janitor")
        os.kill(before, signal.SIGKILL)
        until(lambda: daemon.children().get("janitor", [before])[0] != before)
        reload_with(daemon, tmp_path, f"rates = ['method echo: calls=2 period-s={PERIOD_S}']")
        assert raw.call("echo", 2) == 2
        assert "error" in raw.ask("echo", 3, meta=SOON)


def command(daemon: Daemon, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    """Exit status of a command to the daemon, and what it printed."""
    capsys.readouterr()
    status = main([*args, "--to", str(daemon.admin_socket)])
    said = capsys.readouterr()
    return status, said.out + said.err


def test_rates_are_set_explained_removed_and_kept(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state.json"
    config = configured(tmp_path, f"state-file = '{state}'", "caller-calls = 7")
    limit = ("--level", "method", "--method", "echo", "--calls", "2", "--period", f"{PERIOD_S}")
    with serving(tmp_path / "first", PROBE, "--handlers", "2", *config) as daemon:
        assert command(daemon, capsys, "throttle", "set", *limit) == (
            0,
            f"set: method echo: calls=2 period-s={PERIOD_S} (version 1)\n",
        )
        refresh_call_queue(str(daemon.admin_socket))
        with Raw(daemon.tcp, "lines") as raw:
            assert [raw.call("echo", n) for n in range(2)] == [0, 1]
            assert "error" in raw.ask("echo", 3, meta=SOON)
            caller = raw.call("about")["user"]
        status, said = command(daemon, capsys, "throttle", "explain", "echo", caller, "--json")
        (port,) = json.loads(said)["ports"]
        pair, method = sorted(port["limits"], key=lambda limit: str(limit["source"]))[::-1]
        assert (status, method["source"], pair["source"]) == (0, "set", "throttle.caller-calls")
        assert (method["used"], method["limit"], method["refused"]) == (2, 2, 1)
        assert port["opens_in_s"] == method["opens_in_s"] > 1
        status, said = command(
            daemon,
            capsys,
            "throttle",
            "set",
            "--level",
            "method",
            "--method",
            "ech",
            "--calls",
            "1",
        )
        assert (status, "method 'ech' is not served; known is echo" in said) == (2, True)
    with serving(tmp_path / "second", PROBE, "--handlers", "2", *config) as daemon:
        status, said = command(daemon, capsys, "throttle", "get", "--json")
        assert json.loads(said) == {
            "version": 1,
            "rates": [
                {"source": "throttle.caller-calls", "rate": "callers of each method: calls=7"},
                {"source": "set", "rate": f"method echo: calls=2 period-s={PERIOD_S}"},
            ],
        }
        with Raw(daemon.tcp, "lines") as raw:
            assert [raw.call("echo", n) for n in range(2)] == [0, 1]
            status, _ = command(daemon, capsys, "throttle", "remove", *limit[:4])
            assert (status, raw.call("echo", 3)) == (0, 3)
    state.write_text("{}")
    broken = launch(tmp_path / "third", PROBE, *config)
    assert broken.wait() == 2
    assert "mend it, or move it away" in broken.log


FLOOD, EACH = 50, 40
MORE = 5  # rounds of a call of each: more than the held calls of all four levels may be
DAY_S = 86_400  # the longest period that a call can ask to wait for
LATEST = {"timeout_ms": DAY_S * 1000 + 1}  # later than any opening, for which none is refused


def test_a_flood_of_a_limited_method_leaves_room_for_others(serve: Serve, tmp_path: Path) -> None:
    """Fifty callers, whose calls are held until the limit is lifted. Until handlers have looked at
    a flood it fills the queue like any other; from then on held calls leave room.

    And a client that is gone keeps no call, though it closed only by a FIN.
    """
    text = f"'method text: calls=1 period-s={DAY_S}', 'method ecko: calls=1'"
    lines = [
        "[limits]",
        "keepalive-s = 1",
        f"max-timeout-ms = {DAY_S * 1000}",
        "[ipc]",
        "callqueue.total-capacity = 400",
        "callqueue.max-principal-share = 1.0",
    ]
    limit = f"rates = ['method echo: calls=50 period-s={DAY_S}', {text}]"
    config = configured(tmp_path, limit, *lines)
    daemon = serve(PROBE, "--handlers", "2", "--trust-loopback", *config)
    warned = daemon.event("rate for what is not served")
    assert (warned["key"], warned["name"], warned["nearest"]) == ("throttle.rates", "ecko", "echo")
    assert len(daemon.events("rate for what is not served")) == 1
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(Raw(daemon.tcp, "lines")) for _ in range(FLOOD)]
        for number, raw in enumerate(raws):
            raw.send(hello(f"user-{number}"))
            raw.send(*[request("echo", number, id=n, meta=LATEST) for n in range(EACH)])
        until(lambda: looked_at(daemon, "echo") == FLOOD * EACH, "the flood to be looked at")
        held, refused = held_by(daemon, "method echo"), daemon.totals()["refused"]
        neighbour = stack.enter_context(Raw(daemon.tcp, "lines"))
        assert all(neighbour.call("pid") > 0 for _ in range(20)), "no queue_full"
        for round_ in range(EACH, EACH + MORE):
            send_each(daemon, raws, round_)
        assert held_by(daemon, "method echo") > 0, "none of this waited for them to go"
        after = daemon.totals()["refused"]
        assert after["throttled"] > refused["throttled"]
        assert after == refused | {"throttled": after["throttled"]}, "for held calls, nothing else"
        assert reload_with(daemon, tmp_path, f"rates = [{text}]", *lines) == ["throttle.rates"]
        answers = [raw.receive() for raw in raws for _ in range(EACH + MORE + 1)]
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert {e["data"]["reason"] for e in errors} - {"queue_full"} == {"throttled"}, errors
    assert sum(e["data"]["reason"] == "queue_full" for e in errors) == refused["queue_full"]
    assert all(error["data"]["retry_after_ms"] > 0 for error in errors)
    went = len(answers) - len(errors) - FLOOD
    assert 0 < held < went <= 100 + 400, "what was held goes, too"
    gone = Raw(daemon.tcp, "lines")
    gone.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 1)
    gone.send(*[request("text", 1, id=id_, meta=LATEST) for id_ in range(3)])
    assert gone.receive()["id"] == 0
    until(lambda: held_by(daemon, "method text") == 2)
    gone.close()
    until(lambda: held_by(daemon, "method text") == 0, "its system says that it is gone")


def send_each(daemon: Daemon, raws: list[Raw], id_: int) -> None:
    for number, raw in enumerate(raws):
        raw.send(request("echo", number, id=id_, meta=LATEST))
    until(lambda: looked_at(daemon, "echo") == FLOOD * (id_ + 1), "more of the flood")


def looked_at(daemon: Daemon, method: str) -> int:
    """Calls of which it is known what became of them, if all are of `method`: they ran, are held
    or were refused. What waits for a handler's look is not among them."""
    (port,) = daemon.stats()["ports"]
    ran = sum(row["calls"] for row in port["methods"] if row["method"] == method)
    return int(ran + sum(port["totals"]["refused"].values()) + port["queue"]["held"])


def held_by(daemon: Daemon, limiter: str) -> int:
    rows = daemon.stats()["ports"][0]["throttle"]
    return sum(row["held"] for row in rows if row["limiter"] == limiter)
