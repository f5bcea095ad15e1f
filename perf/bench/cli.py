"""`faircall bench`: the commands. What they need is imported when they run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..peers.cli import peers, ratios

if TYPE_CHECKING:
    from .runner import Options
    from .scenario import Scenario

DEFAULT_SUITES = ("throughput", "latency", "fairness")
FAILED, USAGE = 1, 2
_FILE = click.Path(dir_okay=False, path_type=Path)
_FOUND = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def bench() -> None:
    """Measure servers: throughput, latency, fairness; compare runs; write reports."""


bench.add_command(peers)
bench.add_command(ratios)


@bench.command("list")
def list_suites() -> None:
    """The suites that there are."""
    from . import scenario

    found = [scenario.find(name) for name in scenario.names()]
    rows = [[one.name, str(len(one.cases)), one.about] for one in found]
    wide = max(len(row[0]) for row in rows)
    click.echo("\n".join(f"{name:<{wide}}  {cases:>3} cases  {text}" for name, cases, text in rows))


def _output_options(command: Any) -> Any:
    options = (
        click.option("--url", help="Of a running server; else each case starts one."),
        click.option("--repeats", type=click.IntRange(1), help="Default: the suite's, mostly 1."),
        click.option("--threads", type=click.IntRange(1, 64), default=1, help="Of the generator."),
        click.option("--json", "json_file", type=_FILE, help="Write the document of the run."),
        click.option("--csv", "csv_file", type=_FILE, help="Write each figure of each repeat."),
        click.option(
            "--hgrm",
            "hgrm_folder",
            type=click.Path(file_okay=False, path_type=Path),
            help="Write the latency distribution of each group into this folder.",
        ),
        click.option("--html", "html_file", type=_FILE, help="Write a report with plots."),
        click.option("--require", multiple=True, help="E.g. 'queue=fair light p99 ms <= 20'."),
        click.option("-q", "--quiet", is_flag=True, help="No progress."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@bench.command()
@click.argument("suites", nargs=-1, metavar="[SUITE|FILE.toml]...")
@click.option("--seconds", type=click.FloatRange(0.1), help="Of each case, as against its own.")
@click.option(
    "--only",
    multiple=True,
    metavar="LABEL=VALUE",
    help="Cases with this label; with any of its values, if named again.",
)
@click.option("--browsers", type=click.IntRange(1), help="Parallel connections of a user: pages.")
@_output_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    suites: Sequence[str],
    seconds: float | None,
    only: Sequence[str],
    browsers: int | None,
    **output: Any,
) -> None:
    """Run suites (default: throughput, latency and fairness) and print a table of each.

    Exit codes: 0; 1 a limit of --require, or of a scenario, is broken; 2 it cannot run.
    """
    from . import scenario
    from .runner import chosen

    options = _options(output, seconds or 0.0, only)
    values = {scenario.BROWSERS: browsers} if browsers else {}
    try:
        found = [chosen(scenario.find(name, values), options) for name in suites or DEFAULT_SUITES]
    except scenario.ScenarioError as error:
        _stop(str(error))
    ctx.exit(_run(found, options, output))


@bench.command()
@click.argument("method", default="echo")
@click.argument("params", default='["hello"]')
@click.option("-c", "--connections", type=click.IntRange(1), default=16, show_default=True)
@click.option("-d", "--depth", type=click.IntRange(1, 4096), default=1, show_default=True)
@click.option("-r", "--rate", type=click.FloatRange(0), default=0.0, help="0: closed loop.")
@click.option("-t", "--seconds", type=click.FloatRange(0.1), default=5.0, show_default=True)
@click.option("--warm-up", type=click.FloatRange(0), default=1.0, show_default=True)
@click.option("--timeout", type=click.FloatRange(0), default=0.0, help="Seconds; 0: none.")
@click.option("--user", default="", help="Who calls.")
@_output_options
@click.pass_context
def load(ctx: click.Context, /, method: str, params: str, **given: Any) -> None:
    """Call METHOD with PARAMS (JSON) again and again, and print what came of it."""
    from . import scenario

    try:
        calls = [{"method": method, "params": json.loads(params)}]
    except ValueError as error:
        _stop(f"PARAMS is no JSON: {error}")
    group = {key: given[key] for key in ("connections", "depth", "rate", "user")}
    case = scenario.one_case(
        {
            "seconds": given["seconds"],
            "warm-up-s": given["warm_up"],
            "timeout-s": given["timeout"],
            "groups": [{**group, "calls": calls}],
        }
    )
    found = scenario.Scenario("load", f"{method} {params}", "load", (), [case])
    ctx.exit(_run([found], _options(given, 0.0, ()), given))


@bench.command()
@click.argument("before", type=_FOUND)
@click.argument("after", type=_FOUND)
@click.option("--threshold", type=click.FloatRange(0.0), default=0.1, show_default=True)
@click.option("--figure", "figures", multiple=True, help="Only those that end in this.")
@click.option("--all", "show_all", is_flag=True, help="Also figures that are neither.")
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    before: Path,
    after: Path,
    threshold: float,
    figures: Sequence[str],
    show_all: bool,
) -> None:
    """Ratios of two documents that `run --json` wrote.

    Exit codes: 0; 1 a figure is worse by more than the threshold (0.1: by the factor 1.1) and by
    more than repeats differ; 2 nothing can be compared.
    """
    from .compare import Verdict, comparison_table, differences
    from .document import DocumentError, read

    try:
        old, new = read(before), read(after)
    except DocumentError as error:
        _stop(str(error))
    found = list(differences(old, new, threshold, figures))
    if not found:
        _stop(f"{before} and {after} have no case and figure in common")
    for name, value in old["environment"].items():
        if name not in ("load", "commit") and new["environment"].get(name) != value:
            click.echo(f"note: {name}: {value} before, {new['environment'].get(name)} after")
    differ = [one for one in found if show_all or one.verdict is not Verdict.SAME]
    click.echo(comparison_table(differ) if differ else "nothing differs by more than the threshold")
    worse = sum(one.verdict is Verdict.WORSE for one in found)
    better = sum(one.verdict is Verdict.BETTER for one in found)
    click.echo(f"{len(found)} figures: {worse} worse, {better} better")
    ctx.exit(FAILED if worse else 0)


@bench.command()
@click.argument("document", type=_FOUND)
@click.argument("html", type=_FILE)
def report(document: Path, html: Path) -> None:
    """Write the report of a document that `run --json` wrote as the page HTML."""
    from .document import DocumentError, read
    from .report import page

    try:
        html.write_text(page(read(document)), encoding="utf-8")
    except (DocumentError, OSError) as error:
        _stop(str(error))


def _options(output: dict[str, Any], seconds: float, only: Sequence[str]) -> Options:
    from ...client.address import parse_address
    from ...client.errors import AddressError
    from .runner import Options

    try:
        address = parse_address(output["url"]) if output["url"] else None
    except AddressError as error:
        _stop(str(error))
    return Options(
        address=address,
        repeats=output["repeats"] or 0,
        seconds=seconds,
        threads=output["threads"],
        only=only,
    )


def _run(scenarios: Sequence[Scenario], options: Options, output: dict[str, Any]) -> int:
    """The exit code."""
    from ...server.demo.server import NotServing
    from . import runner
    from .limits import broken, parse_limit
    from .native import LoadFailed
    from .writing import write_files

    try:
        required = (*output["require"], *(text for each in scenarios for text in each.require))
        limits = [parse_limit(text) for text in required]
    except ValueError as error:
        _stop(str(error))
    try:
        document = runner.run(scenarios, options, runner.Teller(output["quiet"]))
    except (LoadFailed, NotServing, OSError) as error:
        _stop(str(error))
    except KeyboardInterrupt:
        _stop("interrupted")
    _show(document)
    write_files(document, output)
    faults = list(broken(document["suites"], limits))
    for fault in faults:
        click.echo(f"broken: {fault}")
    return FAILED if faults else 0


def _show(document: dict[str, Any]) -> None:
    from .tables import knee_line, suite_table

    for suite in document["suites"]:
        click.echo(f"\n{suite['name']}: {suite['about']}\n")
        click.echo(suite_table(suite))
        for knee in suite["knee"] or ():
            click.echo(f"\n{knee_line(knee)}")
        warnings = {text for case in suite["cases"] for text in case["warnings"]}
        for text in sorted(warnings):
            click.echo(f"warning: {text}", err=True)


def _stop(message: str) -> Any:
    click.echo(f"faircall bench: {message}", err=True)
    sys.exit(USAGE)
