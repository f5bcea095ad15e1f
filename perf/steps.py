"""What one call costs step by step: bytecode instructions in its reader and its handler, by module.

    python -m faircall.perf.steps [--connections 16] [--rounds 10]

A reader and a handler with default settings are stepped by hand in this process, for `echo` over
lines, one call on each connection. Instructions are counted, not timed, and so are calls of Python
functions, each of which takes about as long as six of them; their clock is one that only their own
looks at it move on. So the figures are the same however busy the machine is, and say nothing about
what C code (`send`, a lock, JSON) takes.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..server.port import Port, open_ports
from ..server.reader.reader import Reader
from ..server.reader.start import reader_of
from ..server.settings.load import load_settings
from ..shm.layout import HEADER
from ..shm.states import Phase
from ..workers.handler import Handler, HandlerLimits
from .services import service

CALL = b'{"jsonrpc":"2.0","method":"echo","params":["hello world 0123456789"],"id":123}\n'
FLAGS = {
    "server.bind": (["tcp://127.0.0.1:0"], "steps"),
    "server.readers": (1, "steps"),
    "handlers.count": (1, "steps"),
}
WARM_UP = 300  # rounds: expected times and warm pages are as under load then
TICK_NS = 5_000  # between two looks at the clock: about what reading, running, writing takes


class Steps:
    """A port's reader and handler, and its clients."""

    def __init__(self, port: Port, connections: int) -> None:
        shared = port.shared
        for role in ("reader", "handler"):
            shared.expect(role, 0)
        phase = shared.segment.word(shared.segment.layout.header, HEADER, "phase")
        shared.segment.q[phase] = Phase.RUNNING
        clock = itertools.count(time.monotonic_ns(), TICK_NS).__next__
        self.handler = Handler(shared, 0, service, HandlerLimits(), clock)
        self.handler.start()
        self.reader: Reader = reader_of(port, 0, clock)
        self.clients = []
        for _ in range(connections):
            near, far = socket.socketpair()
            port.handoffs[0].send(far)
            far.close()
            self.clients.append(near)
        while len(self.reader.clients.by_fd) < connections:
            self.reader.do_work()

    def round(self, traced: Callable[[str, Callable[[], object]], object]) -> None:
        """One call on each connection, from request to answer."""
        for client in self.clients:
            client.send(CALL)
        traced("reader", self._read)
        traced("handler", self._handle)
        traced("reader", self._read)
        for client in self.clients:
            assert b'"result"' in client.recv(4096)

    def _read(self) -> None:
        while self.reader.do_work() or self.reader.clients.ready:
            pass

    def _handle(self) -> None:
        while self.handler.do_work():
            pass


Counted = Counter[tuple[str, str]]  # by (process, module)


def count(steps: Steps, rounds: int) -> tuple[Counted, Counted]:
    """Instructions, and calls of functions."""
    found: Counted = Counter()
    entered: Counted = Counter()

    def seen(who: str, frame: FrameType, event: str) -> None:
        where = who, module_of(frame)
        if event == "opcode":
            found[where] += 1
        elif event == "call":
            entered[where] += 1

    trace_rounds(steps, rounds, seen)
    return found, entered


def module_of(frame: FrameType) -> str:
    """Its name without that of the package."""
    return str(frame.f_globals.get("__name__", "?")).removeprefix("faircall.")


def trace_rounds(steps: Steps, rounds: int, seen: Callable[[str, FrameType, str], object]) -> None:
    """Warm up, then tell `seen` of every event of so many rounds: who ("reader", "handler"), its
    frame, and what it is ("call", "opcode", ...)."""

    def traced(who: str, step: Callable[[], object]) -> None:
        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            seen(who, frame, event)
            return trace

        sys.settrace(trace)
        try:
            step()
        finally:
            sys.settrace(None)

    for _ in range(WARM_UP):
        steps.round(lambda _, step: step())
    for _ in range(rounds):
        steps.round(traced)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m faircall.perf.steps")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10, help="that are counted")
    options = parser.parse_args(arguments)
    (port,) = open_ports(load_settings(FLAGS))
    found, entered = count(Steps(port, options.connections), options.rounds)
    calls = options.connections * options.rounds
    for who in ("reader", "handler"):
        _show(who, _of(who, found) / calls, _of(who, entered) / calls)
        for (role, module), number in found.most_common():
            if role == who and number >= 10 * calls:
                _show(f"  {module}", number / calls, entered[role, module] / calls)


def _of(who: str, counted: Counted) -> int:
    return sum(number for (role, _), number in counted.items() if role == who)


def _show(name: str, instructions: float, functions: float) -> None:
    print(f"{name:<34}{instructions:>8.0f} instructions {functions:>6.1f} functions")


if __name__ == "__main__":
    main()
