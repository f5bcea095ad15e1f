"""Two groups of handlers: the one's queue is full, and the other's calls do not notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall.server.cli import main

from ..daemon import PROBE, Daemon, serving, started, until
from ..raw import Raw, request
from .gates import gates, wait_for_calls

pytestmark = pytest.mark.slow

CAPACITY = 8
SETTINGS = f"""
[handlers]
count = 1
[handlers.slow]
methods = ["hold", "environ*"]
count = 2
capacity = {CAPACITY}
env = {{ WHERE = "{{group}}-{{index}}" }}
[ipc]
callqueue.max-principal-share = 1.0
scheduler.priority.levels = 1  # whatever level a sweep gives the caller, the whole queue is its own
"""
LONG = 300_000  # bytes: above what a reader decodes


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("groups")
    (folder / "x.toml").write_text(SETTINGS)
    with serving(folder, PROBE, "--config", str(folder / "x.toml"), "--trust-loopback") as daemon:
        yield daemon


def test_a_full_queue_of_one_group_leaves_the_others_alone(grouped: Daemon, tmp_path: Path) -> None:
    held = gates(tmp_path, 2)
    with Raw(grouped.tcp) as flood, Raw(grouped.tcp) as light:
        flood.send(*[request("hold", gate.path, id=f"run{n}") for n, gate in enumerate(held)])
        wait_for_calls(held)
        flood.send(*[request("environment", "WHERE", id=n) for n in range(2 * CAPACITY)])
        answers = [flood.receive() for _ in range(CAPACITY)]
        assert {answer["error"]["data"]["reason"] for answer in answers} == {"queue_full"}
        assert light.call("echo", 1) == 1
        assert flood.call("echo", 2) == 2
        queue = grouped.stats()["ports"][0]["queue"]
        assert queue["waiting"] == CAPACITY
        assert [group["group"] for group in queue["groups"]] == ["default", "slow"]
        assert [group["waiting"] for group in queue["groups"]] == [0, CAPACITY]
        assert [group["running"] for group in queue["groups"]] == [0, 2]
        assert [group["handlers"] for group in queue["groups"]] == [1, 2]
        for gate in held:
            gate.open("")
        found = [flood.receive() for _ in range(2 + CAPACITY)]
        where = {answer["result"] for answer in found} - {""}
        assert where <= {"slow-0", "slow-1"}, "the environment of its group"


def test_a_long_message_goes_to_its_group(grouped: Daemon) -> None:
    padding = "x" * LONG
    with Raw(grouped.tcp) as raw:
        assert raw.call("environment", "WHERE", padding=padding).startswith("slow-")
        assert len(raw.call("text", 1, padding=padding)) == 1
        calls = [request("environment", "WHERE", id=1), request("text", 1, id=2, padding=padding)]
        raw.send(calls)
        found = {answer["id"]: answer["result"] for answer in raw.receive()}
        assert found[1].startswith("slow-"), "a batch of two groups is taken apart"
        assert len(found[2]) == 1


def test_a_handler_that_died_is_followed_by_one_of_its_group(grouped: Daemon) -> None:
    with Raw(grouped.tcp) as raw:
        before = grouped.child("handler", 0)
        assert raw.call("pid") == before
        raw.send(request("leave_by_os", id=1))
        assert raw.receive()["error"]["code"] == -32053
        assert until(lambda: grouped.children()["handler"][0] != before)
        assert raw.call("environment", "WHERE").startswith("slow-")
        assert raw.call("echo", 1) == 1


def test_a_reload_says_that_groups_need_a_restart(
    grouped: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = grouped.folder / "x.toml"
    settings.write_text(SETTINGS.replace("count = 2", "count = 3"))
    assert main(["reload", "--to", str(grouped.admin_socket)]) == 0
    printed = capsys.readouterr().out
    assert "handlers.slow.count" in printed
    assert "restart" in printed


def test_a_pattern_that_matches_nothing_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('[handlers.gpu]\nmethods = ["visoin.*"]\n')
    with started(tmp_path, PROBE, "--config", str(tmp_path / "x.toml")) as daemon:
        assert daemon.wait() != 0
        assert 'handlers.gpu.methods: "visoin.*" matches no method' in daemon.log.replace("\\", "")
