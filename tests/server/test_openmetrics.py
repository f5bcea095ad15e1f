"""The text of metrics, read by the parsers of Prometheus' own client library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from faircall.scheduling.latencies import BUCKETS, Histogram, bucket_of, lower_ns
from faircall.server.admin.openmetrics import (
    BOUNDS_NS,
    Kind,
    Metric,
    Sample,
    exposition,
    wants_openmetrics,
)

COUNTER = Metric("a_bytes", Kind.COUNTER, "Bytes.", ("user",), "bytes")
GAUGE = Metric("b", Kind.GAUGE, "A gauge.", ())
HISTOGRAM = Metric("c_seconds", Kind.HISTOGRAM, "Times.", ("user",), "seconds")
SUMMARY = Metric("d_seconds", Kind.SUMMARY, "Times.", (), "seconds")
INFO = Metric("e", Kind.INFO, "What.", ("version",))
Read = Callable[[str], Iterable[Any]]
READERS: list[tuple[bool, Read]] = [
    (True, read_openmetrics),
    (False, read_plain),
]


def times(*ns: int) -> Histogram:
    counts = np.zeros(BUCKETS, np.uint64)
    for each in ns:
        counts[bucket_of(each)] += 1
    return Histogram(counts, sum(ns))


@pytest.mark.parametrize(("openmetrics", "read"), READERS, ids=["openmetrics", "plain"])
def test_every_kind_is_read_as_what_it_is(openmetrics: bool, read: Read) -> None:
    families: list[tuple[Metric, list[Sample]]] = [
        (COUNTER, [(("ann",), 3)]),
        (GAUGE, [((), 0.5)]),
        (HISTOGRAM, [(("ann",), times(1 << 20, 1 << 38, 1 << 41))]),
        (SUMMARY, [((), times())]),
        (INFO, [(("1.0",), 1)]),
    ]
    found = {f.name: f for f in read(exposition(families, openmetrics).decode())}
    kinds = {name: family.type for name, family in found.items()}
    info = {"e": "info"} if openmetrics else {"e_info": "gauge"}
    assert kinds == {
        "a_bytes": "counter",
        "b": "gauge",
        "c_seconds": "histogram",
        "d_seconds": "summary",
        **info,
    }
    samples = {s.name: s.value for f in found.values() for s in f.samples if "le" not in s.labels}
    assert samples["a_bytes_total"] == 3
    assert (samples["b"], samples["c_seconds_count"], samples["d_seconds_count"]) == (0.5, 3, 0)
    assert samples["c_seconds_sum"] == pytest.approx((2**20 + 2**38 + 2**41) / 1e9)
    buckets = [(s.labels["le"], s.value) for s in found["c_seconds"].samples if "le" in s.labels]
    assert len(buckets) == len(BOUNDS_NS) + 1 <= 25
    assert dict(buckets)["0.001048576"] == 0  # on the edge: in the bucket above
    assert dict(buckets)["0.002097152"] == 1
    assert buckets[-1] == ("+Inf", 3)
    if openmetrics:
        assert (found["c_seconds"].unit, found["a_bytes"].unit) == ("seconds", "bytes")


@given(st.text(max_size=20))
def test_any_text_may_be_a_label(name: str) -> None:
    shown = name.encode(errors="replace").decode()
    for openmetrics, read in READERS:
        text = exposition([(COUNTER, [((name,), 1)])], openmetrics).decode()
        (family,) = read(text)
        assert [sample.labels for sample in family.samples] == [{"user": shown}]


def test_bounds_are_edges_of_buckets_and_grow() -> None:
    assert list(BOUNDS_NS) == sorted(set(BOUNDS_NS))
    assert all(lower_ns(bucket_of(bound)) == bound for bound in BOUNDS_NS)


def test_a_family_without_samples_is_left_out_and_openmetrics_has_an_end() -> None:
    assert exposition([(GAUGE, [])], openmetrics=True) == b"# EOF\n"


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (PROMETHEUS, True),
        ("application/openmetrics-text", True),
        ("text/plain", False),
        ("text/plain;q=0.9, application/openmetrics-text;q=0.1", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=much", False),
        ("text/html,*/*;q=0.8", False),
        ("", False),
    ],
)
def test_openmetrics_is_for_who_asks_for_it(accept: str, wanted: bool) -> None:
    assert wants_openmetrics(accept) is wanted
