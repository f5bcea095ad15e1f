"""One case once: its figures by name, and what stands behind them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from ...client.address import Address
from . import figures
from .bare import bare_rate
from .load import run_plan
from .result import Result
from .specs import CaseSpec
from .target import Target, own
from .watch import Look

Note = Callable[[str], object]
Tick = Callable[[float, int, int], object]


@dataclass(slots=True)
class Measured:
    """`figures` by a name that ends in its unit; by second: `waiting`, calls in the queue, and
    `server`, what was seen of its processes."""

    figures: dict[str, float]
    result: Result | None = None
    waiting: dict[float, int] = field(default_factory=dict)
    server: dict[float, Look] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bench:
    """What measures: against `address`, or servers of its own if that is None. A capacity is
    measured once for all cases of the same server."""

    address: Address | None
    threads: int
    note: Note
    tick: Tick
    capacities: dict[bytes, float] = field(default_factory=dict)

    def measure(self, spec: CaseSpec, seed: int) -> Measured:
        """Run the case. LoadFailed, NotServing."""
        bare = spec.bare
        before = bare_rate(bare, spec.seconds / 2) if bare else 0.0
        called = contextlib.nullcontext(Target(self.address)) if self.address else own(spec)
        with called as target:
            capacity = self._capacity(spec, target) if spec.capacity else 0.0
            plan = spec.plan(target.address, self.threads, seed, capacity)
            found = loaded(spec, target, lambda tick: run_plan(plan, self.note, tick), self.tick)
        if bare:
            rate = (before + bare_rate(bare, spec.seconds / 2)) / 2
            found.figures["bare calls/s"] = rate
            found.figures["of bare"] = found.figures["calls/s"] / rate
        return found

    def _capacity(self, spec: CaseSpec, target: Target) -> float:
        same = msgspec.json.encode((spec.server, spec.framing, spec.capacity))
        if same not in self.capacities:
            plan = spec.capacity_plan(target.address, self.threads)
            found = run_plan(plan, self.note, self.tick)
            self.capacities[same] = max(1.0, found.groups[0].answered / found.length_s)
        return self.capacities[same]


def loaded(spec: CaseSpec, target: Target, run: Callable[[Tick], Result], tick: Tick) -> Measured:
    """What `run`, which is given what to tell each second, finds of the case's calls at `target`.
    LoadFailed."""
    found = Measured({})
    looks: list[tuple[float, Look]] = []

    def look() -> Look | None:
        if (seen := target.look()) is not None:
            looks.append((time.monotonic(), seen))
        return seen

    def each_second(second: float, ok: int, other: int) -> None:
        calls, seen = target.waiting(), look()
        if calls is not None:
            found.waiting[second] = calls
        if seen is not None:
            found.server[second] = seen
        tick(second, ok, other)

    look()
    found.result = run(each_second)
    found.figures |= figures.of_load(found.result, spec)
    if found.waiting:
        found.figures["waiting calls"] = float(max(found.waiting.values()))
    look()
    if looks:
        found.figures |= figures.of_server(looks, any(group.page for group in spec.groups))
    found.warnings = list(found.result.warnings())
    return found


def measure_micro(rounds: int = 3) -> Mapping[str, float]:
    """CPU time of single operations, in us, by what they are."""
    from ..measurement import best_us
    from ..micro import Bench, measurements

    bench = Bench()
    try:
        return {f"{m.name} us": best_us(m, rounds) for m in measurements(bench)}
    finally:
        bench.close()
