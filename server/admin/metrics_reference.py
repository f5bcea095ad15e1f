"""docs/metrics.md, written from `metrics_table`: `python -m <this module> FILE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from .metrics_table import METRICS
from .openmetrics import BOUNDS_NS, Metric

INTRODUCTION = """\
# Metrics

<!-- Written by `make docs` from server/admin/metrics_table.py. -->

    faircall serve myapp:service --set admin.listen=127.0.0.1:9464
    curl -s http://127.0.0.1:9464/metrics

`admin.listen` has the admin process serve HTTP, one listener for all ports; without it there is
none.

| path | answers |
| --- | --- |
| `/metrics` | OpenMetrics 1.0 for who asks for it (`Accept`), else Prometheus' text format |
| `/livez` | 200 while the admin process lives; asks for no token and no name |
| `/readyz` | 200 while the server takes calls, else 503 |
| `/` | a page for people: [operations.md](operations.md#the-page) |

A scrape reads shared memory without a lock and runs in the admin process: it never slows a
reader. What it costs is told by `python -m faircall.perf.scrape`.

* **Who may ask**: on loopback everybody on this machine; on a Unix socket
  (`unix:/run/app/metrics.sock`, mode 0600) the daemon's user and root; at any other address who
  sends a token of `admin.token-file` (`Authorization: Bearer TOKEN`). Without that file faircall
  refuses to listen there.
* **Host**: an IP address or a name of `server.allowed-hosts`, against DNS rebinding; pages of
  other origins are refused.
* **Bounds**: 32 connections, 16 KiB for a head, 10 s for a request, 120 s between two.

```yaml
# prometheus.yml
scrape_configs:
  - job_name: faircall
    static_configs: [{targets: ["127.0.0.1:9464"]}]
```

[grafana.json](grafana.json) is a dashboard of the most of them; import it and choose the data
source.

## How to read them

* **Counters never go back** while the daemon runs, whichever of its processes is killed: each
  process has a column of its own in the shared memory, and its successor adds to it. Two are kept
  by what they count, and end with it: `faircall_limiter_events` with a caller's limiter,
  `faircall_user_wait_seconds` when another user is watched instead. Processor time starts anew
  with the admin process.
* **Times** are counted in 8 buckets per octave from 1 us to an hour and exported with {bounds}
  bounds, which are edges of those: nothing is estimated, and `histogram_quantile` is at
  most a factor of two off (between 65 us and 9 s; four below and above). `faircall stats` shows
  quantiles from the fine buckets.
* **Levels** of a wait and of a service time are those of the queue where the call waited; of a
  call's duration, what the scheduler chose. They differ where a full level passed a call on.
* **Who waits** of the watched users: the {watched} with the highest costs at each sweep
  (`limits.watched-users`); `faircall_user_...` otherwise shows the top of
  `decay-scheduler.metrics.top.user.count`, and everybody else as `(others)`.
* **Methods** that were never called have no histogram; those beyond the 63rd share the one of
  `(others)`.
* **OpenTelemetry**: `rpc_server_call_duration_seconds` is `rpc.server.call.duration` of the
  semantic conventions (with `rpc.system.name` and `rpc.method`). Refused calls are not in it: see
  `faircall_refusals`.

## All metrics

Names are those of OpenMetrics' families. A counter's samples end in `_total`, an info's in
`_info`, a histogram's in `_bucket`, `_count` and `_sum`.

| name | kind | labels | meaning |
| --- | --- | --- | --- |
"""


def page() -> Iterator[str]:
    """The lines of the page."""
    filled = INTRODUCTION.replace("{bounds}", str(len(BOUNDS_NS))).replace("{watched}", "32")
    yield filled.rstrip("\n")
    yield from map(_row, METRICS)
    yield ""


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.help} |"


def main() -> None:
    Path(sys.argv[1]).write_text("\n".join(page()))


if __name__ == "__main__":
    main()
