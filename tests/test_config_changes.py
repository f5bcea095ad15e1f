"""What a reload may change, and what it says of the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircall.server.settings import catalogue
from faircall.server.settings.changes import merge
from faircall.server.settings.declaration import ConfigError
from faircall.server.settings.load import Source

from .conftest import Load

ROOM = {8020: 8000}


def test_live_values_are_taken_and_others_kept(load: Load) -> None:
    running = load("[limits]\nmax-batch = 5\n[ipc.8020]\nbackoff.enable = true\n")
    read = load("[limits]\nmax-batch = 6\n[ipc.8020]\nbackoff.enable = false\n")
    settings, changes = merge(running, read, ROOM)
    assert [str(c) for c in changes.applied] == ["ipc.8020.backoff.enable: true -> false"]
    assert [str(c) for c in changes.needs_restart] == ["limits.max-batch: 5 -> 6"]
    assert len(changes.unchanged) == len(catalogue.OWN) + len(catalogue.PORT) - 2
    assert settings.limits.max_batch == 5
    assert settings.ports[8020].callqueue.backoff_enable is False
    assert settings.origins["ipc.8020.backoff.enable"] == "faircall.toml:4"
    assert settings.origins["limits.max-batch"] == "faircall.toml:2"


def test_the_same_again_changes_nothing(load: Load) -> None:
    running = load("[ipc.8020]\nscheduler.priority.levels = 2\n")
    settings, changes = merge(running, load("[ipc.8020]\nscheduler.priority.levels = 2\n"), ROOM)
    assert settings == running
    assert (changes.applied, changes.needs_restart) == ([], [])
    assert not changes.touches(8020)


def test_derived_values_change_with_those_that_they_follow_from(load: Load) -> None:
    _, changes = merge(load(), load("[ipc.8020]\nscheduler.priority.levels = 2\n"), ROOM)
    assert changes.touches(8020)
    assert not changes.touches(8021)
    assert {c.key.removeprefix("ipc.8020."): c.new for c in changes.applied} == {
        "callqueue.capacity.weights": "[1, 1]",
        "faircallqueue.multiplexer.weights": "[2, 1]",
        "scheduler.priority.levels": "2",
        "decay-scheduler.thresholds": "[50]",
        "decay-scheduler.backoff.responsetime.thresholds": "[10000, 20000]",
        "history-scheduler.thresholds": "[500]",
    }


@pytest.mark.parametrize(("capacity", "live"), [(8000, True), (8001, False)])
def test_the_capacity_is_live_up_to_the_slots_of_the_segment(
    load: Load, capacity: int, live: bool
) -> None:
    read = load(f"[ipc.8020]\ncallqueue.total-capacity = {capacity}\n")
    settings, changes = merge(load(), read, ROOM)
    assert settings.ports[8020].callqueue.total_capacity == (capacity if live else 4096)
    assert len(changes.applied if live else changes.needs_restart) == 1


def test_weights_that_need_a_capacity_that_cannot_be_are_an_error(load: Load) -> None:
    read = load(
        "[ipc.8020]\ncallqueue.total-capacity = 9000\ncallqueue.capacity.weights = [4094,1,1,1]\n"
    )
    with pytest.raises(ConfigError, match=r"total-capacity = 9000: cannot be above 8000.* 4097"):
        merge(load(), read, ROOM)


def test_a_port_that_is_not_there_any_more_goes_on_as_it_is(load: Load) -> None:
    running = load("[ipc.8020]\n[ipc.8021]\nbackoff.enable = false\n")
    settings, changes = merge(running, load("[ipc.8020]\n[ipc.9000]\n"), {8020: 1, 8021: 1})
    assert settings.ports == running.ports
    assert [c.key for c in changes.needs_restart] == [
        "server.bind",
    ]


def test_a_source_is_read_with_the_same_precedence_again(tmp_path: Path) -> None:
    path = tmp_path / "faircall.toml"
    path.write_text("[limits]\nmax-batch = 5\nmax-depth = 9\n")
    flags = {"limits.max-batch": (7, "--set")}
    source = Source(flags, {"FAIRCALL_LIMITS_METHODS": "99"}, path)
    first = source.read()
    path.write_text("[limits]\nmax-batch = 6\nmax-depth = 10\nmethods = 20\n")
    again = source.read_again()
    assert replace(first.limits, max_depth=10) == again.limits
    assert (again.limits.max_batch, again.limits.methods) == (7, 99)


def test_the_file_that_a_variable_names_is_read_again_too(tmp_path: Path) -> None:
    path = tmp_path / "faircall.toml"
    path.write_text("")
    source = Source({}, {"FAIRCALL_CONFIG": str(path)})
    path.write_text("[limits]\nmax-batch = 6\n")
    assert source.read_again().limits.max_batch == 6
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        source.read_again()


def test_what_cannot_be_read_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="/dev/null: is no regular file"):
        Source({}, {}, Path("/dev/null")).read_again()
