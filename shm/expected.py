"""What a call of a method is expected to take: what 19 of 20 take, or so, and at least their mean.

    after a call that took longer    twice the expected, but no more than what it took
    after any other                  127/128 of it, but no less than the mean of late

A maximum would remember each call that was interrupted: on a busy machine there are some every
second, they take milliseconds, and say nothing about the method. The mean counts where few calls
take very long; the janitor knows it (`server.janitor.method_times`).
"""

from __future__ import annotations

from collections.abc import Iterable

FALL_SHIFT = 7


def adjusted(expected_ns: int, spent: Iterable[int], mean_ns: int = 0) -> int:
    """What is expected after calls that took so long, one by one; 0 = nothing was known before."""
    for spent_ns in spent:
        if spent_ns > expected_ns:
            expected_ns = min(spent_ns, 2 * expected_ns) if expected_ns else spent_ns
        elif expected_ns > mean_ns:
            fallen_ns = expected_ns - (expected_ns >> FALL_SHIFT)
            expected_ns = fallen_ns if fallen_ns > mean_ns else mean_ns
    return expected_ns
