"""Which calls are slow (Hadoop: `Server.logSlowRpcCalls`, HADOOP-12325, HADOOP-17834).

A call is slow if it took longer than mean + 3 standard deviations of what its method takes, of
which more than 1,024 calls must be known, and longer than a threshold.

Differs: per method; Hadoop takes the calls of all methods together.
"""

from __future__ import annotations

import math

LEAST_SAMPLES = 1024  # with as many, or fewer, no call is slow
DEVIATIONS = 3


def slow_above(count: int, total: int, squares: float, threshold: float) -> float:
    """Longer than this is slow, in the unit of `total`, the sum of `count` times.

    `squares` is the sum of their squares. Infinity where too few are known.
    """
    if count <= LEAST_SAMPLES:
        return math.inf
    mean = total / count
    deviation = math.sqrt(max(0.0, squares / count - mean * mean))
    return max(threshold, mean + DEVIATIONS * deviation)
