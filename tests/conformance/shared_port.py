"""A server's shared memory in one process, made from a case's keys as from a core-site.xml.

What the processes of a server do to it, the subjects do here one after the other: no socket, no
fork, and time is a number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

from faircall.server.config import Settings
from faircall.server.config_ipc import PortSettings
from faircall.server.port import Port, policy_of
from faircall.server.settings.declaration import ConfigError
from faircall.server.settings.draft import Machine
from faircall.server.settings.layers import Entry, Layer, flag_layer
from faircall.server.settings.load import settle
from faircall.server.settings.processors import Processors
from faircall.shm.layout import LANES, MAX_LEVELS, Geometry
from faircall.shm.policy import QueuePolicy
from faircall.shm.shared import Shared

from . import oracle
from .recorded import Case

LEVELS = MAX_LEVELS - LANES  # the segment has room for these, whatever a case begins with
IDENTITIES = 512
LEAST_SLOTS = 64
MACHINE = Machine(
    processors=Processors(2, "the case says so"),
    runtime_directory=Path("/run/faircall"),
    hostname="box",
    pid=4711,
)
QUEUE_CLASSES = {
    "fair": "FairCallQueue",
    "linked": "LinkedBlockingQueue",
    "array": "ArrayBlockingQueue",
}
SCHEDULER_CLASSES = {"decay": "DecayRpcScheduler", "default": "DefaultRpcScheduler"}


class NotExpressed(Exception):
    """The server has nothing that answers this; the message says what is missing."""


class Standing(NamedTuple):
    """What a sweep needs of a port."""

    ipc: PortSettings
    shared: Shared
    created_ns: int


def settings_of(keys: Mapping[str, str], capacity: int) -> tuple[Settings, PortSettings]:
    """The settings of port 8020 in a core-site.xml with these absolute keys; ConfigError."""
    entries = [Entry(key, oracle.importable(text), "the case") for key, text in keys.items()]
    flags = {
        "server.bind": (["tcp://127.0.0.1:8020"], "--bind"),
        "ipc.8020.callqueue.total-capacity": (capacity, "--set"),
        **{key: (text, "--set") for key, text in oracle.RUNNING_SYSTEM.items()},
    }
    layers = [flag_layer(flags).checked(), Layer.of(entries, hadoop=True).checked()]
    settings = settle(layers, MACHINE)
    return settings, settings.ports[8020]


def keys_of(case: Case, **own: str) -> dict[str, str]:
    """The absolute keys of a case, and `own` ones of its port ("_" for "-", "__" for ".")."""
    if case.fields.get("ns", oracle.NAMESPACE) != oracle.NAMESPACE:
        raise NotExpressed("the namespace of another port")
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in own.items()}
    ports_own = {f"{oracle.NAMESPACE}.{key}": text for key, text in named.items()}
    return case.values(oracle.NAMESPACE) | ports_own


def components(fields: Mapping[str, object]) -> dict[str, str]:
    """The keys of the queue and the scheduler that a case names."""
    queue = QUEUE_CLASSES.get(str(fields["queue"]))
    scheduler = SCHEDULER_CLASSES.get(str(fields["scheduler"]))
    if queue is None or scheduler is None:
        raise NotExpressed("a class that only the recording had")
    # The port's own FairCallQueue brings DecayRpcScheduler along: so it is that of all ports here.
    return {"ipc.callqueue.impl": queue, f"{oracle.NAMESPACE}.scheduler.impl": scheduler}


class SharedPort:
    """The segment of one port, and its settings."""

    def __init__(self, settings: Settings, ipc: PortSettings) -> None:
        self.settings, self.ipc = settings, ipc
        total = ipc.callqueue.total_capacity
        slots = max(LEAST_SLOTS, 1 << (total + 1).bit_length())
        geometry = Geometry(
            readers=1,
            handlers=1,
            slots=slots,
            levels=LEVELS,
            identities=IDENTITIES,
            methods=32,
            small_pages=16,
            large_pages=1,
        )
        self.shared = Shared(geometry, policy_of(settings, ipc))

    @property
    def policy(self) -> QueuePolicy:
        """The policy in force."""
        with self.shared.table.queue_lock:
            return self.shared.table.load_policy()

    def standing(self) -> Port:
        """As what a sweep takes for a port; it was made at time 0."""
        return cast(Port, Standing(self.ipc, self.shared, 0))

    def close(self) -> None:
        """Its descriptors."""
        self.shared.doorbells.close()
        os.close(self.shared.segment.fd)


def answer(call: object) -> object:
    """As `oracle.answer`, for the server: what it refuses is refused, in whatever words."""
    try:
        return call()  # type: ignore[operator]
    except (ConfigError, ValueError):
        return REFUSED
    except NotExpressed as missing:
        return f"{NOT_EXPRESSED}: {missing}"


NOT_EXPRESSED = "not expressed"
REFUSED = {"error": "refused"}
OVERFLOW = {"error": "overflow"}
