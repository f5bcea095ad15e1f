"""What /metrics says is what clients have seen, whatever is killed meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser

from faircall import Client
from faircall.client import RemoteError

from ..daemon import PROBE, Daemon, serving, until
from ..raw import Raw

pytestmark = [pytest.mark.slow, pytest.mark.fault]

read: Callable[[str], Iterator[Any]] = parser.text_string_to_metric_families
DIED, RAISED = -32053, -32000
Key = tuple[str, frozenset[tuple[str, str]]]


class Scraped:
    """One scrape: `value` of a sample, `counters` are those that may never go back."""

    def __init__(self, daemon: Daemon) -> None:
        self._samples: dict[Key, float] = {}
        self.counters: dict[Key, float] = {}
        for family in read(scrape(daemon)):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self._samples, key
                self._samples[key] = sample.value
                if family.type in ("counter", "histogram"):
                    self.counters[key] = sample.value

    def value(self, name: str, **labels: object) -> int:
        wanted = {(label, str(value)) for label, value in labels.items()}
        found = [v for (n, have), v in self._samples.items() if n == name and wanted <= have]
        return int(sum(found))

    def assert_grown_since(self, before: Scraped) -> None:
        for key, value in before.counters.items():
            assert self.counters[key] >= value, key


def http(daemon: Daemon) -> str:
    """Where its admin process listens; of several that there were, the last."""
    daemon.event("admin listens")
    address: str = daemon.events("admin listens")[-1]["address"]
    return address.replace("tcp:", "http:")


def scrape(daemon: Daemon) -> str:
    address = http(daemon)
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    asked = urllib.request.Request(f"{address}/metrics", headers=accept)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text: str = answer.read().decode()
        return text


@contextlib.contextmanager
def daemon_with_metrics(folder: Path) -> Iterator[Daemon]:
    listen = ("--set", "admin.listen=127.0.0.1:0", "--trust-loopback")
    with serving(folder, PROBE, "--handlers", "2", *listen) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_with_metrics(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


def seen(scraped: Scraped) -> Counter[str]:
    """By what clients see: how often each."""
    count = scraped.value
    return Counter(
        calls=count("faircall_calls_total"),
        answered=count("faircall_call_outcomes_total", outcome="answered"),
        died=count("faircall_call_outcomes_total", outcome="died"),
        timed=count("rpc_server_call_duration_seconds_count", rpc_system_name="jsonrpc"),
        timed_by_level=count("faircall_level_call_duration_seconds_count"),
        in_buckets=count("rpc_server_call_duration_seconds_bucket", le="+Inf"),
    )


def test_counts_are_those_of_the_client_after_handlers_were_killed(daemon: Daemon) -> None:
    rounds, echoes = 3, 20
    scrapes = [Scraped(daemon)]
    with Raw(daemon.tcp) as raw:
        for _ in range(rounds):
            for number in range(echoes):
                raw.call("echo", number)
            assert raw.code("fail", "no") == RAISED
            assert raw.code("die", int(signal.SIGKILL)) == DIED
            scrapes.append(Scraped(daemon))
    for before, after in itertools.pairwise(scrapes):
        after.assert_grown_since(before)
    calls = rounds * (echoes + 2)
    expected = Counter(
        calls=calls,
        answered=calls,
        died=rounds,
        timed=calls,
        timed_by_level=calls,
        in_buckets=calls,
    )
    until(lambda: seen(Scraped(daemon)) == expected, expected)
    last = Scraped(daemon)
    for method, outcome, count in (
        ("echo", "ok", rounds * echoes),
        ("fail", "failed", rounds),
        ("die", "died", rounds),
    ):
        for each in ("ok", "failed", "died"):
            found = last.value("faircall_method_calls_total", rpc_method=method, outcome=each)
            assert found == (count if each == outcome else 0), (method, each)
    ran = rounds * (echoes + 1)
    assert last.value("faircall_service_seconds_count") == ran
    assert last.value("faircall_level_service_seconds_count") == ran
    assert last.value("faircall_draws_total") == ran  # what died was drawn, but did not end
    restarts = "faircall_process_restarts_total"
    until(lambda: Scraped(daemon).value(restarts, role="handler") == rounds, restarts)


def test_health_is_told_beside_the_metrics(daemon: Daemon) -> None:
    address = http(daemon)
    for path, body in (("livez", b"alive\n"), ("readyz", b"running\n")):
        with urllib.request.urlopen(f"{address}/{path}", timeout=30) as answer:
            assert answer.read() == body
    assert Scraped(daemon).value("faircall_phase", phase="running") == 1


def test_the_listener_is_there_again_after_the_admin_process_was_killed(daemon: Daemon) -> None:
    listened, first = len(daemon.events("admin listens")), daemon.child("admin")
    os.kill(first, signal.SIGKILL)
    until(lambda: len(daemon.events("admin listens")) > listened, "another listener")
    assert daemon.child("admin") != first
    with urllib.request.urlopen(f"{http(daemon)}/livez", timeout=30) as answer:
        assert answer.status == 200


@pytest.mark.stress
def test_counts_stay_those_of_the_clients_over_200_kills(tmp_path: Path) -> None:
    """Handlers are killed at any moment; what a client saw, and no more, is what is counted."""
    kills, outcomes, stopped = 200, Counter[str](), threading.Event()
    lock = threading.Lock()

    def call(address: str) -> None:
        mine = Counter[str]()
        with Client(address, retry=None) as client:
            while not stopped.is_set():
                futures = [client.submit("echo", number) for number in range(16)]
                futures.append(client.submit("pid"))
                for future in futures:
                    try:
                        future.result()
                        mine["ok"] += 1
                    except RemoteError as error:
                        mine[str(error.code)] += 1
        with lock:
            outcomes.update(mine)

    with daemon_with_metrics(tmp_path) as daemon:
        threads = [threading.Thread(target=call, args=(daemon.tcp,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        before = Scraped(daemon)
        for number in range(kills):
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon.child("handler", number % 2), signal.SIGKILL)
            if number % 10 == 9:
                after = Scraped(daemon)
                after.assert_grown_since(before)
                before = after
        stopped.set()
        for thread in threads:
            thread.join()
        calls = sum(outcomes.values())
        assert outcomes["ok"] > kills
        expected = Counter(
            calls=calls,
            answered=calls,
            died=outcomes[str(DIED)],
            timed=calls,
            timed_by_level=calls,
            in_buckets=calls,
        )
        until(lambda: seen(Scraped(daemon)) == expected, (expected, seen(Scraped(daemon))))
        last = Scraped(daemon)
        # A run that ended, but whose answer was not complete yet, counts as ok and as died.
        ended = last.value("faircall_method_calls_total", outcome="ok")
        assert outcomes["ok"] <= ended <= outcomes["ok"] + kills
