"""What the scenarios of dispatch throttling make of stamps and pairs, and their command."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from faircall.perf import admitted, limit_kept, throttle_cost, throttling
from faircall.perf.claims import most_within, per_period, whole, without_room
from faircall.perf.pairs import LEAST_PAIRS, ratio_of, student_975
from faircall.perf.pump import Pump
from faircall.perf.rows import Outcome

from ..stalls import Stalls

PERIOD = 100


def each_period(*counts: int) -> list[int]:
    """Stamps with so many calls in each period."""
    return [at * PERIOD + n for at, count in enumerate(counts, 7) for n in range(count)]


def test_calls_are_counted_by_periods_of_the_clock() -> None:
    stamps = [799, 800, 899, 1100]
    assert per_period(stamps, PERIOD) == {7: 1, 8: 2, 9: 0, 10: 0, 11: 1}
    assert whole(per_period(stamps, PERIOD)) == [2, 0, 0]
    assert whole(per_period(stamps, PERIOD), without={9}) == [2, 0]
    assert per_period([]) == {}


def test_a_window_may_begin_anywhere_and_excludes_its_end() -> None:
    assert most_within([0, 60, 100, 159, 160], window_ns=PERIOD) == 3
    assert most_within([160, 0, 60], window_ns=PERIOD) == 2
    assert most_within([0, 100], window_ns=PERIOD) == 1
    assert most_within([]) == 0


@pytest.mark.parametrize(
    ("counts", "limit", "size", "over"),
    [
        ((5, 5, 5), 5, 1, 0),
        ((5, 6, 5), 5, 1, 1 + 1),  # the debt is paid by the next, in which one is too many
        ((5, 6, 4), 5, 1, 1),
        ((4, 3, 3), 10, 3, 0),  # 12 of 10, then 2 + 9, then 1 + 9
        ((4, 4, 2), 10, 3, 1),
        ((2, 0, 0, 9), 5, 2, 9 - 3),
    ],
)
def test_a_call_is_over_if_the_limit_was_used_or_owed(
    counts: Sequence[int], limit: int, size: int, over: int
) -> None:
    assert without_room(each_period(*counts), limit, size, PERIOD) == over


def test_a_ratio_of_pairs_has_an_interval() -> None:
    noise = random.Random(4)
    # A disturbance that lasts meets both of a pair; one that does not makes an extreme ratio.
    speeds = [noise.uniform(1, 3) for _ in range(60)]
    pairs = [(speed, speed * 0.9 * noise.uniform(0.97, 1.03)) for speed in speeds]
    pairs[7] = (1.0, 40.0)
    ratio = ratio_of(pairs)
    assert ratio.low < 0.9 < ratio.high
    assert ratio.low < ratio.mean < ratio.high
    assert ratio.half_width < 0.02
    assert ratio_of([(2.0, 1.0)] * LEAST_PAIRS).mean == pytest.approx(0.5)
    with pytest.raises(ValueError, match="at least"):
        ratio_of(pairs[: LEAST_PAIRS - 1])


@pytest.mark.parametrize(("freedom", "quantile"), [(8, 2.306), (9, 2.262), (30, 2.042)])
def test_students_quantiles(freedom: int, quantile: float) -> None:
    assert student_975(freedom) == pytest.approx(quantile, abs=0.002)


def test_a_pump_keeps_its_requests_in_flight() -> None:
    line, seen = b'{"id":1}\n', bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client, contextlib.suppress(ConnectionResetError):
                client.recv(1000)
                client.sendall(b'{"id":"h"}\n')
                while data := client.recv(1000):
                    seen.extend(data)
                    client.sendall(b"1\n" * data.count(b"\n"))

        thread = threading.Thread(target=serve)
        thread.start()
        pump = Pump(listener.getsockname(), line, connections=1, depth=3)
        looks: list[float] = []
        rate = pump.run(0.1, looks.append)
        pump.close()
        thread.join()
    assert seen.startswith(line * 4)
    assert pump.answered > 3
    assert rate > 0
    assert looks


@pytest.mark.slow
def test_stamps_of_a_server_are_judged() -> None:
    """One server's life: its method leaves the times of its claims, by which it is judged."""
    began_ns = time.monotonic_ns()
    with Stalls() as stalls:
        outcome = limit_kept.exact(0.5)
    (row,) = outcome.rows
    most, calls = limit_kept.LIMIT, int(str(row["calls"]))
    assert 0 < int(str(row["most"])) <= most
    exact = calls == most * int(str(row["periods"])) > 0 and row["most"] == most
    assert outcome.holds == exact
    assert exact or stalls.between(began_ns, time.monotonic_ns())


def test_the_size_of_a_call_is_that_of_its_params() -> None:
    call = limit_kept.stamp_call(Path("/x"), 0.0, "abc")
    assert call == b'"jsonrpc":"2.0","method":"stamp","params":["/x", 0.0, "abc"],"id":1'
    assert admitted.size_of(call) == len(b'["/x", 0.0, "abc"]')


def test_another_checkout_is_really_another(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make build/pkg"):
        throttle_cost.unused(tmp_path, None, 0.1, LEAST_PAIRS, 1)


@pytest.mark.parametrize("holds", [True, False])
def test_the_command_ends_with_1_if_its_claim_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    asked: list[float] = []

    def exact(seconds: float) -> Outcome:
        asked.append(seconds)
        return Outcome([{"periods": 9, "most": 51}], "each period has 50 calls", holds)

    monkeypatch.setattr(limit_kept, "exact", exact)
    result = CliRunner().invoke(throttling.main, ["exact", "--seconds", "3"])
    assert asked == [3.0]
    assert result.exit_code == (0 if holds else 1)
    heads, _, figures, claim = result.output.splitlines()
    assert (heads.split(), figures.split()) == (["periods", "most"], ["9", "51"])
    assert claim == f"{'holds' if holds else 'DOES NOT HOLD'}: each period has 50 calls"
