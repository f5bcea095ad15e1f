"""`faircall reload`, SIGHUP and `faircall.refresh_call_queue`, on a daemon that serves calls."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from faircall.server.cli import main

from ..daemon import PROBE, TCP, Daemon, serving, until
from ..raw import Raw, request
from .conftest import UNIX

pytestmark = pytest.mark.slow

FIFO = '"callqueue.impl" = "LinkedBlockingQueue"\ncallqueue.total-capacity = 4096\n'
TWO = "scheduler.priority.levels = 2\nfaircallqueue.multiplexer.weights = [5, 1]\n"
QUICK = "decay-scheduler.period-ms = 100\n"
# 200 calls have not decayed away before `until` gives up: a sweep takes no more than 1 in 100.
LASTING = "decay-scheduler.period-ms = 250\ndecay-scheduler.decay-factor = 0.99\n"


class Configured:
    """A daemon and its file; `reload` gives the exit status and what was printed."""

    def __init__(self, daemon: Daemon, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.daemon, self._file, self._capsys = daemon, file, capsys

    def write(self, port: str = "", more: str = "") -> None:
        self._file.write_text(f"{more}\n[ipc.0]\n{port}")

    def reload(self, *args: str) -> tuple[int, str]:
        self._capsys.readouterr()
        status = main(["reload", "--to", str(self.daemon.admin_socket), *args])
        said = self._capsys.readouterr()
        return status, said.out + said.err

    def change(self, port: str = "", more: str = "") -> dict[str, Any]:
        """Write, reload; what was answered."""
        self.write(port, more)
        status, said = self.reload("--json")
        assert status == 0, said
        answer: dict[str, Any] = json.loads(said)
        return answer

    def queue(self) -> dict[str, Any]:
        found: dict[str, Any] = self.daemon.stats()["ports"][0]["queue"]
        return found

    def levels(self) -> list[tuple[int, int]]:
        """Weight and capacity of each; what else is told of them changes with the calls."""
        return [(level["weight"], level["capacity"]) for level in self.queue()["levels"]]

    def level_of(self, user: str) -> int | None:
        """As the server tells it, without a call."""
        users = self.daemon.stats()["ports"][0]["users"]["top"]
        return next((found["level"] for found in users if found["user"] == user), None)

    def sweeps(self) -> int:
        """How many the janitor has begun."""
        done: int = self.daemon.stats()["ports"][0]["sweeps"]["done"]
        return done

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Without the moments."""
        found = [dict(line) for line in self.daemon.events(event)]
        for line in found:
            del line["time"]
        return found


def configured(folder: Path) -> AbstractContextManager[Daemon]:
    """A daemon that goes by `faircall.toml` in `folder`."""
    file = folder / "faircall.toml"
    file.write_text(f"[ipc.0]\n{QUICK}")
    args = ("--config", str(file), "--handlers", "2", "--readers", "2", "--trust-loopback")
    more = ("--set", "limits.max-batch=50")
    return serving(folder, PROBE, *args, *more, binds=(TCP, UNIX + "#0"))


