"""Both generators count what a server counts: loops, framings, users, outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faircall.client.address import Address, parse_address
from faircall.perf.bench import native
from faircall.perf.bench.load import NO_COMPILER, _program
from faircall.perf.bench.native import LoadFailed, run_native
from faircall.perf.bench.plan import Group, Plan, Request
from faircall.perf.bench.portable import run_portable
from faircall.perf.bench.result import Result

from .tiny_server import tiny_server

ECHO = Request("echo", '["hello"]')
Run = Callable[[Plan], Result]


def _in_c(plan: Plan) -> Result:
    path = native.program()
    if path is None:
        pytest.skip("there is no C compiler: cc, or $CC")
    return run_native(path, plan)


@pytest.fixture(params=["c", "python"])
def run(request: pytest.FixtureRequest) -> Run:
    return _in_c if request.param == "c" else run_portable


def plan_of(address: Address, *groups: Group, seconds: float = 30.0) -> Plan:
    """Ends when all groups have made their calls."""
    return Plan(address=address, groups=groups, seconds=seconds)


@pytest.mark.parametrize("scheme", ["tcp", "http", "unix", "http+unix"])
def test_a_closed_loop_makes_its_calls_under_its_name(
    run: Run, scheme: str, tmp_path: Path
) -> None:
    with tiny_server(scheme, tmp_path) as (tiny, address):
        light = Group(name="light", user="l", requests=[ECHO], connections=3, depth=4, calls=100)
        heavy = Group(name="heavy", user="h", requests=[ECHO], calls=50)
        found = run(plan_of(address, light, heavy))
    assert tiny.calls == {("l", "echo"): 100, ("h", "echo"): 50}
    for name, calls in (("light", 100), ("heavy", 50)):
        group = found.group(name)
        assert (group.sent, group.total()["ok"], group.measured()["ok"]) == (calls,) * 3
        assert (group.unsent, group.refused, group.lost, group.stray) == (0, 0, 0, 0)
        assert group.latency.count == sum(s.latency.count for s in group.seconds) == calls
        assert 0 < group.latency.quantile(0.5) <= group.latency.largest


@pytest.mark.parametrize(("connections", "depth", "calls"), [(1, 1, 1), (2, 2, 4), (4, 1, 5)])
def test_a_closed_loop_that_starts_late_waits_for_its_last_calls(
    run: Run, tmp_path: Path, connections: int, depth: int, calls: int
) -> None:
    with tiny_server("tcp", tmp_path) as (_, address):
        late = Group(name="late", requests=[ECHO], starts_s=0.1)
        group = replace(late, connections=connections, depth=depth, calls=calls)
        found = run(plan_of(address, group)).group("late")
    assert (found.sent, found.total()["ok"]) == (calls, calls)


@pytest.mark.parametrize("scheme", ["tcp", "http"])
def test_an_open_loop_makes_the_calls_that_are_due(run: Run, scheme: str, tmp_path: Path) -> None:
    with tiny_server(scheme, tmp_path) as (tiny, address):
        group = Group(name="open", requests=[ECHO], connections=2, depth=2, rate=2000, calls=300)
        found = run(plan_of(address, group)).group("open")
    assert sum(tiny.calls.values()) == found.sent == found.total()["ok"] == 300


def test_calls_of_the_warm_up_do_not_count(run: Run, tmp_path: Path) -> None:
    with tiny_server("tcp", tmp_path) as (tiny, address):
        group = Group(name="g", requests=[ECHO], rate=500, calls=200)
        found = run(Plan(address=address, groups=[group], seconds=30, warm_up_s=0.2)).group("g")
    assert sum(tiny.calls.values()) == found.sent == found.total()["ok"] == 200
    assert 0 < found.measured()["ok"] < found.sent


def test_outcomes_are_told_apart_by_method(run: Run, tmp_path: Path) -> None:
    with tiny_server("tcp", tmp_path) as (tiny, address):
        methods = [ECHO, Request("fail", weight=2), Request("shed", weight=0.5)]
        group = Group(name="g", requests=methods, connections=2, calls=400)
        found = run(plan_of(address, group)).group("g")
    by_name = {method.name: +method.total for method in found.methods}
    expected = {
        name: {outcome: tiny.calls["", name]}
        for name, outcome in (("echo", "ok"), ("fail", "error"), ("shed", "shed"))
    }
    assert by_name == expected
    assert tiny.calls["", "fail"] > tiny.calls["", "echo"] > tiny.calls["", "shed"] > 0
    assert found.latency.count == tiny.calls["", "echo"]


def test_calls_of_a_connection_that_ends_are_lost_with_it(run: Run, tmp_path: Path) -> None:
    with tiny_server("tcp", tmp_path) as (_, address):
        group = Group(name="g", requests=[Request("hangup")], calls=1)
        found = run(plan_of(address, group)).group("g")
    assert (found.total()["eof"], found.total()["ok"], found.lost) == (1, 0, 1)


def test_large_calls_come_back_whole(run: Run, tmp_path: Path) -> None:
    with tiny_server("http", tmp_path) as (_, address):
        large = Request("echo", '["%s"]' % ("x" * 1_000_000))
        found = run(plan_of(address, Group(name="g", requests=[large], calls=5))).group("g")
    assert (found.total()["ok"], found.stray) == (5, 0)


def test_a_page_begins_when_all_parts_of_the_last_one_came(run: Run, tmp_path: Path) -> None:
    parts = [ECHO, Request("image", "[1]", weight=3)]
    with tiny_server("tcp", tmp_path) as (tiny, address):
        group = Group(
            name="reader", user="u", users=3, page=True, requests=parts, connections=2, calls=40
        )
        found = run(plan_of(address, group)).group("reader")
    assert tiny.calls == {
        (f"u-{user}", method): calls
        for user in (1, 2, 3)
        for method, calls in (("echo", 10), ("image", 30))
    }
    assert (found.pages.ok, found.pages.failed, found.sent, found.answered) == (30, 0, 120, 120)
    assert found.pages.latency.count == 30
    assert found.pages.latency.quantile(0.5) >= found.latency.quantile(0.5)
    assert found.bytes_in > 120 * len('{"jsonrpc":"2.0","id":1,"result":[1]}')
    assert found.bytes_out > 120 * len('{"jsonrpc":"2.0","method":"echo","params":["hello"]}')


def test_a_page_of_which_a_part_fails_is_none(run: Run, tmp_path: Path) -> None:
    with tiny_server("tcp", tmp_path) as (_, address):
        parts = [ECHO, Request("fail")]
        group = Group(name="g", page=True, requests=parts, connections=2, calls=8)
        result = run(plan_of(address, group))
        found = result.group("g")
    assert (found.pages.ok, found.pages.failed) == (0, 4)
    assert [w for w in result.warnings() if "as asked" in w]
    assert found.classes() == {"ok": 4, "defunct": 0, "timeout": 0, "shed": 0, "error": 4}


def test_a_server_that_hangs_up_is_defunct(run: Run, tmp_path: Path) -> None:
    with tiny_server("tcp", tmp_path) as (_, address):
        group = Group(name="g", requests=[Request("hangup")], connections=2, calls=2)
        found = run(plan_of(address, group)).group("g")
    assert found.classes() == {"ok": 0, "defunct": 2, "timeout": 0, "shed": 0, "error": 0}


def test_several_threads_share_the_calls(tmp_path: Path) -> None:
    with tiny_server("tcp", tmp_path) as (tiny, address):
        group = Group(name="g", requests=[ECHO], connections=5, calls=101)
        found = _in_c(Plan(address=address, groups=[group], seconds=30, threads=2)).group("g")
    assert sum(tiny.calls.values()) == found.total()["ok"] == 101


@pytest.mark.parametrize("scheme", ["unix:{}/nobody", "tcp://127.0.0.1:1"])
def test_nobody_there_is_said(run: Run, scheme: str, tmp_path: Path) -> None:
    address = parse_address(scheme.format(tmp_path))
    group = Group(name="g", requests=[ECHO])
    with pytest.raises(LoadFailed, match=r"cannot connect.*(refused|No such file)"):
        run(Plan(address=address, groups=[group], seconds=1, patience_s=0.1))


def test_the_program_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if native.compiler() is None:
        pytest.skip("there is no C compiler: cc, or $CC")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = native.program()
    assert first is not None
    made = first.stat().st_mtime_ns
    assert native.program() == first
    assert first.stat().st_mtime_ns == made
    assert list((tmp_path / "faircall").iterdir()) == [first]


def test_without_a_compiler_a_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    notes: list[str] = []
    _program.cache_clear()
    assert _program(notes.append) is None
    assert notes == [NO_COMPILER]
    _program.cache_clear()
