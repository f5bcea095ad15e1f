"""Ends a forked process immediately before its n-th bytecode inside shared-memory code.

A process that dies leaves nothing but the words that it stored, so two deaths between the same two
stores leave the same world: `stores` finds the points right behind each store, and killing there
covers them all. (`make chaos` kills before every bytecode all the same.)
"""

from __future__ import annotations

import dis
import enum
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

import faircall.shm.table
from faircall.shm.mutex import BROKEN_SECTION

TRACED = (os.path.dirname(faircall.shm.table.__file__), os.path.join("fault", "roles.py"))
ESCAPED = 71  # exit status of a victim whose injected exception left the operation
UNEXPECTED = 3  # exit status of a victim that raised something of its own

# Bytecodes that move values between a frame's own places and go on elsewhere: they store nothing.
IDLE = {
    number
    for name, number in dis.opmap.items()
    if name in ("RESUME", "NOP", "PRECALL", "PUSH_NULL", "COPY", "SWAP", "KW_NAMES")
    or name.startswith(("LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "JUMP_", "POP_JUMP_"))
}

Step = Callable[[FrameType, str, Any], Any]  # a trace function
Words = npt.NDArray[np.uint64]
BLOCK = 512  # words


@dataclass(frozen=True, slots=True)
class Watched:
    """The words by whose changes kill points differ."""

    always: Sequence[Words]
    lasting: Sequence[Words]  # large tables: no operation takes back what it stored there


class Fate(enum.Enum):
    """What befalls the victim."""

    KILL = "SIGKILL"
    RAISE = "an exception"
    STOP = "SIGSTOP"


class Injected(BaseException):
    """Raised where no code expects an exception."""


def meet(fate: Fate, point: int, action: Callable[[], object]) -> bool:
    """Run `action` in a fork that meets its `fate` before bytecode `point`; False: it ended first.

    `fate` is KILL or RAISE; points count from 1. A raised exception ends the process, too: from
    within a section by itself, from elsewhere as it would end any process that does not expect it.
    """
    status = wait_for(start(lambda: _meet(fate, point, action)))
    if status == 0:
        return False
    if os.WIFSIGNALED(status):
        assert fate is Fate.KILL
        assert os.WTERMSIG(status) == signal.SIGKILL
    else:
        assert fate is Fate.RAISE
        assert os.waitstatus_to_exitcode(status) in (BROKEN_SECTION, ESCAPED)
    return True


def stop_at(point: int, action: Callable[[], object]) -> int:
    """Run `action` in a fork that stops before bytecode `point`: its pid, or 0 if it ended."""
    pid = start(lambda: _meet(Fate.STOP, point, action))
    _, status = os.waitpid(pid, os.WUNTRACED)
    return pid if os.WIFSTOPPED(status) else 0


def stores(action: Callable[[], object], watched: Watched) -> list[int]:
    """The points of `action` right behind a store into `watched`, and the very first point.

    Runs it, in a fork: what it changes, stays changed.
    """
    found = [1]
    before = b""
    looked_at = [*watched.always, *_changed(action, watched)]

    def now() -> bytes:
        return b"".join([words.tobytes() for words in looked_at])

    point, last = 0, -1

    def step(frame: FrameType, event: str, argument: Any) -> Step:
        nonlocal before, point, last
        if event == "opcode":
            point += 1
            if last not in IDLE and (found_now := now()) != before:
                before = found_now
                found.append(point)
            last = frame.f_code.co_code[frame.f_lasti]
        return step

    def run() -> list[int]:
        nonlocal before
        before = now()
        traced(action, step)
        return sorted(set(found))

    return told(run)


def _changed(action: Callable[[], object], watched: Watched) -> list[Words]:
    """The blocks of what is lasting that `action` changes; what it changed is put back."""
    everything = [*watched.always, *watched.lasting]
    before = [words.copy() for words in everything]
    status = wait_for(start(action))
    assert status == 0, f"the operation failed by itself: {status}"
    lasting = zip(watched.lasting, before[len(watched.always) :], strict=True)
    blocks = [
        words[at : at + BLOCK]
        for words, old in lasting
        for at in range(0, len(words), BLOCK)
        if not np.array_equal(words[at : at + BLOCK], old[at : at + BLOCK])
    ]
    for words, old in zip(everything, before, strict=True):
        words[:] = old
    return blocks


def bytecodes(action: Callable[[], object]) -> int:
    """How many bytecodes `action` executes in shared-memory code."""
    count = 0

    def step(frame: FrameType, event: str, argument: Any) -> Step:
        nonlocal count
        count += event == "opcode"
        return step

    def run() -> list[int]:
        traced(action, step)
        return [count]

    return told(run)[0]


def told(run: Callable[[], list[int]]) -> list[int]:
    """What `run` returns, run in a fork."""
    reading, writing = os.pipe()
    pid = start(lambda: os.write(writing, np.array(run(), dtype=np.int64).tobytes()))
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = np.frombuffer(pipe.read(), dtype=np.int64)
    status = wait_for(pid)
    assert status == 0, f"the operation failed by itself: {status}"
    return [int(figure) for figure in answer]


def fork() -> int:
    """os.fork, without the warning that the test runner has threads of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def start(action: Callable[[], object]) -> int:
    """Run `action` in a fork, whose exit status tells how it ended; the fork's pid."""
    pid = fork()
    if pid == 0:
        _run(action)
    return pid


def wait_for(pid: int) -> int:
    """The wait status of child `pid`."""
    return os.waitpid(pid, 0)[1]


def traced(action: Callable[[], object], step: Step) -> None:
    """Run `action`, with `step` as trace function of every frame in the files of TRACED."""

    def enter(frame: FrameType, event: str, argument: Any) -> Step | None:
        name = frame.f_code.co_filename
        if not name.startswith(TRACED[0]) and not name.endswith(TRACED[1]):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    sys.settrace(enter)
    try:
        action()
    finally:
        sys.settrace(None)


def _meet(fate: Fate, point: int, action: Callable[[], object]) -> None:
    left = point

    def step(frame: FrameType, event: str, argument: Any) -> Step:
        nonlocal left
        if event == "opcode":
            left -= 1
            if not left:
                _befall(fate)
        return step

    traced(action, step)
    assert left > 0, "the injected exception was swallowed, and the operation went on"


def _befall(fate: Fate) -> None:
    if fate is Fate.RAISE:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the section says why it broke: expected
        raise Injected
    os.kill(os.getpid(), signal.SIGSTOP if fate is Fate.STOP else signal.SIGKILL)


def _run(action: Callable[[], object]) -> NoReturn:
    status = UNEXPECTED
    try:
        gc.disable()
        action()
        status = 0
    except Injected:
        status = ESCAPED
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
