"""Limits of figures, `light p99 ms <= 20`, and which cases break them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .document import CaseFound, key_of, median
from .tables import number

_FORM = re.compile(r"(?P<where>(?:\S+=\S+\s+)*)(?P<figure>.+?)\s*(?P<sign><=|>=)\s*(?P<bound>\S+)")


@dataclass(frozen=True, slots=True)
class Limit:
    """Of the median of a figure, in the cases that have these labels."""

    where: Mapping[str, str]
    figure: str
    most: bool
    bound: float

    def broken_by(self, case: CaseFound) -> bool:
        """False if the case is not meant, or has no such figure. No value (nan) breaks it."""
        labels = {name: str(value) for name, value in case["labels"].items()}
        if not self.where.items() <= labels.items() or self.figure not in case["figures"]:
            return False
        value = median(case["figures"][self.figure])
        return math.isnan(value) or (value > self.bound if self.most else value < self.bound)

    def __str__(self) -> str:
        where = "".join(f"{name}={value} " for name, value in self.where.items())
        return f"{where}{self.figure} {'<=' if self.most else '>='} {self.bound:g}"


def parse_limit(text: str) -> Limit:
    """`[LABEL=VALUE ...] FIGURE <= NUMBER`, or >=. ValueError."""
    found = _FORM.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is no limit; write e.g. 'queue=fair light p99 ms <= 20'")
    where = dict(label.split("=", 1) for label in found["where"].split())
    return Limit(where, found["figure"], found["sign"] == "<=", float(found["bound"]))


def broken(suites: Sequence[Mapping[str, Any]], limits: Sequence[Limit]) -> Iterator[str]:
    """A line for each case and limit, and for each limit that says nothing of any case."""
    for limit in limits:
        cases = [(suite, case) for suite in suites for case in suite["cases"]]
        if not any(limit.figure in case["figures"] for _, case in cases):
            yield f"{limit}: no case has the figure {limit.figure!r}"
        for suite, case in cases:
            if limit.broken_by(case):
                value = number(median(case["figures"][limit.figure]))
                yield f"{limit}: {suite['name']} {key_of(case)} has {value}".replace("  ", " ")
