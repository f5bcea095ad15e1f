"""What a peer is, in one description; and what is not installed for it."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...client.address import TARGET, Address

HOST = "127.0.0.1"
WORKERS = 2
FAIRCALL, FAIRCALL_CLIENT = "faircall", "faircall-client"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server of a peer is to be: a free TCP port, and an empty folder of its own."""

    port: int
    folder: Path


def lines(place: Place) -> Address:
    return Address(HOST, place.port)


def http(place: Place) -> Address:
    return Address(HOST, place.port, target=TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One way of serving functions.

    `command`: the words of its server, of which `workers` processes call `tell_ready`; None for
    faircall, and for what needs no server.  `framings`: those of workloads that it can be called
    in; a workload that asks for HTTP leaves out who has none.  `loaded`: who calls it: the load
    generator ("lines", "http", "zmtp": frames of ZeroMQ), or "client", a client in Python, then
    the function `caller` of the module `module`; or nobody ("bare").  `beside`: the peer that its
    figures are divided by, which is called in the same way.  `workloads`: only these, if any.
    """

    name: str
    about: str
    loaded: Literal["lines", "http", "zmtp", "client", "bare"]
    command: Callable[[Place], Sequence[str]] | None = None
    address: Callable[[Place], Address] = lines
    workers: int = WORKERS
    module: str = ""
    caller: str = ""
    beside: str = FAIRCALL
    workloads: Sequence[str] = ()
    modules: Mapping[str, str] = field(default_factory=dict)  # to import: what pip calls it
    programs: Mapping[str, str] = field(default_factory=dict)  # in PATH: what Debian calls it

    def runs(self, workload: str, framing: str) -> bool:
        """Whether the workload is one for it."""
        if self.workloads and workload not in self.workloads:
            return False
        return framing != "http" or self.loaded == "http" or self.name == FAIRCALL

    def missing(self) -> str:
        """What to install, as commands; empty if it can run."""
        packages = [p for m, p in self.modules.items() if importlib.util.find_spec(m) is None]
        programs = [p for name, p in self.programs.items() if shutil.which(name) is None]
        commands = [f"pip install {' '.join(packages)}"] if packages else []
        return " && ".join(commands + [f"apt-get install {name}" for name in programs])
