"""How many units a bulk read takes before it charges (Pulsar: `preciseDispatcherFlowControl`).

A reader that does not know the sizes of what it will read plans from the room that is left:

    by calls    ceil(room / calls per unit)            calls per unit: 1, or the average if precise
    by bytes    max(1, floor(room / bytes per unit))   1 where the average is not known
    most        the read batch

It charges what it read, so the plan may overdraw by much and the debt is paid back. A claim of one
call at a time knows its size and needs no plan; claiming ahead may use one.
"""

from __future__ import annotations

from .dispatch_rate import MOST_LIMIT

READ_BATCH = 100


def planned_units(
    room_calls: int,
    room_bytes: int,
    *,
    calls_per_unit: int = 1,
    bytes_per_unit: int | None = None,
    read_batch: int = READ_BATCH,
) -> int:
    """Units of the next read, 0 to `read_batch`; a room of MOST_LIMIT is no limit."""
    if room_calls <= 0 or room_bytes <= 0:
        return 0
    planned = min(read_batch, -(-room_calls // calls_per_unit))
    if room_bytes < MOST_LIMIT:
        planned = min(planned, max(1, room_bytes // bytes_per_unit) if bytes_per_unit else 1)
    return planned
