"""The work of a call in bare processes, without a server: what a server is compared with."""

from __future__ import annotations

import multiprocessing
import time

from ..services import spin
from .specs import BareSpec

WARM_UP_S = 0.1


def bare_rate(bare: BareSpec, seconds: float) -> float:
    """Calls a second of all processes together, which work at the same time for so long."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(bare.processes) as pool:
        pool.starmap(_spin_for, [(bare.turns, WARM_UP_S)] * bare.processes, chunksize=1)
        rates = pool.starmap(_spin_for, [(bare.turns, seconds)] * bare.processes, chunksize=1)
    return sum(rates)


def _spin_for(turns: int, seconds: float) -> float:
    """Calls a second of one process."""
    started, calls = time.monotonic(), 0
    while (elapsed := time.monotonic() - started) < seconds:
        spin(turns)
        calls += 1
    return calls / elapsed
