"""The replays of incidents: who does it, what is told, and what counts as restored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faircall.server.admin.alarm_commands import commands_for
from faircall.server.cli_demo import INCIDENT_NAMES
from faircall.server.demo.incident import (
    QUIET_NS,
    Replay,
    Told,
    execute,
    executed,
    loading,
    report,
    restored,
    serving,
    told,
)
from faircall.server.demo.incident_load import LightCall
from faircall.server.demo.incidents import INCIDENTS, Cast, cast_of
from faircall.server.demo.load import LoadFailed

MS = 1_000_000
CAST = Cast("finn", "etl-1", 4)


def test_every_incident_can_be_named() -> None:
    assert tuple(INCIDENTS) == INCIDENT_NAMES


def test_a_seed_says_who_does_it() -> None:
    incident = INCIDENTS["listings"]
    casts = [cast_of(incident, seed) for seed in range(20)]
    assert casts == [cast_of(incident, seed) for seed in range(20)]
    assert len({cast.user for cast in casts}) > 3
    assert len({cast.job for cast in casts}) == 20


def test_the_first_alarm_since_the_onset_counts(tmp_path: Path) -> None:
    names = {"rule": "wait", "user": "finn", "job": "etl-1", "method": "listing"}
    events = [
        {"event": "alarm raised", "time": f"2026-01-01T00:00:0{second}.000Z", **names, "user": user}
        for second, user in ((1, "old"), (3, "finn"), (4, "late"))
    ]
    log = tmp_path / "log"
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    onset_ns = 1_767_225_602_500 * MS
    found = told(log, onset_ns)
    assert found == Told(0.5, "wait", "finn", "etl-1", "listing")
    incident = INCIDENTS["listings"]
    assert found.in_time(CAST, incident)
    assert not Told(1.5, "wait", "finn", "etl-1", "listing").in_time(CAST, incident)
    assert not Told(0.5, "wait", "finn", "etl-1", "status").in_time(CAST, incident)
    assert told(log, onset_ns + 10**10) is None


def test_it_is_restored_when_light_calls_take_no_longer_than_before() -> None:
    calm = [2 * MS] * 10
    slow = [LightCall(at * 20 * MS, 200 * MS) for at in range(10)]
    good = [LightCall(at * 20 * MS, 3 * MS) for at in range(10, 60)]
    assert restored(slow + good, 0, calm, None) == 0.38  # the last slow one is answered then
    assert restored(slow, 0, calm, None) is None
    assert restored(slow + good[: QUIET_NS // (20 * MS) - 1], 0, calm, None) is None
    assert restored(slow + good, 0, calm, 100 * MS) is None  # one of them has no answer yet
    refused = LightCall(600 * MS, MS, failed=True)
    assert restored([*slow, *good, refused], 0, calm, None) == 0.601


def test_what_limits_and_what_cancels_is_executed() -> None:
    commands = commands_for("finn", "etl-1", "listing", 100.0, "/a b/x.sock")
    assert executed(commands) == list(commands[:2])
    assert commands[0] == (
        "faircall throttle set --level caller --caller finn --calls 10 --period 1"
        " --to '/a b/x.sock'"
    )
    assert commands[1].startswith("faircall cancel --user finn --context etl-1 --method listing")


def test_who_cannot_be_limited_can_be_cancelled() -> None:
    assert commands_for("", "", "", 0, "/x") == ()
    assert commands_for("a b; rm -rf /", "", "", 1, "/x") == (
        "faircall cancel --user 'a b; rm -rf /' --to /x",
    )


def test_the_report_says_what_was_named() -> None:
    right, wrong = Told(0.5, "wait", "finn", "etl-1", "listing"), Told(0.7, "wait", "bob", "", "x")
    replays = [
        Replay("FIFO", [MS], [MS], 0, right, [], 0.25),
        Replay("fair", [MS], [MS], 37, wrong, ["faircall cancel"], None),
    ]
    lines = list(report(replays, INCIDENTS["listings"], CAST))
    assert "user, job, method" in lines[2]
    assert "0.25 s" in lines[2]
    assert "user='bob'" in lines[3]
    assert "37" in lines[3].split()
    assert lines[3].endswith("no")
    assert "  faircall cancel" in lines


@pytest.mark.slow
def test_an_incident_is_replayed_and_ended_by_commands() -> None:
    """It is finn's, whatever else runs on the machine: what others take is no excuse here."""
    incident = INCIDENTS["listings"]
    with serving(1, {"alarms.starved": "0"}) as server, loading(server, incident) as load:
        load.begin(CAST)
        began_ns = load.flood()
        load.run_until(lambda: told(server.log, began_ns) is not None)
        found = told(server.log, began_ns)
        assert found
        assert found.user == "finn"
        load.run_until(lambda: bool(load.light_calls) and bool(load.flood_answers))
        (alarm, *_) = server.alarms()
        for command in executed(alarm["commands"]):
            execute(command, load)
        with pytest.raises(LoadFailed, match="failed: faircall: nothing was changed"):
            execute(alarm["commands"][0].replace("--calls", "--bytes x --calls"), load)
        load.end()
