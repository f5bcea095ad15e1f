"""Handlers get successors: new code by `faircall reload --workers`, recycling by calls."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faircall.client import Client
from faircall.server.cli import main

from ..daemon import PROBE, Daemon, until
from ..raw import Raw
from .conftest import Serve
from .gates import gates

pytestmark = pytest.mark.slow

CODE = """
from pathlib import Path
from faircall import Service
service = Service()
@service.method
def version():
    return {version}
@service.method
def hold(path):
    return Path(path).read_text()
@service.method
def {name}():
    return "{name}"
"""
NOT_FOUND, DIED = -32601, -32053


class Load:
    """Clients that call without a pause; what they were answered."""

    def __init__(self, address: str, method: str) -> None:
        self.answers: list[Any] = []
        self.failed: list[Exception] = []
        self._address, self._method, self._over = address, method, threading.Event()
        self._threads = [threading.Thread(target=self._call, daemon=True) for _ in range(3)]

    def _call(self) -> None:
        with Client(self._address, retry=None) as client:
            while not self._over.is_set():
                try:
                    self.answers.append(client.call(self._method))
                except Exception as error:
                    self.failed.append(error)

    @contextlib.contextmanager
    def running(self) -> Iterator[Load]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def reload(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["reload", "--workers", "--to", str(daemon.admin_socket)])
    said = capsys.readouterr()
    return status, said.out + said.err


def test_new_code_takes_over_under_load_or_not_at_all(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "code.py"
    code.write_text(CODE.format(version=1, name="gone"))
    daemon = serve(code, "--handlers", "2")
    before = daemon.children()["handler"]
    with Load(daemon.tcp, "version").running() as load:
        until(lambda: len(load.answers) > 50, "answers")
        code.write_text(
            CODE.format(version="never", name="x") + "raise RuntimeError('half written')"
        )
        status, said = reload(daemon, capsys)
        assert status == 1
        assert "half written" in said
        assert "code.py" in said
        assert daemon.children()["handler"] == before
        assert set(load.answers) == {1}
        code.write_text(CODE.format(version=2, name="fresh"))
        assert reload(daemon, capsys)[0] == 0
        count = len(load.answers)
        until(lambda: len(load.answers) > count + 50, "more answers")
    assert load.failed == []
    assert set(load.answers[:count]) <= {1, 2}
    later = Counter(load.answers[count:])
    assert set(later) <= {1, 2}
    assert later[1] <= 3, "those that were on their way, whenever each thread has noted its own"
    assert not set(before) & set(daemon.children()["handler"])
    with contextlib.closing(Raw(daemon.tcp)) as raw:
        assert raw.call("fresh") == "fresh"
        assert raw.ask("gone")["error"]["code"] == NOT_FOUND


def test_what_is_new_is_found_when_the_last_old_handler_has_gone(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str], stack: contextlib.ExitStack
) -> None:
    """Both old handlers are in a call: one finishes it, one is killed in it."""
    code = tmp_path / "code.py"
    code.write_text(CODE.format(version=1, name="gone"))
    daemon = serve(code, "--handlers", "2")
    raw, *held = (stack.enter_context(contextlib.closing(Raw(daemon.tcp))) for _ in range(3))
    places = gates(tmp_path, 2)
    for each, gate in zip(held, places, strict=True):
        each.send({"jsonrpc": "2.0", "method": "hold", "params": [gate.path], "id": 1})
        gate.wait_for_call()
    old = [h["pid"] for h in daemon.stats()["ports"][0]["handlers"]]
    code.write_text(CODE.format(version=22, name="fresh"))
    done: list[int] = []
    roll = threading.Thread(target=lambda: done.append(reload(daemon, capsys)[0]))
    roll.start()
    assert raw.call("version") == 22  # by the only handler that is free
    assert raw.ask("fresh")["error"]["code"] == NOT_FOUND
    assert raw.ask("gone")["error"]["code"] == NOT_FOUND

    def states() -> list[str]:
        return [h["state"] for h in daemon.stats()["ports"][0]["handlers"]]

    until(lambda: sorted(states()) == ["idle", "leaving", "running"], "the first old one to leave")
    first = daemon.stats()["ports"][0]["handlers"][0]
    assert first["state"] == "leaving"
    assert first["pid"] == old[0]
    os.kill(old[0], signal.SIGKILL)
    places[1].open("finished")
    answers = [each.receive() for each in held]
    assert {a["error"]["code"] if "error" in a else a["result"] for a in answers} == {
        DIED,
        "finished",
    }
    roll.join()
    assert done == [0]
    assert raw.call("fresh") == "fresh"
    assert len(daemon.children()["handler"]) == 2
    assert daemon.event("handler died")["pid"] == old[0]


def test_handlers_are_followed_by_others_after_so_many_calls(serve: Serve) -> None:
    daemon = serve(PROBE, "--handlers", "2", "--set", "handlers.max-calls=30")
    at_work = []
    with Load(daemon.tcp, "about").running() as load:

        def count() -> int:
            handlers = daemon.stats()["ports"][0]["handlers"]
            return sum(h["state"] in ("idle", "running") for h in handlers)

        def look() -> bool:
            """Rows are read one after the other: one look may find the old handler leaving, and
            have passed its successor's row before that was ready."""
            at_work.append(max(count(), count()))
            replaced = len(daemon.events("handler replaced"))
            return replaced >= 3 and len({about["index"] for about in load.answers}) > 1

        until(look, "three that were replaced")
    assert load.failed == []
    assert {about["index"] for about in load.answers} == {0, 1}  # as without any spare place
    assert min(at_work) >= 2
    assert "(handlers.max-calls)" in daemon.events("handler due")[0]["why"]
