"""Tables of measured figures, and what the scenarios have in common."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..server.demo.server import DemoServer, running_server
from .generator import Flow, Generator

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scenario measured, and whether its claim held."""

    rows: Sequence[Row]
    claim: str
    holds: bool


SERVICE = "faircall.perf.services:service"
HANDLERS = 2
CAPACITY = 4096
FIFO: Mapping[str, str] = {
    "ipc.callqueue.impl": "LinkedBlockingQueue",
    "ipc.callqueue.total-capacity": str(CAPACITY),
}
FAIR: Mapping[str, str] = {"ipc.decay-scheduler.period-ms": "1000"}
IN_ORDER: Mapping[str, str] = {**FAIR, "ipc.callqueue.in-turn": "false"}


def nap(ms: float) -> bytes:
    """A call that takes that long and no processor."""
    return b'"method":"nap","params":[%g]' % ms


@contextlib.contextmanager
def loaded(
    settings: Mapping[str, str],
    flows: Sequence[Flow],
    config: Path | None = None,
    outer: Mapping[str, str] = os.environ,
) -> Iterator[tuple[DemoServer, Generator]]:
    """A server with these settings, and a generator of these flows that is connected to it.

    What the file `config` says counts where `settings` say nothing; `outer` is its environment.
    """
    with running_server(HANDLERS, settings, SERVICE, config, outer) as server:
        generator = Generator(server.address, flows)
        try:
            yield server, generator
        finally:
            generator.close()


def levels(server: DemoServer) -> dict[str, int]:
    """The level of each of the heaviest users."""
    return {user["user"]: user["level"] for user in server.stats()["users"]["top"]}


def waiting(server: DemoServer, found: list[int]) -> Callable[[float], None]:
    """Notes into `found`, at each look, how many calls wait."""
    return lambda elapsed_s: found.append(server.stats()["queue"]["waiting"])


def pss_mib(pid: int) -> float:
    """Memory of a process and its children, shared pages counted once among them."""
    kib = 0
    for process in (pid, *_children(pid)):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
            kib += sum(map(int, re.findall(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)))
    return kib / 1024


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def table(rows: Sequence[Row]) -> str:
    """The rows under their keys, in columns; figures to the right."""
    heads = list(rows[0])
    cells = [[_shown(row[head]) for head in heads] for row in rows]
    widths = [max(len(line[at]) for line in [heads, *cells]) for at in range(len(heads))]
    lines = [heads, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )


def _shown(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
