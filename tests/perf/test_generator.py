"""The load generator, against a server that really counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircall.perf.generator import Flow, Generator, Seen

from ..daemon import Daemon, serving, until

SERVICE = "faircall.perf.services:service"
ARGS = (
    *("--handlers", "1", "--trust-loopback", "--set", "ipc.callqueue.newcomer-calls=0"),
    *("--set", "ipc.decay-scheduler.period-ms=3600000"),  # no sweep forgets who called once
)


def run(daemon: Daemon, *flows: Flow, seconds: float = 0.5) -> dict[str, Seen]:
    generator = Generator(("127.0.0.1", daemon.tcp_port), flows)
    looks: list[float] = []
    try:
        generator.run(seconds, every_s=seconds / 4, look=looks.append)
    finally:
        generator.close()
    assert looks
    return generator.seen


def calls_of(daemon: Daemon) -> dict[str, int]:
    top = daemon.stats()["ports"][0]["users"]["top"]
    return {user["user"]: user["calls"] for user in top}


@pytest.mark.slow
def test_what_the_generator_counts_is_what_the_server_did(tmp_path: Path) -> None:
    with serving(tmp_path, SERVICE, *ARGS) as daemon:
        light = Flow(user="light", rate=200, connections=2, timed=True, calls=20)
        heavy = Flow(user="heavy", connections=4)
        minted = Flow(user="minted", connections=1, fresh_names=True)
        seen = run(daemon, light, heavy, minted)
        assert seen["light"].sent == 20
        assert sum(seen["light"].served.values()) == len(seen["light"].latencies) == 20
        assert all(took > 0 for _, took in seen["light"].latencies)
        for user, connections in (("heavy", 4), ("minted", 1)):
            answered = sum(seen[user].served.values())
            assert seen[user].sent - connections <= answered <= seen[user].sent
            assert answered > 10
        calls = {user: found.sent for user, found in seen.items()}
        sent = {user: calls[user] for user in ("light", "heavy")}
        until(lambda: sent.items() <= calls_of(daemon).items(), f"what was sent has run: {sent}")
        assert daemon.stats()["ports"][0]["users"]["unique"] >= calls["minted"]


@pytest.mark.slow
def test_refusals_are_told_from_results(tmp_path: Path) -> None:
    args = ("--set", "ipc.callqueue.total-capacity=4", "--set", "ipc.backoff.enable=true")
    with serving(tmp_path, SERVICE, *ARGS, *args) as daemon:
        flow = Flow(user="flood", rate=2000, calls=60, call=b'"method":"nap","params":[10]')
        seen = run(daemon, flow, seconds=1.0)["flood"]
        served, refused = sum(seen.served.values()), sum(seen.refused.values())
        assert served + refused == 60
        assert daemon.totals()["run"] == served > 0
        assert sum(daemon.totals()["refused"].values()) == refused > 0


def test_quantiles_are_of_calls_that_were_due_in_between() -> None:
    seen = Seen(latencies=[(at * 10**8, took * 10**6) for at, took in enumerate((5, 1, 9, 7, 3))])
    assert seen.quantile_ms(0.5) == 5.0
    assert seen.quantile_ms(1.0) == 9.0
    assert seen.quantile_ms(0.5, from_s=0.3) == 7.0
    assert seen.quantile_ms(0.0, to_s=0.15) == 1.0
    assert str(seen.quantile_ms(0.5, from_s=9)) == "nan"
