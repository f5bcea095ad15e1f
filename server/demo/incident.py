"""`faircall demo incident NAME`: an incident on real servers, from its onset to its end.

    FIFO, then the fair queue:   calm, the incident, the commands that the alarm prints, calm again

Told are the light user's latencies, whether the alarm named the right user, job and method and
when, and how long it took from the first command until the light user was served as before. All
figures are measured, once each.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from ..settings.processors import available
from .demo import FAIR, FIFO, MOST_HANDLERS, quantile
from .incident_load import SECOND_NS, IncidentLoad, LightCall
from .incidents import INCIDENTS, Cast, Incident, cast_of
from .load import LoadFailed
from .server import DemoServer, NotServing, environment, events_of, running_server

SERVICE = "faircall.server.demo.incident_service:service"
CALM_S, INCIDENT_S, AFTER_S = 1.0, 2.5, 2.5
LISTEN_S = 0.2
IN_TIME_S = 1.0  # in which an alarm has to name who it is
GIVES_UP_S = 3.0
AS_BEFORE = 3.0  # times the calm p99, and at least LEAST_MS, is as good as before
LEAST_MS = 20.0
QUIET_NS = SECOND_NS // 2
EXECUTED = ("throttle", "cancel")
ALARMS: Mapping[str, str] = {"alarms.clear-after-ms": "500"}


@dataclass(frozen=True, slots=True)
class Told:
    """The first alarm: so many seconds after the onset, naming these."""

    after_s: float
    rule: str
    user: str
    job: str
    method: str

    def names(self, cast: Cast, incident: Incident) -> bool:
        """Whether it is whoever does it."""
        return (self.user, self.job, self.method) == (cast.user, cast.job, incident.method)

    def in_time(self, cast: Cast, incident: Incident) -> bool:
        return self.names(cast, incident) and self.after_s <= IN_TIME_S


@dataclass(frozen=True, slots=True)
class Replay:
    """One queue: the light user's latencies in ns, calm and in the incident, how many of its calls
    were refused, the alarm, the commands and how long it took until all was as before; None: it was
    not, while we looked."""

    queue: str
    calm_ns: Sequence[int]
    incident_ns: Sequence[int]
    failed: int
    told: Told | None
    commands: Sequence[str]
    restored_s: float | None


def run_incident(name: str, seed: int) -> int:
    """Replay it and print it; the exit status: 1 if an alarm was not raised, late or wrong."""
    incident = INCIDENTS[name]
    cast = cast_of(incident, seed)
    handlers = min(MOST_HANDLERS, available().count)
    click.echo(
        f"{incident.what}: user {cast.user}, job {cast.job}, method {incident.method}, on"
        f" {cast.connections} connections; {handlers} handlers; seed {seed}"
    )
    try:
        found = [
            replay(queue, settings, incident, cast, handlers)
            for queue, settings in (("FIFO", FIFO), ("fair", FAIR))
        ]
    except (LoadFailed, NotServing, OSError) as error:
        click.echo(f"faircall: the replay failed: {error}", err=True)
        return 1
    for line in report(found, incident, cast):
        click.echo(line)
    return 0 if all(each.told and each.told.in_time(cast, incident) for each in found) else 1


def replay(
    queue: str, settings: Mapping[str, str], incident: Incident, cast: Cast, handlers: int
) -> Replay:
    """LoadFailed, NotServing, OSError."""
    click.echo(f"replaying {CALM_S + INCIDENT_S + AFTER_S:.0f} s and more: {queue} ...")
    with serving(handlers, settings) as server, loading(server, incident) as load:
        load.run(CALM_S)
        calm_ns = time.monotonic_ns()
        load.begin(cast)
        load.run(LISTEN_S)  # what was due while it connected
        onset_ns, began_ns = time.monotonic_ns(), load.flood()
        load.run(INCIDENT_S)
        alarms = server.alarms()
        commands = [line for alarm in alarms[:1] for line in alarm["commands"]]
        started_ns = time.monotonic_ns()
        for command in executed(commands):
            execute(command, load)
        load.run(AFTER_S)
        calls = load.light_calls
        calm = [call.took_ns for call in calls if call.due_ns < calm_ns]
        in_it = [call for call in calls if onset_ns <= call.due_ns < started_ns]
        during, failed = [call.took_ns for call in in_it], sum(call.failed for call in in_it)
        restored_s = restored(calls, started_ns, calm, load.oldest_light_ns)
        return Replay(queue, calm, during, failed, told(server.log, began_ns), commands, restored_s)


def executed(commands: Sequence[str]) -> list[str]:
    """The limit, and what cancels; not what blocks, and not what takes the limit back."""
    words = [shlex.split(command) for command in commands]
    wanted = [line for line in words if line[1] in EXECUTED and line[2] != "remove"]
    return [shlex.join(line) for line in wanted if "blocked" not in line]


def execute(command: str, load: IncidentLoad) -> None:
    """Run it as it is printed, while the load goes on. LoadFailed if it fails."""
    words = shlex.split(command)
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        env=environment(os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    load.run_until(lambda: process.poll() is not None)
    said = process.communicate()[1]
    if process.returncode:
        raise LoadFailed(f"`{command}` failed: {said.decode(errors='replace').strip()}")


def told(log: Path, began_ns: int) -> Told | None:
    """The first alarm that was raised since `began_ns`."""
    for event in events_of(log.read_text()):
        if event.get("event") == "alarm raised":
            after_s = datetime.fromisoformat(event["time"]).timestamp() - began_ns / 1e9
            if after_s > -0.01:
                names = (event[name] for name in ("rule", "user", "job", "method"))
                return Told(round(after_s, 3), *names)
    return None


def restored(
    calls: Sequence[LightCall], started_ns: int, calm: Sequence[int], unanswered_ns: int | None
) -> float | None:
    """Seconds from the first command until the light user's calls took no longer than before,
    for half a second; calls that have no answer yet, the oldest due at `unanswered_ns`, did."""
    limit_ns = max(LEAST_MS * 1e6, AS_BEFORE * quantile(calm, 0.99)) if calm else LEAST_MS * 1e6
    after = [call for call in calls if call.due_ns >= started_ns]
    if not after or (unanswered_ns is not None and unanswered_ns < after[-1].due_ns - limit_ns):
        return None
    since_ns = started_ns
    for call in sorted(after, key=lambda call: call.due_ns):
        if call.failed or call.took_ns > limit_ns:
            since_ns = call.due_ns + call.took_ns
        elif call.due_ns - since_ns >= QUIET_NS:
            return (since_ns - started_ns) / 1e9
    return None


@contextlib.contextmanager
def serving(handlers: int, settings: Mapping[str, str]) -> Iterator[DemoServer]:
    with running_server(handlers, {**settings, **ALARMS}, SERVICE) as server:
        yield server


@contextlib.contextmanager
def loading(server: DemoServer, incident: Incident) -> Iterator[IncidentLoad]:
    load = IncidentLoad(server.address, incident)
    try:
        yield load
    finally:
        load.close()


def report(found: Sequence[Replay], incident: Incident, cast: Cast) -> Iterator[str]:
    """A table, then what the alarm printed."""
    who = "heartbeats" if incident.light_method == "heartbeat" else "light user"
    rows: list[tuple[str, ...]] = [
        (
            "queue",
            f"{who}: calm p99",
            "p50",
            "p99",
            "max",
            "failed",
            "alarm after",
            "names",
            "restored after",
        )
    ]
    rows += [_row(each, incident, cast) for each in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield ""
    yield from ("   ".join(map(str.rjust, row, widths)) for row in rows)
    yield ""
    yield "printed by the alarm of the last one (the first two were executed):"
    yield from (f"  {command}" for command in found[-1].commands)
    yield (
        f"restored: until calls of the light user took at most {AS_BEFORE:.0f} times the calm p99,"
        f" and {LEAST_MS:.0f} ms at most if that is more, for half a second; with the start of the"
        " commands."
    )


def _row(each: Replay, incident: Incident, cast: Cast) -> tuple[str, ...]:
    during = [_ms(quantile(each.incident_ns, part)) for part in (0.5, 0.99, 1.0)]
    alarm = ("none", "-")
    if each.told:
        is_right = "user, job, method" if each.told.names(cast, incident) else f"{each.told}"
        alarm = f"{each.told.after_s:.2f} s ({each.told.rule})", is_right
    restored_s = "no" if each.restored_s is None else f"{each.restored_s:.2f} s"
    calm = _ms(quantile(each.calm_ns, 0.99))
    return each.queue, calm, *during, str(each.failed), *alarm, restored_s


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms"


def run_alarms(name: str, seeds: Sequence[int]) -> int:
    """Only whether the alarm names who it is in time, on the fair queue: one server, for each
    seed an incident until the alarm; the exit status: 1 if more than one in twenty was wrong."""
    incident, right = INCIDENTS[name], 0
    times: list[float] = []
    handlers = min(MOST_HANDLERS, available().count)
    try:
        with serving(handlers, FAIR) as server, loading(server, incident) as load:
            load.run(CALM_S)
            for seed in seeds:
                cast = cast_of(incident, seed)
                found = _alarm_of(server, load, cast)
                is_right = found is not None and found.in_time(cast, incident)
                right += is_right
                times += [found.after_s] if found else []
                wrong = "" if is_right else "  WRONG"
                click.echo(f"{name} seed {seed}: {cast} -> {found}{wrong}")
    except (LoadFailed, NotServing, OSError) as error:
        click.echo(f"faircall: the replay failed: {error}", err=True)
        return 1
    slowest = f"{max(times):.2f} s" if times else "-"
    click.echo(f"{name}: {right} of {len(seeds)} named within {IN_TIME_S:.0f} s, slowest {slowest}")
    return 0 if right >= 0.95 * len(seeds) else 1


def _alarm_of(server: DemoServer, load: IncidentLoad, cast: Cast) -> Told | None:
    """One incident until its alarm, and quiet after it."""
    load.begin(cast)
    load.run(0.2)
    began_ns = load.flood()
    _run_until_told(server, load, began_ns)
    load.end()
    gives_up_ns = time.monotonic_ns() + int(10 * SECOND_NS)
    while server.alarms() and time.monotonic_ns() < gives_up_ns:
        load.run(0.2)
    load.run(0.3)
    return told(server.log, began_ns)


def _run_until_told(server: DemoServer, load: IncidentLoad, began_ns: int) -> None:
    end_ns = time.monotonic_ns() + int(GIVES_UP_S * SECOND_NS)
    while time.monotonic_ns() < end_ns and told(server.log, began_ns) is None:
        load.run(0.1)
