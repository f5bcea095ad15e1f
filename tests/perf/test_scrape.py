"""A scrape has as many series for many users as for a few."""

from __future__ import annotations

from faircall.perf.scrape import known_users, scrapes
from faircall.server.admin.metrics import Metrics
from faircall.server.admin.stats import PortStats


def test_a_scrape_is_as_long_for_many_users_as_for_some() -> None:
    lines = []
    for users in (100, 1000):
        with known_users(users, methods=2) as port:
            text = Metrics([port], [PortStats(port, 0)]).text(openmetrics=True)
            lines.append(text.count(b"\n"))
            cpu_ms, elapsed_ms, size = scrapes(port, rounds=1)
            assert (len(cpu_ms), len(elapsed_ms)) == (1, 1)
            assert abs(size - len(text)) < len(text) // 10
    assert lines[0] == lines[1]
