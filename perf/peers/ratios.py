"""All ratios of one or several documents in one table: a row a peer, a column a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..bench.document import CaseFound, Document, median
from ..bench.tables import columns, number, shown
from .peer import Peer
from .rounds import RATIO
from .table import OURS, PEERS

NOT_RUN = ""
FAILED = "failed"
HEAD = "peers "

EXPLAINED = (
    "Each figure is how many times better faircall is than the peer, in runs next to each other:"
    " above 1 faircall is ahead, below 1 the peer is."
)


def merged(documents: Sequence[Document]) -> dict[tuple[str, str], CaseFound]:
    """Cases by (workload, peer) of all documents; a later one is in place of an earlier one."""
    return {
        (suite["name"].removeprefix(HEAD), case["labels"]["peer"]): case
        for document in documents
        for suite in document["suites"]
        if suite["name"].startswith(HEAD)
        for case in suite["cases"]
    }


def ratio_table(documents: Sequence[Document]) -> str:
    """Medians of the ratios, and faircall's own figures above them."""
    cases, figures = merged(documents), figure_of(documents)
    peers = [name for name in PEERS if any(peer == name for _, peer in cases)]
    rows = [["", *figures], ["measured", *figures.values()]]
    rows += [
        [name, *(_cell(cases.get((workload, name)), figures[workload]) for workload in figures)]
        for name in peers
    ]
    compared = [f"  {name}: {_about(PEERS[name])}" for name in peers]
    return "\n".join([columns(rows), "", EXPLAINED, *compared])


def figure_of(documents: Sequence[Document]) -> Mapping[str, str]:
    """The figure of each workload, in the order in which they come."""
    return {
        suite["name"].removeprefix(HEAD): suite["figure"]
        for document in documents
        for suite in document["suites"]
        if suite["name"].startswith(HEAD)
    }


def _about(peer: Peer) -> str:
    compared = "" if peer.name in OURS else f"; compared with {peer.beside}"
    return f"{peer.about}{compared}"


def _cell(case: CaseFound | None, figure: str) -> str:
    """faircall's own figure, or a ratio."""
    if case is None:
        return NOT_RUN
    found: Mapping[str, Any] = case["figures"]
    if case["labels"]["peer"] in OURS:
        return number(median(found[figure])) if figure in found else FAILED
    known = [ratio for ratio in found.get(RATIO, []) if ratio is not None]
    return f"x {shown(known)}" if known else FAILED
