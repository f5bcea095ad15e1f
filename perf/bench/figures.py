"""Figures of a case: what groups, methods and pages say of the server, and what it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

from .histogram import Histogram
from .result import GroupResult, MethodResult, Result
from .specs import CaseSpec, GroupSpec
from .watch import MB, Look

QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
OFFERED, ANSWERED = "offered calls/s", "calls/s"

Figures = Iterator[tuple[str, float]]


def of_load(result: Result, spec: CaseSpec) -> dict[str, float]:
    """By name, which begins with that of the group if there are several. Groups without load (of
    rate 0) are not there."""
    found: dict[str, float] = {}
    specs = {group.name: group for group in spec.groups}
    for group in result.groups:
        prefix = f"{group.name} " if len(result.groups) > 1 else ""
        found |= {prefix + name: value for name, value in _group(group, specs[group.name], result)}
        for name, method in methods(group):
            found |= {f"{name} {key}": value for key, value in _method(method, result.length_s)}
    return found


def methods(group: GroupResult) -> Iterator[tuple[str, MethodResult]]:
    """(GROUP/METHOD, its result) of each, if there are several and they do not make up a page."""
    if len(group.methods) > 1 and not (group.pages.ok or group.pages.failed):
        for method in group.methods:
            yield f"{group.name}/{method.name}", method


def _group(group: GroupResult, spec: GroupSpec, result: Result) -> Figures:
    length_s = result.length_s
    if spec.page:
        yield from _pages(group, length_s)
    if spec.rate or spec.rate_of_capacity:
        yield OFFERED, (group.measured().total() + group.unsent) / length_s
    yield ANSWERED, group.answered / length_s
    yield from quantiles(group.latency)
    counts = group.measured()
    yield "not ok", float(counts.total() - counts["ok"] + group.unsent)
    if spec.window_s:
        yield f"worst {spec.window_s}-s p99 ms", _worst_ms(group, spec.window_s, result)


def _method(method: MethodResult, length_s: float) -> Figures:
    """By when calls were due, or answered (closed loop)."""
    yield ANSWERED, method.measured["ok"] / length_s
    yield from quantiles(method.latency)
    yield "not ok", float(method.measured.total() - method.measured["ok"])


def quantiles(latency: Histogram) -> Figures:
    """In ms; nan where there are no calls."""
    for name, quantile in QUANTILES.items():
        yield f"{name} ms", latency.quantile(quantile) / 1e6
    yield "max ms", latency.largest / 1e6


def _pages(group: GroupResult, length_s: float) -> Figures:
    pages = group.pages
    yield "pages/s", pages.ok / length_s
    yield "failed pages", float(pages.failed)
    for name, quantile in QUANTILES.items():
        yield f"page {name} ms", pages.latency.quantile(quantile) / 1e6
    classes = group.classes()
    yield "% ok", 100 * classes["ok"] / max(1, sum(classes.values()))
    for name, count in classes.items():
        yield name, float(count)
    yield "received MB/s", group.bytes_in / MB / length_s


def _worst_ms(group: GroupResult, window_s: int, result: Result) -> float:
    """The largest p99 of whole windows after the warm-up; nan if the run is shorter than one."""
    seconds = [second.latency for second in group.seconds[-int(result.length_s) :]]
    windows = [
        reduce(add, seconds[at : at + window_s])
        for at in range(0, len(seconds) - window_s + 1, window_s)
    ]
    return max((window.quantile(0.99) / 1e6 for window in windows), default=float("nan"))


def of_server(looks: Sequence[tuple[float, Look]], moves_bytes: bool) -> dict[str, float]:
    """Of looks at (seconds of a clock, what was seen): the largest memory, and what was used
    between the first and the last one."""
    (began, first), (ended, last) = looks[0], looks[-1]
    took_s = max(ended - began, 1e-9)
    found = {
        "server cores": (last.cpu_s - first.cpu_s) / took_s,
        "server MiB": max(seen.pss_mib for _, seen in looks),
    }
    if moves_bytes:
        found["server file MB/s"] = (last.file_mb - first.file_mb) / took_s
        found["loopback MB/s"] = (last.loopback_mb - first.loopback_mb) / took_s
    return found
