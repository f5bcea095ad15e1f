"""`faircall bench peers` and `faircall bench ratios`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

FAILED, USAGE = 1, 2
_FILE = click.Path(dir_okay=False, path_type=Path)
_FOUND = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--peer", "peers", multiple=True, metavar="NAME", help="Only these, and faircall.")
@click.option("--workload", "names", multiple=True, metavar="NAME", help="Only these.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--json", "json_file", type=_FILE, help="Write the document of the run.")
@click.option("--list", "listing", is_flag=True, help="Peers and workloads, and what to install.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def peers(
    peers: Sequence[str],
    names: Sequence[str],
    repeats: int,
    json_file: Path | None,
    listing: bool,
    quiet: bool,
) -> None:
    """The same workloads for faircall and for other servers, in turn, and ratios in one table.

    Others come with `pip install 'faircall[peers]'`; those that are not installed are named and
    left out. Exit codes: 0; 1 a peer that was to run failed; 2 it cannot run.
    """
    from ...server.demo.server import NotServing
    from ..bench.native import LoadFailed
    from ..bench.runner import Teller
    from ..services import measured_turns_per_ms
    from .ratios import ratio_table
    from .rounds import document
    from .table import UnknownPeer, chosen
    from .workloads import UnknownWorkload, workloads

    try:
        wanted = chosen(peers)
        found = workloads(measured_turns_per_ms(), names)
        if listing:
            _list(wanted, found)
            return
        fit = [peer for peer in wanted if not _told_missing(peer)]
        run = document(fit, found, repeats, Teller(quiet))
    except (UnknownPeer, UnknownWorkload, LoadFailed, NotServing, OSError) as error:
        _stop(str(error))
    except KeyboardInterrupt:
        _stop("interrupted")
    if json_file:
        json_file.write_text(json.dumps(run, indent=1) + "\n")
    click.echo(ratio_table([run]))
    sys.exit(FAILED if _told_warnings(run) else 0)


@click.command()
@click.argument("documents", nargs=-1, required=True, type=_FOUND)
def ratios(documents: Sequence[Path]) -> None:
    """The table of `bench peers`, of all DOCUMENTS that it wrote; later ones count."""
    from ..bench.document import DocumentError, read
    from .ratios import ratio_table

    try:
        click.echo(ratio_table([read(path) for path in documents]))
    except DocumentError as error:
        _stop(str(error))


def _list(wanted: Sequence[Any], found: Sequence[Any]) -> None:
    wide = max(len(one.name) for one in (*wanted, *found))
    for peer in wanted:
        missing = peer.missing()
        click.echo(f"{peer.name:<{wide}}  {peer.about}{f' ({missing})' if missing else ''}")
    click.echo()
    for workload in found:
        click.echo(f"{workload.name:<{wide}}  {workload.spec.about}")


def _told_missing(peer: Any) -> bool:
    missing = peer.missing()
    if missing:
        click.echo(f"{peer.name} is left out; it needs: {missing}", err=True)
    return bool(missing)


def _told_warnings(run: dict[str, Any]) -> bool:
    """Warnings of the cases; whether a peer had no figures at all in one of its repeats."""
    failed = False
    for suite in run["suites"]:
        for case in suite["cases"]:
            for text in case["warnings"][:1]:
                click.echo(f"warning: {suite['name']}: {case['labels']['peer']}: {text}", err=True)
            failed |= not case["figures"] or None in case["figures"].get("ratio", [])
    return failed


def _stop(message: str) -> Any:
    click.echo(f"faircall bench peers: {message}", err=True)
    sys.exit(USAGE)
