"""Which queue and scheduler a port uses, and whether it backs off (Hadoop: `ipc.Server`).

    queue      ipc.<port>.callqueue.impl, else ipc.callqueue.impl, else LinkedBlockingQueue
    scheduler  ipc.<port>.scheduler.impl; else DecayRpcScheduler, if the *port's* queue key says
               FairCallQueue; else ipc.scheduler.impl, else DefaultRpcScheduler
    back-off   ipc.<port>.backoff.enable or ipc.backoff.enable: one `true` of the two is enough

Two surprises are kept, because a Hadoop configuration means them: a fair queue for all ports does
not bring the decay scheduler along, and a port's `false` does not override everyone's `true`.

Differs: where nothing at all is configured the server starts with `OURS`. The inferred scheduler is
part of the answer; Hadoop writes it back into the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .components import canonical, class_named
from .conf import Conf
from .decay_scheduler import DecayRpcScheduler
from .errors import NotBuilt, UnknownClass
from .history import HistoryRpcScheduler
from .parsing import boolean
from .queues import FairCallQueue, LinkedBlockingQueue
from .scheduler import DefaultRpcScheduler

QUEUES: Mapping[str, type] = {
    "FairCallQueue": FairCallQueue,
    "LinkedBlockingQueue": LinkedBlockingQueue,
    "ArrayBlockingQueue": LinkedBlockingQueue,  # the same to its users: bounded, in order
}
SCHEDULERS: Mapping[str, type] = {
    "DecayRpcScheduler": DecayRpcScheduler,
    "DefaultRpcScheduler": DefaultRpcScheduler,
    "HistoryRpcScheduler": HistoryRpcScheduler,
    "HistoryBasedScheduler": HistoryRpcScheduler,
}


@dataclass(frozen=True)
class Selection:
    """The classes of a port by our names (or `module:Class`), and its back-off flag."""

    queue: str
    scheduler: str
    backoff: bool
    scheduler_inferred: bool = False


OURS = Selection("FairCallQueue", "DecayRpcScheduler", backoff=True)


def select(values: Mapping[str, str], port: int) -> Selection:
    """What a server on `port` uses by Hadoop's rules; NotBuilt for a class that does not exist."""
    conf = Conf(values, f"ipc.{port}")
    queue = _name(conf.inherited("callqueue.impl"), QUEUES, "LinkedBlockingQueue")
    port_queue = _name(conf.own("callqueue.impl"), QUEUES, "")
    inferred = conf.own("scheduler.impl") is None and port_queue == "FairCallQueue"
    written = "DecayRpcScheduler" if inferred else conf.inherited("scheduler.impl")
    return Selection(
        queue=queue,
        scheduler=_name(written, SCHEDULERS, "DefaultRpcScheduler"),
        backoff=any(
            boolean(text or "", False)
            for text in (conf.own("backoff.enable"), conf.plain("ipc.backoff.enable"))
        ),
        scheduler_inferred=inferred,
    )


def _name(written: str | None, known: Mapping[str, type], default: str) -> str:
    if written is None:
        return default
    try:
        class_named(written, known)
    except UnknownClass as error:
        raise NotBuilt(str(error)) from error
    return canonical(written)
