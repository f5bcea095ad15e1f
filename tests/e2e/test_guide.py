"""The example of Hadoop's Fair Call Queue guide, from a core-site.xml as it stands there.

2 levels, a user with 90 % or more of the load on level 1, one call in 100 from level 1,
7 of 10 places in the queue for level 0
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ..conformance.shared_port import SharedPort, settings_of
from ..conformance.shared_queues import CallsOfTable
from ..conformance.shared_schedulers import SweptCosts
from ..daemon import PROBE, serving, until
from ..raw import Raw, request

GUIDE = {
    "ipc.8020.callqueue.impl": "org.apache.hadoop.ipc.FairCallQueue",
    "ipc.8020.scheduler.impl": "org.apache.hadoop.ipc.DecayRpcScheduler",
    "ipc.8020.scheduler.priority.levels": "2",
    "ipc.8020.faircallqueue.multiplexer.weights": "99,1",
    "ipc.8020.decay-scheduler.thresholds": "90",
    "ipc.8020.callqueue.capacity.weights": "7,3",
    "ipc.8020.backoff.enable": "true",
}
CAPACITY = 1000
DRAWS = 1000


def core_site(keys: dict[str, str]) -> str:
    properties = "".join(
        f"  <property><name>{key}</name><value>{text}</value></property>\n"
        for key, text in keys.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}</configuration>\n'


@pytest.fixture
def table() -> CallsOfTable:
    """The shared table under the guide's settings."""
    return CallsOfTable(SharedPort(*settings_of(GUIDE, CAPACITY)))


def test_the_capacity_is_split_7_to_3(table: CallsOfTable) -> None:
    assert table.port.policy.capacities == (700, 300)
    taken = Counter(bool(table.stage(f"c{number}", 0)) for number in range(CAPACITY + 5))
    assert taken == {True: CAPACITY, False: 5}
    assert table.sizes({}) == [700, 300]
    table.port.close()


def test_one_of_every_100_draws_serves_level_1(table: CallsOfTable) -> None:
    """While level 0 is never empty; in any 100 draws, wherever they begin."""
    for number in range(DRAWS // 100 + 1):
        table.stage(f"1:{number}", 1)
    drawn = []
    for number in range(DRAWS):
        table.stage(f"0:{number}", 0)
        drawn.append(str(table.claim())[0])
    for at in range(DRAWS - 99):
        assert drawn[at : at + 100].count("1") == 1
    table.port.close()


@pytest.mark.parametrize(
    ("heavy", "others", "level"), [(90, 10, 1), (89, 11, 0), (100, 0, 1), (899, 101, 0)]
)
def test_a_user_with_90_percent_of_the_cost_is_on_level_1(
    table: CallsOfTable, heavy: int, others: int, level: int
) -> None:
    costs = SweptCosts(table.port)
    costs.complete({"user": "heavy", "n": 2 * heavy})
    costs.complete({"user": "other", "n": 2 * others})
    costs.decay({})
    assert (costs.priority({"user": "heavy"}), costs.priority({"user": "other"})) == (level, 0)
    table.port.close()


@pytest.mark.slow
def test_the_server_runs_it(tmp_path: Path) -> None:
    """A user that makes nearly all the calls is served at level 1 after the next sweep."""
    config = tmp_path / "core-site.xml"
    fast = {"ipc.8020.decay-scheduler.period-ms": "200"}
    config.write_text(core_site(GUIDE | fast))
    args = ("--config", str(config), "--handlers", "1")
    with (
        serving(tmp_path / "daemon", PROBE, *args, binds=("unix:~/guide.sock#8020",)) as daemon,
        Raw(daemon.unix) as heavy,
        Raw(daemon.unix) as light,
    ):
        heavy.call("faircall.hello", "heavy")
        light.call("faircall.hello", "light")

        def levels() -> tuple[int, int] | None:
            """Of both users, once a sweep has seen 20 calls of one and one of the other."""
            heavy.send(*(request("about", id=number) for number in range(20)))
            answers = [heavy.receive()["result"]["level"] for _ in range(20)]
            found = answers[-1], light.call("about")["level"]
            return found if found == (1, 0) else None

        assert until(levels, "the levels of the guide") == (1, 0)
        queue = daemon.stats()["ports"][0]["queue"]
        shown = [(level["weight"], level["capacity"]) for level in queue["levels"]]
        assert shown == [(99, 70), (1, 30)]  # 100 places for each handler
        assert (queue["impl"], queue["in_turn"], queue["backoff"]) == ("FairCallQueue", False, True)


@pytest.mark.slow
def test_the_guides_own_misspelt_key_is_named(tmp_path: Path) -> None:
    """Its text calls the cost provider's key costprovider.impl; the code reads another."""
    config = tmp_path / "core-site.xml"
    name = "org.apache.hadoop.ipc.WeightedTimeCostProvider"
    config.write_text(core_site(GUIDE | {"ipc.8020.costprovider.impl": name}))
    command = [sys.executable, "-m", "faircall", "check-config", "--config", str(config)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 2
    assert "did you mean cost-provider.impl?" in checked.stderr + checked.stdout