@pytest.fixture
def fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Configured]:
    """Of the test alone."""
    with configured(tmp_path) as daemon:
        yield Configured(daemon, tmp_path / "faircall.toml", capsys)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with configured(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


@pytest.fixture
def d(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> Configured:
    """One that all have in turn: it goes by its first settings at the beginning of each test."""
    found = Configured(daemon, daemon.folder / "faircall.toml", capsys)
    assert found.change(QUICK)["needs_restart"] == []
    return found


def keys(changes: list[dict[str, str]]) -> set[str]:
    return {change["key"].removeprefix("ipc.0.") for change in changes}


def test_live_keys_are_applied_and_others_reported(d: Configured) -> None:
    more = "[limits]\nmax-batch = 9\nmax-depth = 64\n[log]\nlevel = 'debug'\n"
    changed = d.change(f"{TWO}{QUICK}callqueue.total-capacity = 1_000_000\n", more)
    assert {"scheduler.priority.levels", "faircallqueue.multiplexer.weights", "log.level"} <= keys(
        changed["applied"]
    )
    levels = next(c for c in changed["applied"] if c["key"].endswith("priority.levels"))
    assert (levels["old"], levels["new"]) == ("4", "2")
    # the flag still counts before the file; the segment has not slots for a million
    assert keys(changed["needs_restart"]) == {"limits.max-depth", "callqueue.total-capacity"}
    assert "limits.max-batch" in changed["unchanged"]["keys"]
    queue = d.queue()
    assert [level["weight"] for level in queue["levels"]] == [5, 1]
    assert sum(level["capacity"] for level in queue["levels"]) == 4096
    status, said = d.reload()
    assert status == 0
    assert said.startswith("applied: 0\nunchanged: ")
    assert "  limits.max-depth: 128 runs, 64 is configured\n" in said
    assert "limits.max-batch" in d.reload("--verbose")[1]


@pytest.mark.parametrize(
    ("port", "more", "wrong"),
    [
        (TWO + "decay-scheduler.thresholds = [1, 2]\n", "", "decay-scheduler.thresholds = [1, 2]"),
        (TWO + "no.such.key = 1\n", "", "no.such.key = 1: unknown key"),
        (TWO, "[limits\n", "faircall.toml"),
        (TWO + "callqueue.total-capacity = 100_000\ncallqueue.capacity.weights = [9000, 1]\n", "",
         "callqueue.total-capacity = 100000"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_changes_nothing(
    d: Configured, port: str, more: str, wrong: str
) -> None:
    before, refused = d.levels(), len(d.daemon.events("reload refused"))
    d.write(port, more)
    status, said = d.reload()
    assert status == 2
    assert "nothing was changed" in said
    assert wrong in said
    until(lambda: len(d.daemon.events("reload refused")) > refused, "the refusal in the log")
    assert wrong in d.daemon.events("reload refused")[-1]["reason"]
    assert d.levels() == before
    with Raw(d.daemon.tcp) as raw:
        assert raw.call("echo", 1) == 1
    assert d.change(QUICK)["applied"] == []


def test_a_signal_and_the_command_log_the_same(d: Configured) -> None:
    before = len(d.logged("reloaded"))
    d.change(TWO + QUICK)
    d.change(QUICK)
    d.write(TWO + QUICK)
    d.daemon.send(signal.SIGHUP)
    until(lambda: len(d.logged("reloaded")) - before == 3, "the third reload")
    by_command, back, by_signal = d.logged("reloaded")[before:]
    assert by_signal == by_command
    assert by_command != back
    assert len(d.queue()["levels"]) == 2


def test_a_successor_of_any_process_goes_by_the_new_settings(d: Configured) -> None:
    d.change(f"{TWO}{QUICK}backoff.enable = false\n")
    for role in ("janitor", "reader", "admin"):
        before = d.daemon.child(role)
        os.kill(before, signal.SIGKILL)
        _replaced(d.daemon, role, before)
    until(lambda: _answers(d.daemon), "stats")
    queue = d.queue()
    assert [level["weight"] for level in queue["levels"]] == [5, 1]
    assert queue["backoff"] is False
    assert d.change(f"{TWO}{QUICK}backoff.enable = false\n")["applied"] == []


def _replaced(daemon: Daemon, role: str, before: int) -> None:
    until(lambda: daemon.child(role) != before, f"another {role}")


def _answers(daemon: Daemon) -> bool:
    try:
        return bool(daemon.stats())
    except OSError:
        return False


def test_a_janitor_that_is_stopped_meanwhile_does_not_lose_a_reload(d: Configured) -> None:
    os.kill(d.daemon.child("janitor"), signal.SIGSTOP)
    assert "scheduler.priority.levels" in keys(d.change(TWO + QUICK)["applied"])
    assert len(d.queue()["levels"]) == 2


def test_levels_follow_from_the_same_history_after_a_reload(fresh: Configured) -> None:
    """A period so long that no sweep could tell it anew, after one that has told it. Nobody has
    called before: shares are of all that is remembered."""
    d = fresh
    d.change(LASTING)
    with Raw(d.daemon.tcp) as heavy, Raw(d.daemon.unix) as light:
        heavy.ask("faircall.hello", "heavy")
        light.ask("faircall.hello", "light")
        for _ in range(200):
            heavy.call("echo", 1)
        for _ in range(25):  # no newcomer any more
            light.call("echo", 1)
        charged = d.sweeps()
        until(lambda: d.sweeps() > charged, "a sweep that finds these calls")
        long = "decay-scheduler.period-ms = 3600000\n"
        d.change(long)
        sweeps = d.sweeps()
        seen = [heavy.call("about")["level"]]
        for port in (TWO, FIFO, "scheduler.impl = 'DefaultRpcScheduler'\n", ""):
            d.change(long + port)
            seen.append(heavy.call("about")["level"])
            assert light.call("about")["level"] == 0
        assert d.sweeps() == sweeps
    assert seen == [3, 1, 0, 0, 3]


def test_another_period_begins_at_once(d: Configured) -> None:
    d.change("decay-scheduler.period-ms = 3600000\n")
    d.change("decay-scheduler.period-ms = 50\n")
    before = d.sweeps()
    until(lambda: d.sweeps() > before + 2, "sweeps")


class Load(threading.Thread):
    """One client that keeps calls in flight until it is told to end; what was answered, by id."""

    def __init__(self, address: str, user: str, window: int) -> None:
        super().__init__()
        self.ended, self.sent = threading.Event(), 0
        self.answers: Counter[int] = Counter()
        self.failed: list[Any] = []
        self._raw, self._window = Raw(address), window
        self._raw.ask("faircall.hello", user)

    def run(self) -> None:
        with self._raw as raw:
            while not self.ended.is_set():
                ids = range(self.sent, self.sent + self._window)
                raw.send(*(request("echo", id_, id=id_ + 1) for id_ in ids))
                self.sent += self._window
                self._take(raw, self._window)

    def _take(self, raw: Raw, count: int) -> None:
        for _ in range(count):
            answer = raw.receive()
            self.answers[answer["id"]] += 1
            if answer.get("result") != answer["id"] - 1:
                self.failed.append(answer)


# From four levels to two and back, other weights and schedulers, FIFO and back, and more levels.
RELOADS = (
    TWO + QUICK,
    QUICK,
    QUICK + "faircallqueue.multiplexer.weights = [1, 2, 3, 4]\ncallqueue.in-turn = false\n",
    QUICK + "scheduler.impl = 'HistoryRpcScheduler'\nbackoff.enable = false\n",
    QUICK + "scheduler.impl = 'DefaultRpcScheduler'\ncallqueue.scan = 'cursor'\n",
    QUICK + FIFO,
    QUICK + "scheduler.priority.levels = 14\n",
)


def levels_of(port: str) -> int:
    return {TWO + QUICK: 2, QUICK + FIFO: 1, RELOADS[-1]: 14}.get(port, 4)


def test_under_load_every_call_is_answered_once_and_none_fails(fresh: Configured) -> None:
    d = fresh
    loads = [
        Load(address, user, window)
        for address, user, window in (
            (d.daemon.tcp, "heavy", 100),
            (d.daemon.unix, "heavy", 100),
            (d.daemon.tcp, "light", 3),
            (d.daemon.unix, "middle", 40),
        )
    ]
    for load in loads:
        load.start()
    try:
        for number, port in enumerate(2 * RELOADS):
            if number == len(RELOADS):  # one janitor dies, with or before the order
                os.kill(d.daemon.child("janitor"), signal.SIGKILL)
            assert d.change(port)["applied"]
            assert len(d.queue()["levels"]) == levels_of(port)
        until(lambda: sum(load.sent for load in loads) > 5000, "calls")
    finally:
        for load in loads:
            load.ended.set()
        for load in loads:
            load.join()
    for load in loads:
        assert load.failed == []
        assert load.answers == Counter(range(1, load.sent + 1))
    assert not d.daemon.events("reader died")
    assert not d.daemon.events("handler died")


def test_a_log_level_reaches_every_process(d: Configured) -> None:
    """And those that are forked later."""
    before, died = d.daemon.child("handler"), len(d.daemon.events("handler died"))
    d.change(QUICK, "[log]\nlevel = 'error'\n")
    os.kill(before, signal.SIGKILL)
    after = until(lambda: [p for p in d.daemon.children().get("handler", []) if p != before][1:])
    assert len(after) == 1
    with Raw(d.daemon.tcp) as raw:
        assert raw.call("echo", 1) == 1
    assert len(d.daemon.events("handler died")) == died
    d.change(QUICK, "[log]\nlevel = 'debug'\n")
    with Raw(d.daemon.tcp) as raw:
        raw.ask("die", signal.SIGKILL)
    until(lambda: len(d.daemon.events("handler died")) > died, "the death in the log")


def test_a_flood_is_levelled_long_before_the_next_sweep(fresh: Configured) -> None:
    d = fresh
    d.change("decay-scheduler.period-ms = 3600000\n")
    sweeps = d.sweeps()
    with Raw(d.daemon.tcp) as flood, Raw(d.daemon.unix) as light:
        flood.ask("faircall.hello", "flood")
        light.ask("faircall.hello", "rare")
        for _ in range(1000):  # so many that what newcomers have called is little
            flood.call("echo", 1)
        for _ in range(25):  # no newcomer any more
            light.call("echo", 1)

        def is_at(raw: Raw, user: str, level: int) -> bool:
            """Asked for by a call only where there is hope: each of them weighs, too."""
            return d.level_of(user) == level and bool(raw.call("about")["level"] == level)

        until(lambda: is_at(flood, "flood", 3), "a look")
        until(lambda: is_at(light, "rare", 0), "another look")
    assert d.sweeps() == sweeps


def _wait_for_level(raw: Raw, level: int) -> None:
    until(lambda: raw.call("about")["level"] == level, level)  # a new name earns its row


MINE = """
class Named:
    def levels(self, costs, calls, names):
        return [2 if name == "chosen" else 0 for name in names]
"""


def test_a_scheduler_of_ones_own_comes_and_goes(d: Configured) -> None:
    (d.daemon.folder / "mine.py").write_text(MINE)
    with Raw(d.daemon.tcp) as raw:
        raw.ask("faircall.hello", "chosen")
        raw.call("echo", 1)
        for name, level in (("mine:Named", 2), ("DefaultRpcScheduler", 0), ("mine:Named", 2)):
            d.change(f"scheduler.impl = '{name}'\n{QUICK}")
            _wait_for_level(raw, level)
        before = d.daemon.child("janitor")
        os.kill(before, signal.SIGKILL)
        _replaced(d.daemon, "janitor", before)
        d.change(f"scheduler.impl = 'mine:Absent'\n{QUICK}")
        assert len(d.logged("scheduler cannot be loaded")) == 1
        assert raw.call("about")["level"] == 2
