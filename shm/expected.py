"""What a call of a method is expected to take: what 19 of 20 take, or so, and at least their mean.

    after a call that took longer    twice the expected, but no more than what it took
    after any other                  127/128 of it, but no less than the mean of late

A maximum would remember each call that was interrupted: on a busy machine there are some every
second, they take milliseconds, and say nothing about the method. The mean counts where few calls
take very long; the janitor knows it (`server.janitor.method_times`).
"""

from __future__ import annotations

FALL_SHIFT = 7


def adjusted(expected_ns: int, spent_ns: int, mean_ns: int = 0) -> int:
    """What is expected after a call that took `spent_ns`; 0 = nothing was known before."""
    if spent_ns > expected_ns:
        return min(spent_ns, 2 * expected_ns) if expected_ns else spent_ns
    return max(expected_ns - (expected_ns >> FALL_SHIFT), min(expected_ns, mean_ns))
