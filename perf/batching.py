"""What serving many calls at once is worth: a function that takes 10 ms and 0.1 ms for each call.

    one by one    every call is an invocation: 10.1 ms
    together      up to 32 calls are one, for which a handler waits 2 ms if it has nothing else

Callers keep 128 calls in flight; a second row of each has one that calls alone, to show what the
wait costs. The function sleeps, so that the processors do not matter.

    python -m faircall.perf.batching [--seconds 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from .generator import Flow
from .rows import FAIR, Row, loaded, table

CALLERS, EACH = 4, 32  # calls in flight
METHODS = {"one by one": "model_alone", "together": "model"}
SETTINGS = {
    **FAIR,
    "ipc.callqueue.max-principal-share": "1.0",
    "ipc.scheduler.priority.levels": "1",
    "ipc.callqueue.newcomer-calls": "0",
}


def rows(
    seconds: float,
    callers: int = CALLERS,
    each: int = EACH,
    methods: Mapping[str, str] = METHODS,
) -> list[Row]:
    """Calls per second and latencies, of each method under load and of one call at a time."""
    return [
        _row(name, method, flows, seconds)
        for name, method in methods.items()
        for flows in (_flows(method, callers, each), _flows(method, 1, 1))
    ]


def _flows(method: str, callers: int, each: int) -> list[Flow]:
    return [
        Flow(
            user=f"user-{number}",
            call=b'"method":"%s","params":[%d]' % (method.encode(), number),
            connections=each,
            timed=True,
        )
        for number in range(callers)
    ]


def _row(name: str, method: str, flows: Sequence[Flow], seconds: float) -> Row:
    with loaded(SETTINGS, flows) as (server, generator):
        generator.run(seconds)
        figures = next(m for m in server.stats()["methods"] if m["method"] == method)
    seen = list(generator.seen.values())
    first, end = min(1, int(seconds) - 1), int(seconds)
    served = [each.served_between(first, end) for each in seen]
    return {
        "invocations": name,
        "in flight": sum(flow.connections for flow in flows),
        "calls/s": sum(served) // max(1, end - first),
        "p50 ms": max(each.quantile_ms(0.5, first) for each in seen),
        "p99 ms": max(each.quantile_ms(0.99, first) for each in seen),
        "least/most": min(served) / max(1, max(served)),
        "mean ms": figures["mean_ms"],
        "calls/run": figures.get("calls_per_run", 1.0),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m faircall.perf.batching")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load for each row")
    print(table(rows(parser.parse_args(arguments).seconds)))


if __name__ == "__main__":
    main()
