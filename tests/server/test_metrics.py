"""What /metrics consists of: a port without a server, read by Prometheus' parser."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics import parser

import faircall
from faircall.server.admin.metrics import Metrics
from faircall.server.admin.metrics_reference import page
from faircall.server.admin.metrics_table import CPU, METRICS, OTHER_USERS
from faircall.server.admin.process_usage import ProcessUsage
from faircall.server.admin.stats import PortStats
from faircall.server.janitor.watching import Watching
from faircall.server.port import Port
from faircall.shm.columns import Counter

from ..conftest import Load
from ..daemon import until
from ..fault.kill import start, wait_for
from .small_port import Traffic, small_port

DOCS = Path(faircall.__file__).parent / "docs"
MS = 1_000_000
read: Callable[[str], Iterator[Any]] = parser.text_string_to_metric_families
in_a_checkout = pytest.mark.skipif(not DOCS.exists(), reason="runs in a checkout only")


@pytest.fixture
def port(load: Load) -> Iterator[Port]:
    with small_port(load, "decay-scheduler.metrics.top.user.count = 2\n") as made:
        yield made


def families(port: Port) -> dict[str, Any]:
    text = Metrics([port], [PortStats(port, 0)]).text(openmetrics=True).decode()
    return {family.name: family for family in read(text)}


def values(family: Any, label: str) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in family.samples}


def test_a_user_with_any_name_is_a_label_and_the_rest_are_others(port: Port) -> None:
    traffic, names = Traffic(port), ['a"b\\c\nd', "käthe", "light", "lighter"]
    for name, cost in zip(names, (400, 300, 200, 100), strict=True):
        traffic.user(name, cost)
    shares = values(families(port)["faircall_user_cost_share_ratio"], "user")
    assert shares == {names[0]: 0.4, names[1]: 0.3, OTHER_USERS: 0.3}
    assert values(families(port)["faircall_users"], "port") == {"0": 4}


def test_waits_of_the_watched_have_quantiles(port: Port) -> None:
    row = Traffic(port).user("ann", 5)
    costs = np.zeros(port.shared.geometry.identities, np.int64)
    costs[row] = 5
    Watching(port.shared).choose(costs)
    for ns in (MS, 3 * MS):
        identity = port.shared.names.reference(row)
        port.shared.histograms.of_handler(0).ran(0, 0, identity, ns, MS)
    found = families(port)["faircall_user_wait_seconds"].samples
    samples = {(s.name, s.labels.get("quantile")): s.value for s in found}
    assert samples["faircall_user_wait_seconds", "0.99"] == pytest.approx(0.003, rel=1 / 8)
    assert samples["faircall_user_wait_seconds_count", None] == 2
    assert samples["faircall_user_wait_seconds_sum", None] == pytest.approx(0.004)


def test_the_queue_and_its_handlers_are_shown_as_they_are(port: Port) -> None:
    traffic = Traffic(port)
    for number, level in enumerate([0, 0, 2, 3]):
        traffic.offer(f"method-{number}", "ann", level)
    found = families(port)
    assert values(found["faircall_queue_calls"], "level") == {"0": 2, "1": 0, "2": 1, "3": 1}
    assert values(found["faircall_queue_capacity_calls"], "level") == dict.fromkeys("0123", 16.0)
    assert values(found["faircall_handlers"], "state")["absent"] == 2


def test_back_offs_are_the_refusals_that_may_come_again(port: Port) -> None:
    for counter, count in (
        (Counter.REFUSED_QUEUE_FULL, 1),
        (Counter.THROTTLED, 2),
        (Counter.REFUSED_INVALID, 4),
    ):
        port.shared.columns.add(0, counter, count)
    found = families(port)
    assert values(found["faircall_backoffs"], "port") == {"0": 3}
    refusals = values(found["faircall_refusals"], "reason")
    assert (refusals["queue_full"], refusals["throttled"], refusals["invalid"]) == (1, 2, 4)


def test_processor_time_of_a_place_grows_over_its_processes(port: Port) -> None:
    usage, row = ProcessUsage(), port.shared.row("handler", 0)
    key = (port.number, "handler", 0)
    before_s = 0.0
    for _ in range(2):
        row["pid"] = pid = start(_work)
        try:
            until(partial(_has_more, usage, port, key, before_s), "processor time")
            seen_s = _cpu_s(usage, port, key)
        finally:
            os.kill(pid, signal.SIGKILL)
            wait_for(pid)
        before_s = _cpu_s(usage, port, key)  # there is no such process any more
        assert before_s >= seen_s


def _has_more(usage: ProcessUsage, port: Port, key: tuple[object, ...], before_s: float) -> bool:
    return _cpu_s(usage, port, key) > before_s


def _work() -> None:
    while True:
        pass


def _cpu_s(usage: ProcessUsage, port: Port, key: tuple[object, ...]) -> float:
    usage.look(port)
    found = {labels: s for metric, labels, s in usage.samples(port) if metric is CPU}
    return found.get(key, 0.0)


# -- names ---------------------------------------------------------------------------------------


def test_every_metric_is_well_named_and_explained() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"(faircall|rpc_server)(_[a-z]+)+", metric.name), metric
        assert metric.name.endswith(f"_{metric.unit}") or not metric.unit, metric
        assert not metric.name.endswith(("_total", "_info", "_count", "_sum", "_bucket")), metric
        assert metric.help.endswith(".")
        assert not set(metric.help) & set('"\\\n'), metric
        assert all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels), metric


@in_a_checkout
def test_the_page_of_metrics_is_current() -> None:
    assert (DOCS / "metrics.md").read_text() == "\n".join(page()), "run `make docs`"


@in_a_checkout
def test_the_dashboard_names_only_metrics_and_labels_that_exist() -> None:
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    samples = {name: metric for metric in METRICS for name in metric.sample_names}
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 20
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for expression in expressions:
        used = re.findall(r"\b((?:faircall|rpc_server)_[a-z_]+)\{([^}]*)\}", expression)
        assert used, expression
        for name, selector in used:
            assert name in samples, expression
            asked = set(re.findall(r"(\w+)[=!]", selector))
            labels = {*samples[name].labels, "le", "quantile"}
            grouped = [g.split(", ") for g in re.findall(r"by \(([^)]*)\)", expression)]
            assert asked | {label for group in grouped for label in group} <= labels, expression
