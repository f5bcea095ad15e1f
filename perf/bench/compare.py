"""Two documents side by side: ratios of figures, and which are worse by more than a threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from .document import Document, key_of, median
from .tables import columns, number

HIGHER_IS_BETTER = ("calls/s", "pages/s", "of bare", "% ok")
LOWER_IS_BETTER = (" ms", " us", "not ok", "failed pages")
NEITHER = ("offered calls/s", "bare calls/s")


class Verdict(Enum):
    WORSE = "WORSE"
    BETTER = "better"
    SAME = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure of a case in both; `ratio` is after / before."""

    suite: str
    case: str
    figure: str
    before: float
    after: float
    ratio: float
    verdict: Verdict


def sign_of(figure: str) -> int:
    """1 if more is better, -1 if less is, 0 if neither."""
    if figure.endswith(NEITHER):
        return 0
    if figure.endswith(HIGHER_IS_BETTER):
        return 1
    return -1 if figure.endswith(LOWER_IS_BETTER) else 0


def ratio_of(before: float, after: float) -> float:
    """1 for two zeros, inf if only the first is zero, nan if one is missing."""
    if before:
        return after / before
    return 1.0 if after == 0 else math.nan if math.isnan(after) else math.inf


def differences(
    before: Document, after: Document, threshold: float, figures: Sequence[str] = ()
) -> Iterator[Difference]:
    """Of all figures (or those that end in one of `figures`) that both have.

    One is worse or better if its ratio differs from 1 by more than `threshold` (0.1: by the factor
    1.1), and every repeat of one document is on the same side of every repeat of the other.
    """
    old = {
        (suite["name"], key_of(case)): case for suite in before["suites"] for case in suite["cases"]
    }
    for suite in after["suites"]:
        for case in suite["cases"]:
            other = old.get((suite["name"], key_of(case)))
            for figure, values in case["figures"].items() if other else ():
                if other is None or figure not in other["figures"]:
                    continue
                if figures and not figure.endswith(tuple(figures)):
                    continue
                first = other["figures"][figure]
                a, b = median(first), median(values)
                ratio = ratio_of(a, b)
                verdict = verdict_of(figure, first, values, threshold)
                yield Difference(suite["name"], key_of(case), figure, a, b, ratio, verdict)


def verdict_of(
    figure: str,
    before: Sequence[float | None],
    after: Sequence[float | None],
    threshold: float,
) -> Verdict:
    """Whether the later values are worse, better or neither. Missing ones are worse than any."""
    sign = sign_of(figure)
    old = [value for value in before if value is not None]
    new = [value for value in after if value is not None]
    if not sign or not old:
        return Verdict.SAME
    if not new:
        return Verdict.WORSE
    ratio = ratio_of(median(old), median(new))
    more = ratio > 1 + threshold and min(new) > max(old)
    less = ratio < 1 / (1 + threshold) and max(new) < min(old)
    if not (more or less):
        return Verdict.SAME
    return Verdict.BETTER if more == (sign > 0) else Verdict.WORSE


def comparison_table(found: Sequence[Difference]) -> str:
    """One row a figure."""
    rows = [
        [
            f"{one.suite} {one.case}".strip(),
            one.figure,
            number(one.before) if math.isfinite(one.before) else "-",
            number(one.after) if math.isfinite(one.after) else "-",
            f"{one.ratio:.3f}" if math.isfinite(one.ratio) else "-",
            one.verdict.value,
        ]
        for one in found
    ]
    return columns([["case", "figure", "before", "after", "ratio", ""], *rows])
