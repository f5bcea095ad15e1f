"""`faircall serve`: from settings to a daemon that runs, and what is cleared away after its end."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...shm.segment import sweep_stale
from ...shm.selftest import NoRobustMutexes, check_robust_mutexes
from ..acceptor.unix_listener import remove_stale
from ..log import Long, setup_logging
from ..port import open_ports
from ..state_file import StateFileUnusable, read_state
from .failures import CANNOT_START, CannotStart
from .roles import bodies_for, preload
from .supervisor import Supervisor

if TYPE_CHECKING:
    from ..config import Settings
    from ..settings.load import Source

log = logging.getLogger("faircall.supervisor")


def serve(
    settings: Settings,
    target: str,
    on_ready: Callable[[list[str]], None] = lambda addresses: None,
    source: Source | None = None,
) -> int:
    """Serve `target` ("module:service") in the foreground until a signal ends it: exit status.

    From `source` the settings came, and are read again at a reload.
    """
    setup_logging(settings.log.format, settings.log.level)
    for note in settings.notes:
        log.warning("configuration", {"note": note})
    sweep_stale()
    preload()
    try:
        check_robust_mutexes()
        settings = replace(settings, set_rates=read_state(settings.throttle.state_file))
        ports = open_ports(settings)
    except (CannotStart, NoRobustMutexes, StateFileUnusable) as error:
        log.error("cannot start", {"reason": Long(error)})
        return CANNOT_START
    for port in ports:
        log.info("starting", {**port.describe(), "service": target})
        for remark in port.remarks():
            log.warning("remark", {"port": port.number, "text": remark})
    read_again = source.read_again if source else None
    gc.collect()
    gc.freeze()  # what the children share is not copied for the sake of reference counts alone
    try:
        return Supervisor(settings, ports, bodies_for(target), on_ready, read_again).run()
    finally:
        for port in ports:
            port.close()
        remove_stale(settings.admin.socket)  # of an admin that was killed at the last moment
