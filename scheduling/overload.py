"""Whether a service is overloaded, and by whom: arithmetic on figures of the last seconds.

    overloaded   calls are refused for want of room; or the handlers are busy and more calls wait
                 than there are handlers; or many more do, though half of the handlers' time goes
                 to what stands around short calls, or to other programs
    suspect      who takes at least the part at which the first level below the best begins, and
                 at least FAIR of an equal part

What somebody takes is the larger one of two parts: of what all calls cost, and of the time of the
handlers. A few calls that run for long cost little where calls are counted.
"""

from __future__ import annotations

BUSY = 0.9
HALF_BUSY, MANY = 0.5, 10  # calls that wait, for each handler
FAIR = 0.8
DEFAULT_PART = 0.125


def is_overloaded(busy: float, waiting: int, handlers: int, refused_per_s: float) -> bool:
    """`busy` is the mean of the handlers' shares of time in user code, 0 to 1."""
    if refused_per_s > 0:
        return True
    return waiting > handlers * (1 if busy >= BUSY else MANY) and busy >= HALF_BUSY


def least_part(first_threshold: float, callers: int) -> float:
    """From which part on one of so many callers is a suspect."""
    return max(first_threshold, FAIR / max(1, callers))


def part_taken(cost: float, total_cost: float, busy: float, total_busy: float) -> float:
    """0 to 1."""
    of_cost = cost / total_cost if total_cost > 0 else 0.0
    of_time = busy / total_busy if total_busy > 0 else 0.0
    return max(of_cost, of_time)
