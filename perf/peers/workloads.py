"""The workloads of `workloads.toml`, as cases of `faircall bench`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..bench.scenario import one_case
from ..bench.specs import CaseSpec, ServerSpec
from .peer import WORKERS, Peer

FILE = Path(__file__).parent / "workloads.toml"
_MS = re.compile(r'"\$(\d+)-ms"')


class UnknownWorkload(Exception):
    """A name that is none of a workload; the message has those that are."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`figure`: that of a case's figures whose ratio is shown."""

    name: str
    figure: str
    spec: CaseSpec

    def spec_for(self, peer: Peer) -> CaseSpec:
        """Only faircall knows users."""
        if peer.command is None:
            return self.spec
        groups = [msgspec.structs.replace(group, user="") for group in self.spec.groups]
        return msgspec.structs.replace(self.spec, groups=groups)


def workloads(turns_per_ms: int, names: Sequence[str] = ()) -> Sequence[Workload]:
    """Those named (all if none is), in the order of the file. UnknownWorkload."""
    text = _MS.sub(lambda found: str(int(found[1]) * turns_per_ms), FILE.read_text())
    raw = tomllib.loads(text)
    for name in names:
        if name not in raw:
            raise UnknownWorkload(f"no workload {name!r}; there are {', '.join(raw)}")
    return [
        Workload(name, table.pop("figure"), _spec(table))
        for name, table in raw.items()
        if not names or name in names
    ]


def _spec(table: dict[str, object]) -> CaseSpec:
    server = ServerSpec(handlers=WORKERS)
    return msgspec.structs.replace(one_case(table).spec, server=server)
