"""Whether a service is overloaded, and by whom: arithmetic on figures of the last seconds.

    overloaded   calls are refused for want of room, or the handlers are busy and more calls wait
                 than there are handlers
    suspect      who takes at least the part at which the first level below the best begins, and
                 at least FAIR of an equal part

What somebody takes is the larger one of two parts: of what all calls cost, and of the time of the
handlers. A few calls that run for long cost little where calls are counted.
"""

from __future__ import annotations

BUSY = 0.9
FAIR = 0.8
DEFAULT_PART = 0.125


def is_overloaded(busy: float, waiting: int, handlers: int, refused_per_s: float) -> bool:
    """`busy` is the mean of the handlers' shares of time in user code, 0 to 1."""
    return refused_per_s > 0 or (busy >= BUSY and waiting > handlers)


def least_part(first_threshold: float, callers: int) -> float:
    """From which part on one of so many callers is a suspect."""
    return max(first_threshold, FAIR / max(1, callers))


def part_taken(cost: float, total_cost: float, busy: float, total_busy: float) -> float:
    """0 to 1."""
    of_cost = cost / total_cost if total_cost > 0 else 0.0
    of_time = busy / total_busy if total_busy > 0 else 0.0
    return max(of_cost, of_time)
