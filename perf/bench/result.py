"""What a run found, by group and method; and what it says against the generator itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from .histogram import Histogram

OUTCOMES = ("ok", "error", "shed", "timeout", "reset", "eof")
CLASSES = {  # what outcomes mean to a user: a defunct server closes, resets or refuses
    "ok": ("ok",),
    "defunct": ("reset", "eof", "refused"),
    "timeout": ("timeout",),
    "shed": ("shed",),
    "error": ("error",),
}
_SUMS = (
    *("sent", "unsent", "refused", "lost", "stray"),
    *("answered", "bytes_in", "bytes_out"),
)
MOST_OF_A_CORE = 0.8
MOST_LAG_MS = 1.0
ROOM = "leave it a processor of its own"
_CURE = {
    name: f"{ROOM}, or let it have real-time priority (CAP_SYS_NICE, or `ulimit -r 1`)"
    for name in ("ordinary", "short slice", "nice")
}


@dataclass(frozen=True, slots=True)
class MethodResult:
    """`total` counts every call of the run by its outcome, `measured` those after the warm-up.

    `latency` is that of OK calls that count, from when they were due; `service` from when they
    were sent.
    """

    name: str
    total: Counter[str]
    measured: Counter[str]
    latency: Histogram
    service: Histogram

    def __add__(self, other: MethodResult) -> MethodResult:
        return MethodResult(
            self.name,
            _sum(iter((self.total, other.total))),
            _sum(iter((self.measured, other.measured))),
            self.latency + other.latency,
            self.service + other.service,
        )


@dataclass(frozen=True, slots=True)
class Second:
    """What was answered (closed loop) or due (open loop) in one second of the run, warm-up too."""

    failed: int
    latency: Histogram

    def __add__(self, other: Second) -> Second:
        return Second(self.failed + other.failed, self.latency + other.latency)


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages whose last part came while it counted: `failed` are those of which a part was not OK,
    `latency` is that of the others, from the beginning of a page to its last part."""

    ok: int = 0
    failed: int = 0
    latency: Histogram = field(default_factory=Histogram)

    def __add__(self, other: Pages) -> Pages:
        return Pages(self.ok + other.ok, self.failed + other.failed, self.latency + other.latency)


@dataclass(frozen=True, slots=True)
class GroupResult:
    """`unsent` calls were due and found no free connection until the end; `lost` and `refused`
    count connections, `stray` answers that nobody waited for. `answered` calls had their OK answer,
    and `bytes_in` and `bytes_out` passed, while it counted."""

    name: str
    sent: int
    unsent: int
    refused: int
    lost: int
    stray: int
    answered: int
    bytes_in: int
    bytes_out: int
    methods: Sequence[MethodResult]
    seconds: Sequence[Second]
    pages: Pages = field(default_factory=Pages)

    @property
    def latency(self) -> Histogram:
        return reduce(add, (method.latency for method in self.methods), Histogram())

    def measured(self) -> Counter[str]:
        return _sum(method.measured for method in self.methods)

    def total(self) -> Counter[str]:
        return _sum(method.total for method in self.methods)

    def classes(self) -> dict[str, int]:
        """What became of the calls that count (and of connections, if refused), by class."""
        found = self.measured() + Counter({"refused": self.refused})
        return {name: sum(found[each] for each in of) for name, of in CLASSES.items()}

    def __add__(self, other: GroupResult) -> GroupResult:
        """Of two users who made calls of the same methods."""
        summed = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        return GroupResult(
            name=self.name,
            **summed,
            methods=[a + b for a, b in zip(self.methods, other.methods, strict=True)],
            seconds=[a + b for a, b in zip(self.seconds, other.seconds, strict=True)],
            pages=self.pages + other.pages,
        )


@dataclass(frozen=True, slots=True)
class Result:
    """A run. `busiest_core`: the share of a core that the generator's busiest thread took;
    `priority`: how it was scheduled (real-time, nice, short slice, ordinary)."""

    generator: str
    length_s: float
    cores: float
    busiest_core: float
    lag: Histogram
    priority: str
    groups: Sequence[GroupResult]
    first_error: str = ""

    def group(self, name: str) -> GroupResult:
        """KeyError."""
        return {group.name: group for group in self.groups}[name]

    def warnings(self) -> Iterator[str]:
        """Why the figures may be the generator's and not the server's; how a call failed."""
        if self.first_error:
            yield f"a call failed: {self.first_error}"
        if self.busiest_core > MOST_OF_A_CORE:
            yield (
                f"the generator used {self.busiest_core:.0%} of a core: it may be what limits; "
                "use more threads (--threads) or fewer calls"
            )
        late_ms = self.lag.quantile(0.99) / 1e6
        if self.lag.count and late_ms > MOST_LAG_MS:
            yield (
                f"the generator ({self.priority} priority) sent late, p99 {late_ms:.1f} ms after a "
                f"call was due: latencies hold this, too; {_CURE.get(self.priority, ROOM)}"
            )


def result_of(found: Mapping[str, Any]) -> Result:
    """The result that a generator printed as JSON."""
    return Result(
        generator=found["generator"],
        length_s=found["length_ns"] / 1e9,
        cores=found["cores"],
        busiest_core=found["busiest_core"],
        lag=Histogram.from_json(found["lag"]),
        priority=found["priority"],
        groups=_by_name(_group(group) for group in found["groups"]),
        first_error=found["first_error"],
    )


def _by_name(groups: Iterator[GroupResult]) -> list[GroupResult]:
    """Groups of one name are users of one group."""
    found: dict[str, list[GroupResult]] = {}
    for group in groups:
        found.setdefault(group.name, []).append(group)
    return [reduce(add, same) for same in found.values()]


def _group(found: Mapping[str, Any]) -> GroupResult:
    pages = found["pages"]
    return GroupResult(
        name=found["name"],
        **{name: found[name] for name in _SUMS},
        methods=[_method(method) for method in found["methods"]],
        seconds=[
            Second(second["failed"], Histogram.from_json(second["latency"]))
            for second in found["seconds"]
        ],
        pages=Pages(pages["ok"], pages["failed"], Histogram.from_json(pages["latency"])),
    )


def _method(found: Mapping[str, Any]) -> MethodResult:
    return MethodResult(
        found["name"],
        Counter(found["total"]),
        Counter(found["measured"]),
        Histogram.from_json(found["latency"]),
        Histogram.from_json(found["service"]),
    )


def _sum(counts: Iterator[Counter[str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return found
