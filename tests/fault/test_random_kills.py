"""Processes are killed and stopped at random under load, and every promise holds.

Real readers, handlers, janitor and acceptor, in a daemon whose segment the test sees; clients in
processes of their own. `history` says what is promised to clients; afterwards no call is in flight,
every slot is free, the segment is sound, and every role has the descriptors that it began with.
`pytest -rP` shows what was met, and how long replacements took.
"""

from __future__ import annotations

import os
import re
import select
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from faircall.server.supervisor.roles import bodies_for, preload
from faircall.shm.states import Life, Phase

from ..conftest import Load as LoadSettings
from ..daemon import LEDGER, PATIENCE_S, until
from ..server.supervised import Daemon, daemon
from .history import read, summary, violations
from .load import Load
from .nemesis import Nemesis, Strike, replaced_after_s

pytestmark = pytest.mark.fault

STOPPED_AT_MOST_S = 2.0  # until replaced; beside other tests, on a machine that is busy: more
BUSY_AT_MOST_S = PATIENCE_S
MEAN_PAUSE_S = 0.12
FEW, MANY = 40, 300  # signals
CLIENTS = 3
COUNTS = {"reader": 2, "handler": 3, "janitor": 1, "acceptor": 1}
PLACES = [(role, number) for role, count in COUNTS.items() for number in range(count)]
CONFIG = """
[server]
bind = ["tcp://127.0.0.1:0", "unix:{folder}/x.sock"]
readers = 2
[handlers]
count = 3
hang-grace-ms = 200
[ipc]
callqueue.total-capacity = 64
callqueue.max-principal-share = 0.5
[limits]
segment-payload-bytes = "8 MiB"
max-message-bytes = "2 MiB"
identities = 64
methods = 32
[shutdown]
accept-ms = 0
[admin]
socket = "{folder}/admin.sock"
"""


@pytest.mark.parametrize(
    ("kills", "stopped_at_most_s"),
    [
        pytest.param(FEW, BUSY_AT_MOST_S, marks=pytest.mark.slow),
        pytest.param(
            int(os.environ.get("FAIRCALL_KILLS", MANY)),
            STOPPED_AT_MOST_S,
            marks=pytest.mark.stress,
        ),
    ],
)
def test_random_kills_under_load(
    load: LoadSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills: int,
    stopped_at_most_s: float,
) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    monkeypatch.setenv("LEDGER", str(ledger))
    settings, target = load(CONFIG.format(folder=tmp_path)), f"{LEDGER}:service"
    preload()
    with daemon(settings, tmp_path / "log", bodies_for(target), target) as d:
        d.wait_for(Phase.RUNNING)
        before = until(lambda: descriptors(d), "descriptors of every child")
        addresses = [line["address"] for line in until(lambda: all_addresses(d))]
        clients = Load(addresses, CLIENTS, seed=kills, folder=tmp_path)
        strikes = strike(d, kills)
        clients.stop()
        assert_quiet_and_sound(d, strikes)
        until(lambda: descriptors(d) == before, f"the descriptors of {before}")
        pids = d.children()
        assert d.stop() == 0
        assert_nothing_is_left(pids)
        assert not [line for line in d.log() if line["event"] in ("audit failed", "chore failed")]
        log = d.log()
    connections, runs = list(read(clients.files)), Counter(ledger.read_text().split())
    counts = summary(connections, runs)
    print(f"{kills} signals: {dict(counts)}")
    assert list(violations(connections, runs)) == []
    assert_met_enough(counts, kills)
    assert_replaced(strikes, log, stopped_at_most_s)


def all_addresses(d: Daemon) -> list[dict[str, Any]]:
    found = d.log("ready")
    return found if len(found) == 2 else []


def strike(d: Daemon, kills: int) -> Sequence[Strike]:
    nemesis = Nemesis(d, PLACES, seed=kills)
    while len(nemesis.strikes) < kills:
        select.select([], [], [], nemesis.pause_s(MEAN_PAUSE_S))  # at random, not for anything
        nemesis.strike()
    return nemesis.strikes


def assert_quiet_and_sound(d: Daemon, strikes: Sequence[Strike]) -> None:
    """Every child is at work again, every slot is free, and every index says so.

    One that was stopped still looks ready until it is found out, and must be gone by then.
    """
    struck = {strike.pid for strike in strikes}
    until(lambda: struck.isdisjoint(d.children()), "those that were struck are gone")
    until(lambda: all(d.is_ready(*place) for place in PLACES), "every child")
    until(lambda: all(d.shared.row(*place)["status"] == Life.READY for place in PLACES))
    states = d.shared.table.recovery.count_states
    until(lambda: {state for state, count in states().items() if count} == {"FREE"}, "free slots")
    assert d.shared.audit() == []


def assert_nothing_is_left(pids: Sequence[int]) -> None:
    """No process and no shared memory (which this process made)."""
    until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()], pids)
    assert not [name for name in os.listdir("/dev/shm") if f"-{os.getpid()}-" in name]


def descriptors(d: Daemon) -> dict[tuple[str, int], Counter[str]]:
    """How many descriptors of each kind every child has, connections apart; nothing when unsettled.

    A child that a busy machine made look hung is replaced even now: then the next look tells.
    """
    rows = {place: d.shared.row(*place) for place in PLACES}
    until(lambda: not any(row["connections"] for row in rows.values()), "no connections")
    try:
        return {place: descriptor_kinds(row["pid"]) for place, row in rows.items()}
    except OSError:  # a process that has ended, or is yet to come
        return {}


def descriptor_kinds(pid: int) -> Counter[str]:
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return Counter(re.sub(r"\d+", "", link) for link in links)


def assert_met_enough(counts: Counter[str], kills: int) -> None:
    """The run met what it is about; a short one beside other tests does not meet everything."""
    assert counts["result"] > 2 * kills
    assert counts["closed"] > 0
    if kills >= MANY:
        assert all(counts[met] for met in ("left", "raised", "busy", "expired", "died", "rerun"))


def assert_replaced(
    strikes: Sequence[Strike], log: Sequence[dict[str, Any]], stopped_at_most_s: float
) -> None:
    times = replaced_after_s(strikes, log)
    stopped = sorted(s for strike, s in times if strike.signal == signal.SIGSTOP)
    killed = sorted(s for strike, s in times if strike.signal != signal.SIGSTOP)
    for name, seconds in (("killed", killed), ("stopped", stopped)):
        assert seconds, f"no child was {name}"
        middle, most = seconds[len(seconds) // 2], seconds[-1]
        print(f"{len(seconds)} {name}, replaced after {middle:.3f} s, at most {most:.3f} s")
    assert stopped[-1] <= stopped_at_most_s
