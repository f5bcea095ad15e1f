"""Two servers side by side, loaded in turn for a moment each (A B, B A, ...): calls per second, and
processor time per call.

What else happens on the machine meets both of a pair. Each start of the two gives some pairs, for a
start may be a lucky one.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..server.demo.server import DemoServer, running_server
from .generator import Address
from .held_calls import cpu_ns as cpu_ns_of
from .pairs import ratio_of
from .pump import Pump
from .rows import HANDLERS, SERVICE, Row

WARM_S = 0.5
LINE = b'{"jsonrpc":"2.0","method":"echo","params":[0],"id":1}\n'
DECIMALS = 3


@dataclass(frozen=True, slots=True)
class Side:
    """A server: its settings by key, and its environment."""

    settings: Mapping[str, str] = field(default_factory=dict)
    outer: Mapping[str, str] = field(default_factory=lambda: os.environ)


class Source(Protocol):
    """Keeps a server busy with `echo`."""

    def run(self, seconds: float) -> int:
        """For so long; how many calls were answered. RuntimeError if one was refused."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: seconds of each of a pair, pairs in all, starts of the servers."""

    seconds: float
    pairs: int
    starts: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What a server did: calls per second, and its processes' time per call."""

    rate: float
    cpu_us: float


Pair = tuple[Moment, Moment]


def pairs_of(
    one: Side, other: Side, load: Callable[[Address], Source], effort: Effort
) -> list[Pair]:
    """Moments of both. RuntimeError if a call was refused."""
    found: list[Pair] = []
    for start in range(effort.starts):
        share = effort.pairs // effort.starts + (start < effort.pairs % effort.starts)
        with _loaded(one, load) as first, _loaded(other, load) as second:
            first.run(WARM_S)
            second.run(WARM_S)
            for number in range(share):
                found.append(_pair(first, second, effort.seconds, backwards=bool(number % 2)))
    return found


def ratio_row(pairs: Sequence[Pair], first: str, second: str) -> Row:
    """What `pairs` says of the two by name: means, and the ratio of the second's rate to the
    first's."""
    ratio = ratio_of([(one.rate, other.rate) for one, other in pairs])
    return {
        "pairs": len(pairs),
        f"calls/s {first}": round(statistics.fmean(one.rate for one, _ in pairs)),
        f"calls/s {second}": round(statistics.fmean(other.rate for _, other in pairs)),
        "ratio": f"{ratio.mean:.{DECIMALS}f}",
        "from": f"{ratio.low:.{DECIMALS}f}",
        "to": f"{ratio.high:.{DECIMALS}f}",
        "half-width": f"{ratio.half_width:.{DECIMALS}f}",
    }


class Pumped:
    """Load by a pump in this process: `connections` callers with `depth` calls in flight each."""

    def __init__(self, address: Address, connections: int, depth: int) -> None:
        self._pump = Pump(address, LINE, connections, depth)

    def run(self, seconds: float) -> int:
        before = self._pump.answered
        self._pump.run(seconds)
        if self._pump.refused:
            raise RuntimeError(f"{self._pump.refused} calls were refused: this measures nothing")
        return self._pump.answered - before

    def close(self) -> None:
        self._pump.close()


class _Loaded:
    """A server and what loads it."""

    def __init__(self, server: DemoServer, source: Source) -> None:
        self._pid, self._source = server.pid, source

    def run(self, seconds: float) -> Moment:
        began_ns, cpu_ns = time.monotonic_ns(), cpu_ns_of(self._pid)
        calls = max(1, self._source.run(seconds))
        took_ns, used_ns = time.monotonic_ns() - began_ns, cpu_ns_of(self._pid) - cpu_ns
        return Moment(calls * 1e9 / took_ns, used_ns / 1e3 / calls)


def _pair(one: _Loaded, other: _Loaded, seconds: float, *, backwards: bool) -> Pair:
    if backwards:
        second = other.run(seconds)
        return one.run(seconds), second
    return one.run(seconds), other.run(seconds)


@contextlib.contextmanager
def _loaded(side: Side, load: Callable[[Address], Source]) -> Iterator[_Loaded]:
    with (
        running_server(HANDLERS, side.settings, SERVICE, outer=side.outer) as server,
        contextlib.closing(load(server.address)) as source,
    ):
        yield _Loaded(server, source)
