"""What a derived default may look at: the machine, and all other settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .processors import Processors, available
from .runtime_directory import runtime_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The facts about this machine and process that defaults depend on."""

    processors: Processors
    runtime_directory: Path
    hostname: str
    pid: int

    @classmethod
    def this(cls, environ: Mapping[str, str]) -> Machine:
        return cls(
            processors=available(),
            runtime_directory=runtime_directory(environ, os.geteuid()),
            hostname=os.uname().nodename,
            pid=os.getpid(),
        )


@dataclass(frozen=True, slots=True)
class Draft:
    """Settings on their way: `draft[key]` settles that one first, if need be.

    Keys of a port are relative ("callqueue.impl"); "handlers" is how many processes all groups of
    handlers have. `is_given(key)`: somebody wrote that one down. `is_hadoops`: some of that is in a
    core-site.xml. `sections` are the ports that have an `[ipc.<port>]` section, in their order.
    `queue_of_all_ports`: a core-site.xml names this port's queue in the key of all ports.
    """

    machine: Machine
    sections: tuple[int, ...]
    settle: Callable[[str], Any]
    is_given: Callable[[str], bool]
    is_hadoops: bool = False
    queue_of_all_ports: bool = False

    def __getitem__(self, key: str) -> Any:
        return self.settle(key)
