"""Runs workloads against peers in turn with faircall, and says what each did as a ratio.

A round of a workload is: faircall, two peers, faircall, two peers, ... A peer's figure is divided
by that of the run of faircall that is nearest to it, before or after, so that a machine whose speed
changes changes both. `ratio` is how many times better faircall was: its rate by the peer's, or the
peer's latency by its.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..bench.bare import bare_rate
from ..bench.compare import sign_of
from ..bench.document import FORMAT, VERSION, case_document
from ..bench.environment import environment
from ..bench.figures import ANSWERED
from ..bench.measure import Measured, loaded
from ..bench.native import LoadFailed
from ..bench.runner import Teller
from .peer import Peer
from .running import PeerFailed, run, running
from .table import OURS
from .workloads import Workload

RATIO = "ratio"
TOGETHER = 2  # peers between two runs of faircall


@dataclass(slots=True)
class Found:
    """What one case has so far; `ratios` has one for each repeat, nan where a figure is missing."""

    repeats: list[Measured] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)


Measure = Callable[[Workload, Peer, int], Measured]
Cases = Mapping[str, Found]


def turns(peers: Sequence[Peer]) -> Iterator[tuple[Peer | None, Peer]]:
    """The runs of a round, each with the peer to whose last run it is compared (None: not)."""
    by_name = {peer.name: peer for peer in peers}
    for ours in (by_name[name] for name in OURS if name in by_name):
        others = [p for p in peers if p.beside == ours.name and p.name not in OURS]
        for number, peer in enumerate(others):
            if number % TOGETHER == 0:
                yield None, ours
            yield ours, peer
        if not others:
            yield None, ours


def ratio_of(figure: str, ours: Measured, theirs: Measured) -> float:
    """How many times better ours is; nan where one is missing or 0."""
    a, b = (measured.figures.get(figure, math.nan) for measured in (ours, theirs))
    above, below = (a, b) if sign_of(figure) > 0 else (b, a)
    return above / below if below else math.nan


def measured(peers: Sequence[Peer], workload: Workload, repeats: int, measure: Measure) -> Cases:
    """By peer. What a peer cannot do is a warning of its case, and no error."""
    fit = [peer for peer in peers if peer.runs(workload.name, workload.spec.framing)]
    found = {peer.name: Found() for peer in fit}
    for repeat in range(repeats):
        last: dict[str, Measured] = {}
        for beside, peer in turns(fit):
            try:
                run_now = measure(workload, peer, repeat + 1)
            except (PeerFailed, LoadFailed) as error:
                if peer.name in OURS:
                    raise
                run_now = Measured({}, warnings=[str(error)])
            last[peer.name] = run_now
            found[peer.name].repeats.append(run_now)
            if beside:
                ratio = ratio_of(workload.figure, last[beside.name], run_now)
                found[peer.name].ratios.append(ratio)
    return found


def measure_once(workload: Workload, peer: Peer, seed: int, teller: Teller) -> Measured:
    """PeerFailed, LoadFailed, NotServing."""
    teller.begin(f"{workload.name} {peer.name} #{seed}")
    spec = workload.spec_for(peer)
    if peer.loaded == "bare":
        assert spec.bare is not None  # `peer.workloads` are those that say what it does
        return Measured({ANSWERED: bare_rate(spec.bare, spec.seconds)})
    with running(peer, spec) as target:
        plan = spec.plan(target.address, 1, seed)
        return loaded(spec, target, lambda tick: run(peer, plan, teller.note, tick), teller.tick)


def document(
    peers: Sequence[Peer], workloads: Sequence[Workload], repeats: int, teller: Teller
) -> dict[str, Any]:
    """The document of the run: a suite for each workload, a case for each peer. NotServing,
    LoadFailed."""
    started, machine = datetime.now(UTC).isoformat(timespec="seconds"), environment()

    def measure(workload: Workload, peer: Peer, seed: int) -> Measured:
        return measure_once(workload, peer, seed, teller)

    suites = []
    for workload in workloads:
        began = time.monotonic()
        found = measured(peers, workload, repeats, measure)
        suites.append(suite_document(workload, found, time.monotonic() - began))
    teller.end()
    return {
        FORMAT: VERSION,
        "started": started,
        "target": "peers",
        "repeats": repeats,
        "environment": machine,
        "suites": suites,
    }


def suite_document(workload: Workload, found: Cases, took_s: float) -> dict[str, Any]:
    cases = []
    for name, each in found.items():
        case = case_document({"peer": name}, each.repeats)
        if each.ratios:
            shown = [float(f"{r:.4g}") if math.isfinite(r) else None for r in each.ratios]
            case["figures"] = {RATIO: shown, **case["figures"]}
        cases.append(case)
    return {
        "name": f"peers {workload.name}",
        "about": workload.spec.about,
        "figure": workload.figure,
        "took_s": round(took_s, 1),
        "cases": cases,
    }
