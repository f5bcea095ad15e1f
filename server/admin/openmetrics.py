"""Metrics as text: OpenMetrics 1.0, or Prometheus' text format 0.0.4 for who does not ask for it.

    # TYPE faircall_sweeps counter            # HELP faircall_sweeps_total Decays of the costs.
    # HELP faircall_sweeps Decays of ...      # TYPE faircall_sweeps_total counter
    faircall_sweeps_total{port="8020"} 3      faircall_sweeps_total{port="8020"} 3
    # EOF

Histograms are written with BOUNDS_NS, which are edges of the buckets that were counted in: nothing
is estimated. A time that lies on an edge, to the nanosecond, counts in the bucket above it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...scheduling.latencies import Histogram

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
# 16 us to 9 minutes: powers of two of a nanosecond, closest where most calls are.
BOUNDS_NS = tuple(1 << power for power in (14, 16, *range(17, 34), 35, 37, 39))
QUANTILES = (0.5, 0.9, 0.99)
SECOND_NS = 1_000_000_000

_LE = [repr(bound / SECOND_NS) for bound in BOUNDS_NS]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Kind(enum.Enum):
    """What a metric is; of a HISTOGRAM and a SUMMARY values are `Histogram`s of times."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Metric:
    """One family. `name` ends in its `unit`, if it has one, and never in `_total` or `_info`."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ("port",)
    unit: str = ""

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names that its samples have."""
        ends: Mapping[Kind, tuple[str, ...]] = {
            Kind.COUNTER: ("_total",),
            Kind.GAUGE: ("",),
            Kind.HISTOGRAM: ("_bucket", "_count", "_sum"),
            Kind.SUMMARY: ("", "_count", "_sum"),
            Kind.INFO: ("_info",),
        }
        return tuple(self.name + end for end in ends[self.kind])


Value = float | Histogram
Sample = tuple[Sequence[object], Value]  # the labels' values in their order, and the value


def wants_openmetrics(accept: str) -> bool:
    """Whether `Accept` asks for OpenMetrics at least as much as for plain text."""
    wanted: dict[str, float] = {}
    for part in accept.split(","):
        media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
        wanted[media_type] = max(wanted.get(media_type, 0.0), _weight(parameters))
    openmetrics = wanted.get("application/openmetrics-text", 0.0)
    return openmetrics > 0 and openmetrics >= wanted.get("text/plain", 0.0)


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def exposition(families: Iterable[tuple[Metric, Sequence[Sample]]], openmetrics: bool) -> bytes:
    """All `families` that have samples, as text."""
    lines: list[str] = []
    for metric, samples in families:
        if samples:
            lines += _head(metric, openmetrics)
            for values, value in samples:
                lines += _lines(metric, _labels(metric.labels, values), value)
    if openmetrics:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode(errors="replace")


def _head(metric: Metric, openmetrics: bool) -> list[str]:
    if openmetrics:
        unit = [f"# UNIT {metric.name} {metric.unit}"] if metric.unit else []
        kind = f"# TYPE {metric.name} {metric.kind.value}"
        return [kind, *unit, f"# HELP {metric.name} {metric.help}"]
    name, kind = metric.name, metric.kind.value
    if metric.kind in (Kind.COUNTER, Kind.INFO):
        name = metric.sample_names[0]
        kind = Kind.GAUGE.value if metric.kind is Kind.INFO else kind
    return [f"# HELP {name} {metric.help}", f"# TYPE {name} {kind}"]


def _lines(metric: Metric, labels: str, value: Value) -> Iterator[str]:
    if not isinstance(value, Histogram):
        yield f"{metric.sample_names[0]}{_braced(labels)} {value}"
        return
    if metric.kind is Kind.HISTOGRAM:
        between = "," if labels else ""
        counts = value.at_most(BOUNDS_NS)
        for le, count in zip(_LE, counts, strict=True):
            yield f'{metric.name}_bucket{{{labels}{between}le="{le}"}} {count}'
        yield f'{metric.name}_bucket{{{labels}{between}le="+Inf"}} {value.count}'
    else:
        yield from _quantiles(metric, labels, value)
    yield f"{metric.name}_count{_braced(labels)} {value.count}"
    yield f"{metric.name}_sum{_braced(labels)} {value.sum_ns / SECOND_NS}"


def _quantiles(metric: Metric, labels: str, value: Histogram) -> Iterator[str]:
    between = "," if labels else ""
    for share in QUANTILES:
        ns = value.quantile(share)
        shown = "NaN" if ns is None else ns / SECOND_NS
        yield f'{metric.name}{{{labels}{between}quantile="{share}"}} {shown}'


def _labels(names: Sequence[str], values: Sequence[object]) -> str:
    """`a="1",b="2"`: values are escaped, and may be any text."""
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in pairs)


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""
