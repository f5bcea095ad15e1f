"""Scenarios, documents, limits and comparisons of `faircall bench`, and a run from end to end."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from faircall.client.address import parse_address
from faircall.perf.bench import environment, scenario
from faircall.perf.bench.cli import bench
from faircall.perf.bench.compare import Verdict, differences, ratio_of, verdict_of
from faircall.perf.bench.document import median, spread
from faircall.perf.bench.limits import broken, parse_limit
from faircall.perf.bench.tables import suite_table
from faircall.server.cli import cli

from .tiny_server import tiny_server

MATRIX = """
about = "x"
[matrix]
queue = ["fifo", "fair"]
heavy = [8, 32]
[settings.fifo]
"a.b" = true
[settings.fair]
[server]
settings = "$queue"
[[groups]]
connections = "$heavy"
calls = [{ method = "echo", payload-bytes = 3 }]
"""
GROUP = '[[groups]]\ncalls = [{ method = "m" }]\n'


def document_of(p99_ms: Sequence[float], rate: Sequence[float]) -> dict[str, Any]:
    case = {
        "labels": {"queue": "fair"},
        "figures": {"light p99 ms": list(p99_ms), "calls/s": list(rate), "server cores": [1.0]},
        "groups": {},
    }
    return {"suites": [{"name": "s", "about": "", "cases": [case]}]}


def test_every_combination_of_the_matrix_is_a_case() -> None:
    cases = scenario.parse(MATRIX, "x").cases
    assert [tuple(case.labels.values()) for case in cases] == [
        ("fifo", 8),
        ("fifo", 32),
        ("fair", 8),
        ("fair", 32),
    ]
    assert cases[1].spec.groups[0].connections == 32
    assert cases[0].spec.server.as_text() == {"a.b": "true"}
    assert cases[2].spec.server.as_text() == {}
    assert cases[0].spec.groups[0].calls[0].request().params == '["xxx"]'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no .*groups"),
        (GROUP + "depht = 1\n", "unknown field `depht`"),
        (GROUP + 'rate = "$fast"\n', "no variable of"),
        (GROUP + "depth = 5000\n", "a depth to 4096"),
        (GROUP + "rate-of-capacity = 0.5\n", "there is no .capacity"),
        (GROUP + GROUP, "one name"),
        (GROUP + "page = true\nrate = 5\n", "is a page: it has no rate"),
        (GROUP + "users = 2\n", "names begin with"),
        ('knee = { over = "load" }\n' + GROUP, "load of .knee. or .grid. is no variable"),
        ('server.settings = "gone"\n' + GROUP, r"no table .settings\.gone"),
        ("a = ", "Invalid value"),
    ],
)
def test_a_bad_scenario_is_told_with_its_name(text: str, why: str) -> None:
    with pytest.raises(scenario.ScenarioError, match=f"scenario mine: .*{why}"):
        scenario.parse(text, "mine")


@pytest.mark.parametrize("name", scenario.names())
def test_every_suite_can_be_run(name: str) -> None:
    found = scenario.find(name)
    assert found.about
    for case in found.cases:
        plan = case.spec.plan(parse_address("tcp://h:1"), 1, 1, capacity=100.0)
        assert all(group.rate >= 0 and group.requests for group in plan.groups)


def test_a_part_of_the_capacity_is_a_rate_and_none_leaves_the_group_out() -> None:
    rates = {
        case.labels["flood"]: {
            group.name: group.rate
            for group in case.spec.plan(parse_address("h:1"), 1, 1, capacity=200.0).groups
        }
        for case in scenario.find("noisy").cases
    }
    assert rates[0] == {"light": 50}
    assert rates[1.5] == {"light": 50, "flood": 300}


def test_ratios() -> None:
    assert (ratio_of(2, 3), ratio_of(0, 0), ratio_of(0, 2)) == (1.5, 1, math.inf)
    assert math.isnan(ratio_of(0, math.nan))


@pytest.mark.parametrize(
    ("figure", "before", "after", "verdict"),
    [
        ("p99 ms", [10.0], [12.0], Verdict.WORSE),
        ("p99 ms", [12.0], [10.0], Verdict.BETTER),
        ("p99 ms", [10.0], [10.9], Verdict.SAME),
        ("calls/s", [100.0], [80.0], Verdict.WORSE),
        ("calls/s", [80.0], [100.0], Verdict.BETTER),
        ("p99 ms", [10.0, 13.0], [12.0, 15.0], Verdict.SAME),  # repeats overlap
        ("offered calls/s", [1.0], [2.0], Verdict.SAME),
        ("server cores", [1.0], [2.0], Verdict.SAME),
        ("not ok", [0.0], [5.0], Verdict.WORSE),
        ("p99 ms", [10.0], [None], Verdict.WORSE),
    ],
)
def test_worse_is_beyond_the_threshold_and_the_spread(
    figure: str, before: list[float | None], after: list[float | None], verdict: Verdict
) -> None:
    assert verdict_of(figure, before, after, 0.1) is verdict


def test_a_comparison_has_what_both_have() -> None:
    found = list(differences(document_of([10], [5]), document_of([20], [5]), 0.1))
    assert [(one.figure, one.ratio, one.verdict) for one in found] == [
        ("light p99 ms", 2, Verdict.WORSE),
        ("calls/s", 1, Verdict.SAME),
        ("server cores", 1, Verdict.SAME),
    ]
    only = list(differences(document_of([10], [5]), document_of([20], [5]), 0.1, ["calls/s"]))
    assert [one.figure for one in only] == ["calls/s"]


def test_the_exit_code_tells_whether_something_is_worse(tmp_path: Path) -> None:
    files = []
    for name, p99_ms in (("a", 10.0), ("b", 20.0)):
        files.append(tmp_path / name)
        whole = {"faircall-bench": 1, "environment": {}, **document_of([p99_ms], [5.0])}
        files[-1].write_text(json.dumps(whole))
    a, b = map(str, files)
    worse = CliRunner().invoke(bench, ["compare", a, b])
    assert (worse.exit_code, "2.000  WORSE" in worse.output) == (1, True), worse.output
    assert CliRunner().invoke(bench, ["compare", b, a]).exit_code == 0
    assert CliRunner().invoke(bench, ["compare", a, b, "--threshold", "1.5"]).exit_code == 0
    files[0].write_text("[]")
    assert CliRunner().invoke(bench, ["compare", a, b]).exit_code == 2


def test_median_and_spread() -> None:
    assert (median([1, None, 3]), spread([1, None, 3]), spread([5])) == (2, 0.5, 0)
    assert math.isnan(median([None]))


def test_limits() -> None:
    suites = document_of([30], [5])["suites"]
    texts = ["queue=fair light p99 ms <= 20", "queue=fifo light p99 ms <= 20", "calls/s >= 5"]
    assert list(broken(suites, [parse_limit(text) for text in texts])) == [
        "queue=fair light p99 ms <= 20: s queue=fair has 30"
    ]
    assert list(broken(suites, [parse_limit("p42 ms <= 1")])) == [
        "p42 ms <= 1: no case has the figure 'p42 ms'"
    ]
    with pytest.raises(ValueError, match="is no limit"):
        parse_limit("p99 ms < 20")


def test_groups_have_rows_of_their_own() -> None:
    case = {
        "labels": {"queue": "fair"},
        "figures": {"light p99 ms": [1.0], "heavy p99 ms": [2.5], "waiting calls": [7.0]},
        "groups": {"light": {}, "heavy": {}},
    }
    rows = [line.split() for line in suite_table({"cases": [case]}).splitlines()]
    assert rows[2:] == [["fair", "light", "1", "7"], ["fair", "heavy", "2.50", "-"]]


def test_the_environment_names_the_machine(tmp_path: Path) -> None:
    found = environment.environment()
    assert found["cores"] >= found["cores allowed"] >= 1
    assert {"cpu", "kernel", "governor", "load", "python build", "commit"} <= found.keys()
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: A CPU @ 2 GHz\n")
    assert environment.cpu_model(tmp_path / "cpuinfo") == "A CPU @ 2 GHz"


def test_faircall_has_the_command() -> None:
    found = CliRunner().invoke(cli, ["bench", "list"])
    assert found.exit_code == 0
    assert "fairness" in found.output
    assert "  bench " in CliRunner().invoke(cli, ["--help"]).output


def test_a_server_is_measured_by_its_url(tmp_path: Path) -> None:
    with tiny_server("tcp", tmp_path) as (tiny, address):
        files = {name: str(tmp_path / name) for name in ("json", "csv", "hgrm")}
        words = ["load", "echo", "[1]", "--url", str(address), "-c", "2", "-t", "0.3"]
        words += ["--warm-up", "0.1", "--repeats", "2", "--require", "not ok <= 0"]
        words += [word for name, file in files.items() for word in (f"--{name}", file)]
        found = CliRunner().invoke(bench, words)
    assert found.exit_code == 0, found.output
    assert "calls/s" in found.output
    document = json.loads((tmp_path / "json").read_text())
    (case,) = document["suites"][0]["cases"]
    assert [len(values) for values in case["figures"].values()] == [2] * len(case["figures"])
    counted = case["groups"]["main"]["latency"]["count"]
    assert 0 < counted <= sum(tiny.calls.values())
    assert f"Total count    = {counted:12d}" in (tmp_path / "hgrm" / "load-main.hgrm").read_text()
    assert (
        (tmp_path / "csv").read_text().startswith("suite,case,figure,repeat,value\nload,,calls/s")
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["run", "nothing"], "no suite 'nothing'; there are cpu, fairness"),
        (["run", "fairness", "--only", "queue=lifo"], "no case is left"),
        (["load", "--url", "gopher://x"], "unknown scheme"),
        (["load", "echo", "nope"], "PARAMS is no JSON"),
        (["load", "--require", "fast"], "is no limit"),
    ],
)
def test_what_cannot_run_is_told(words: list[str], why: str) -> None:
    found = CliRunner().invoke(bench, words)
    assert found.exit_code == 2
    assert why in found.output


@pytest.mark.slow
def test_a_suite_on_a_server_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    words = ["run", "fairness", "--only", "heavy=8", "--only", "queue=fair", "--seconds", "1.2"]
    found = CliRunner().invoke(bench, [*words, "--json", str(file)])
    assert found.exit_code == 0, found.output
    (case,) = json.loads(file.read_text())["suites"][0]["cases"]
    assert case["figures"]["heavy calls/s"][0] > 0
    assert case["figures"]["light calls/s"][0] > 0
    assert case["figures"]["server cores"][0] > 0
    assert case["waiting"]
