"""Whether a call costs more processor time where there is much of something.

    python -m faircall.perf.per_call_cpu [users|connections|levels|methods ...] [--pairs 15]

    users          1 user is known, or 100,000, each of whom has called once
    connections    64 connections, or 10,000, over which the same calls come in turn
    levels         1 level, or 10, among which sixteen users are spread
    methods        1 method, or 100, which are called equally often

A server for each of the two runs side by side, and both get the same calls at the same time, in an
open loop well below what they can do. What is compared is the processor time of all their processes
by call, second by second: the ratio of pairs, with its interval. Exit code 1 if a ratio is above
1.15. A row takes half a minute to a minute.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..client.address import Address
from ..server.demo.server import DemoServer, running_server
from .bench.load import run_plan
from .bench.plan import Group, Plan, Request
from .generator import hello
from .held_calls import cpu_ns
from .many_methods import MANY
from .pairs import LEAST_PAIRS, ratio_of
from .rows import HANDLERS, SERVICE, Row, table

MOST = 1.15
RATE = 3000.0
MORE_S = 3  # for which many are called longer, so that they are as long as few are
KNOWN, CONNECTIONS, FEW_CONNECTIONS, LEVELS, USERS = 100_000, 10_000, 64, 10, 16
PRIMED_AT_ONCE = 500
PATIENCE_S = 60.0  # for an answer to who becomes known, and for connections to stand
ECHO = Request("echo", '["hello"]')


@dataclass(frozen=True, slots=True)
class Side:
    """A server and the calls that it gets; `known` users have called before."""

    settings: Mapping[str, str] = field(default_factory=dict)
    service: str = SERVICE
    requests: Sequence[Request] = (ECHO,)
    connections: int = FEW_CONNECTIONS
    users: int = 1
    known: int = 0
    rate: float = RATE

    def plan(self, address: Address, seconds: float) -> Plan:
        """Calls of all users together come at the same rate whoever makes them."""
        group = Group(
            name="main",
            user="user",
            users=self.users,
            requests=self.requests,
            connections=self.connections // self.users,
            depth=8,
            rate=self.rate / self.users,
        )
        return Plan(
            address=address,
            groups=[group],
            seconds=seconds,
            patience_s=PATIENCE_S,
        )


_KNOWN = {
    "limits.identities": str(KNOWN * 5 // 4),  # nobody is evicted below 7 of 8
    "ipc.callqueue.newcomer-calls": "0",
    "ipc.cost-provider.impl": "WeightedTimeCostProvider",  # a cost of 1 would decay to 0 at once
    "ipc.decay-scheduler.decay-factor": "0.99",  # and who owes something stays known
}


def _levels(count: int) -> Mapping[str, str]:
    return {"ipc.scheduler.priority.levels": str(count)}


def _methods(count: int) -> list[Request]:
    return [Request(f"echo-{number}", '["hello"]') for number in range(count)]


SIDES: Mapping[str, tuple[Side, Side]] = {
    "users": (Side(_KNOWN), Side(_KNOWN, known=KNOWN)),
    "connections": (Side(), Side(connections=CONNECTIONS)),
    "levels": (Side(_levels(1), users=USERS), Side(_levels(LEVELS), users=USERS)),
    "methods": (
        Side(service="faircall.perf.many_methods:one", requests=_methods(1)),
        Side(service="faircall.perf.many_methods:many", requests=_methods(MANY)),
    ),
}


def row(name: str, pairs: int = LEAST_PAIRS) -> Row:
    """The ratio of much to little of `name`."""
    few, many = SIDES[name]
    return compared(name, few, many, pairs)


def compared(name: str, few: Side, many: Side, pairs: int) -> Row:
    """The same of any two sides, of at least `LEAST_PAIRS` pairs."""
    with (
        running_server(HANDLERS, few.settings, few.service) as one,
        running_server(HANDLERS, many.settings, many.service) as other,
    ):
        for side, server in ((few, one), (many, other)):
            make_known(server.address, side.known)
        found = costs(few, one, many, other, pairs)
        users = other.stats()["users"]["unique"]
    ratio = ratio_of(found)
    return {
        "much of": name,
        "us per call": sum(pair[0] for pair in found) / len(found),
        "with much": sum(pair[1] for pair in found) / len(found),
        "ratio": ratio.mean,
        "from": ratio.low,
        "to": ratio.high,
        "users known": users,
    }


def costs(
    few: Side, one: DemoServer, many: Side, other: DemoServer, pairs: int
) -> list[tuple[float, float]]:
    """Processor time by call in us, second by second, of both servers while both are called."""
    cost, much = Cost(one.pid), Cost(other.pid)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(much.call, many, other, pairs + 1 + MORE_S)
        much.first.wait()  # its connections stand
        skipped = len(much.by_second)
        cost.call(few, one, pairs + 1)
        running.result()
    return list(zip(cost.by_second, much.by_second[skipped:], strict=False))[:pairs]


class Cost:
    """Processor time of a server's processes by call: `by_second`, in us, after the first second.

    `first` is set when that has passed, or when there are no calls any more.
    """

    def __init__(self, pid: int) -> None:
        self.by_second: list[float] = []
        self.first = threading.Event()
        self._pid, self._before_ns = pid, 0

    def call(self, side: Side, server: DemoServer, seconds: int) -> None:
        """The calls of `side` for so long. LoadFailed."""
        try:
            run_plan(side.plan(Address(*server.address), seconds + 0.5), print, self._look)
        finally:
            self.first.set()

    def _look(self, second: float, ok: int, other: int) -> None:
        now_ns = cpu_ns(self._pid)
        if self._before_ns and ok:
            self.by_second.append((now_ns - self._before_ns) / 1e3 / ok)
        self._before_ns = now_ns
        self.first.set()


def make_known(address: tuple[str, int], users: int) -> None:
    """One call of each of so many users, over one connection."""
    call = b'{"jsonrpc":"2.0","method":"echo","params":[0],"id":1}\n'
    with socket.create_connection(address, PATIENCE_S) as sock, sock.makefile("rb") as answers:
        for first in range(0, users, PRIMED_AT_ONCE):
            last = min(first + PRIMED_AT_ONCE, users)
            names = [f"known-{number}" for number in range(first, last)]
            sock.sendall(b"".join(hello(name) + call for name in names))
            for _ in range(2 * len(names)):
                line = answers.readline()
                if b'"result"' not in line:
                    raise RuntimeError(f"a call of a new user failed: {line.decode()!r}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and whether the ratios are as they should be."""
    parser = argparse.ArgumentParser(prog="python -m faircall.perf.per_call_cpu")
    parser.add_argument("what", nargs="*", metavar="|".join(SIDES), default=list(SIDES))
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS)
    options = parser.parse_args(arguments)
    if unknown := set(options.what) - SIDES.keys():
        parser.error(f"no {unknown.pop()}; there are {', '.join(SIDES)}")
    found = [row(name, options.pairs) for name in options.what]
    print(table(found))
    most = max(float(str(each["ratio"])) for each in found)
    holds = most <= MOST
    print(f"{'holds' if holds else 'DOES NOT HOLD'}: much costs at most {MOST:g} times as much")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
