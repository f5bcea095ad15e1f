"""The first and last steps of a child: each test forks one and reads what it found."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faircall.server.supervisor.child import (
    CRASHED,
    STARTED_NO_MORE,
    become_child,
    close_all_but,
    leave_signals,
    run_child,
)

from ..daemon import PATIENCE_S

_PR_GET_PDEATHSIG = 2
LEFT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of 3.12: pytest has threads
        return os.fork()


def in_child(body: Callable[[int], Any]) -> tuple[Any, int]:
    """What `body(write end of a pipe)` returns in a child, and the child's exit status.

    A status below 0 is the signal that ended it; None is returned by one that did not live to say.
    """
    read_end, write_end = os.pipe()
    pid = fork()
    if not pid:
        try:
            os.write(write_end, json.dumps(body(write_end)).encode())
        except BaseException as error:
            os.write(write_end, json.dumps(repr(error)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return (json.loads(said) if said else None), status


def death_signal() -> int:
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value


def open_descriptors() -> list[int]:
    """Above standard error, but for the one that reads the folder."""
    found = [int(name) for name in os.listdir("/proc/self/fd")]
    return sorted(fd for fd in found if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}"))


def test_a_child_has_a_name_dies_with_its_parent_and_keeps_what_it_needs() -> None:
    parent, kept = os.getpid(), os.pipe()

    def body(pipe: int) -> Any:
        become_child(parent, "a-name-that-is-too-long", [pipe, kept[0]])
        with open("/proc/self/comm") as comm:
            name = comm.read().strip()
        return [name, death_signal(), open_descriptors(), [kept[0], pipe]]

    said, _ = in_child(body)
    name, number, found, expected = said
    for fd in kept:
        os.close(fd)
    assert name == "a-name-that-is-"
    assert number == signal.SIGKILL
    assert found == sorted(expected)


def test_a_child_whose_parent_died_first_does_not_begin() -> None:
    parent = os.getpid()
    said, status = in_child(lambda pipe: become_child(parent + 1, "late", [pipe]))
    assert (said, status) == (None, STARTED_NO_MORE)


def test_a_crash_writes_nothing_where_the_parent_would_have_written(tmp_path: Path) -> None:
    """Its descriptor's number is another file's by then: in a reader, a client's connection."""
    parent, path = os.getpid(), tmp_path / "client"

    def body(pipe: int) -> None:
        parents = os.dup(2)
        faulthandler.enable(parents)
        become_child(parent, "crashes", [pipe])
        client = os.open(path, os.O_CREAT | os.O_WRONLY)
        os.dup2(client, parents)
        os.kill(os.getpid(), signal.SIGSEGV)

    assert in_child(body) == (None, -signal.SIGSEGV)
    assert path.read_bytes() == b""


def test_a_child_does_not_outlive_its_parent() -> None:
    alive_read, alive_write = os.pipe()
    parent = fork()
    if not parent:
        supervisor = os.getpid()
        if not os.fork():
            become_child(supervisor, "child", [alive_write])
            os.write(alive_write, b"!")
            signal.pause()
        signal.pause()
    os.close(alive_write)
    with os.fdopen(alive_read, "rb", buffering=0) as alive:
        assert alive.read(1) == b"!"
        os.kill(parent, signal.SIGKILL)
        assert select.select([alive], [], [], PATIENCE_S)[0], "it lives on"
        assert alive.read(1) == b""
    os.waitpid(parent, 0)


@pytest.mark.parametrize("runs_user_code", [False, True])
def test_signals_of_the_terminal_are_left_to_the_supervisor(runs_user_code: bool) -> None:
    def body(pipe: int) -> Any:
        leave_signals(runs_user_code)
        for number in LEFT:
            os.kill(os.getpid(), number)
        return "still here"

    assert in_child(body) == ("still here", 0)


def test_programs_that_user_code_starts_are_ended_by_signals() -> None:
    def body(pipe: int) -> Any:
        leave_signals(runs_user_code=True)
        return subprocess.run(["sh", "-c", "kill -TERM $$; exit 7"], check=False).returncode

    assert in_child(body)[0] == -signal.SIGTERM


def ends_itself(pipe: int) -> str:
    os.kill(os.getpid(), signal.SIGTERM)
    return "ignored"


def test_processes_that_user_code_forks_are_ended_by_signals() -> None:
    def body(pipe: int) -> Any:
        leave_signals(runs_user_code=True)
        return in_child(ends_itself)[1]

    assert in_child(body)[0] == -signal.SIGTERM


def test_what_user_code_does_with_a_signal_is_its_own_affair() -> None:
    def body(pipe: int) -> Any:
        leave_signals(runs_user_code=True)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return in_child(ends_itself)

    assert in_child(body)[0] == ["ignored", 0]


def test_a_broken_pipe_is_an_error_and_not_an_end() -> None:
    def body(pipe: int) -> Any:
        leave_signals(runs_user_code=False)
        read_end, write_end = os.pipe()
        os.close(read_end)
        try:
            os.write(write_end, b"x")
        except BrokenPipeError:
            return "told"

    assert in_child(body) == ("told", 0)


def test_descriptors_between_those_that_are_kept_are_closed() -> None:
    def body(pipe: int) -> Any:
        pipes = [fd for _ in range(5) for fd in os.pipe()]
        kept = [pipe, *pipes[::3]]
        close_all_but(kept)
        return [open_descriptors(), sorted(kept)]

    found, kept = in_child(body)[0]
    assert found == kept


def crash(status: int) -> int:
    raise RuntimeError(status)


@pytest.mark.parametrize(
    ("body", "crashed", "status"),
    [
        (lambda: 7, lambda error: 9, 7),
        (lambda: crash(1), lambda error: 9, 9),
        (lambda: sys.exit(5), lambda error: int(error.code), 5),
        (lambda: crash(1), lambda error: crash(2), CRASHED),
    ],
)
def test_the_exit_status_is_that_of_the_body_or_of_its_crash(
    body: Callable[[], int], crashed: Callable[[BaseException], int], status: int
) -> None:
    def run(pipe: int) -> Any:
        run_child(body, crashed)

    assert in_child(run) == (None, status)
