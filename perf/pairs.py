"""The ratio of two things that were measured in turn, with its 95 % interval.

What disturbs a machine for longer than a pair takes meets both of it, and their ratio does not show
it; what disturbs one of a pair makes an extreme ratio. So the mean is a trimmed one: a fifth of the
logarithms at either end does not count, and its interval is Yuen's (Biometrika 61, 1974).

A quantile of few calls is mostly chance. Where each of a pair has many figures, the quantile is
taken of all of them together, and the interval from samples of the pairs with replacement
(bootstrap, percentiles).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SAMPLES = 1000
LEAST_PAIRS = 15  # of which 9 are left: for fewer `student_975` is not exact enough
TRIMMED = 5  # one in so many, at either end
_Z = statistics.NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The trimmed geometric mean, and between which bounds it is, 19 times of 20."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """The second of each pair by its first: numbers above 0. ValueError for too few pairs."""
    count = len(pairs)
    if count < LEAST_PAIRS:
        raise ValueError(f"{count} pairs are too few for an interval: at least {LEAST_PAIRS}")
    logs = sorted(math.log(second / first) for first, second in pairs)
    cut = count // TRIMMED
    kept = logs[cut : count - cut]
    mean = statistics.fmean(kept)
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    deviation = statistics.stdev(winsorized) * math.sqrt((count - 1) / (len(kept) - 1))
    bound = student_975(len(kept) - 1) * deviation / math.sqrt(len(kept))
    return Ratio(math.exp(mean), math.exp(mean - bound), math.exp(mean + bound))


def pooled_ratio(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], share: float, seed: int = 1
) -> Ratio:
    """That quantile of all second ones by that of all first ones. ValueError for too few pairs."""
    if len(pairs) < LEAST_PAIRS:
        raise ValueError(f"{len(pairs)} pairs are too few for an interval: at least {LEAST_PAIRS}")
    sides = [[np.array(pair[side]) for pair in pairs] for side in (0, 1)]
    draw = random.Random(seed)

    def of(chosen: Sequence[int]) -> float:
        first, second = (np.concatenate([side[at] for at in chosen]) for side in sides)
        return float(np.quantile(second, share) / np.quantile(first, share))

    every = range(len(pairs))
    sampled = sorted(of(draw.choices(every, k=len(pairs))) for _ in range(SAMPLES))
    return Ratio(of(every), quantile(sampled, 0.025), quantile(sampled, 0.975))


def quantile(figures: Sequence[float], share: float) -> float:
    """That quantile; nan of none."""
    return float(np.quantile(figures, share)) if figures else math.nan


def student_975(freedom: int) -> float:
    """Student's t at 97.5 %, within 0.002 from 8 degrees of freedom on (Abramowitz and Stegun,
    26.7.5)."""
    z, n = _Z, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3
