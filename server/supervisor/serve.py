"""`faircall serve`: from settings to a daemon that runs, and what is cleared away after its end."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...shm.segment import sweep_stale
from ...shm.selftest import NoRobustMutexes, check_robust_mutexes
from ..acceptor.inherited import Inherited
from ..acceptor.unix_listener import remove_stale
from ..log import Long, setup_logging
from ..port import open_ports
from ..state_file import StateFileUnusable, read_state
from .failures import CANNOT_START, CannotStart
from .notify import Notifier
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
    prepare: Callable[[Supervisor], None] = lambda supervisor: None,
) -> int:
    """Serve `target` ("module:service") in the foreground until a signal ends it: exit status.

    From `source` the settings came, and are read again at a reload. `prepare` sees the supervisor
    before it runs. A port without an address has no acceptor.
    """
    setup_logging(settings.log.format, settings.log.level)
    for note in settings.notes:
        log.warning("configuration", {"note": note})
    notifier = Notifier.of(os.environ, os.getpid())
    sweep_stale()
    preload()
    try:
        inherited = Inherited.of(os.environ, os.getpid())
        check_robust_mutexes()
        settings = replace(settings, set_rates=read_state(settings.throttle.state_file))
        ports = open_ports(settings, inherited)
    except (CannotStart, NoRobustMutexes, StateFileUnusable) as error:
        log.error("cannot start", {"reason": Long(error)})
        notifier.send(f"STATUS=cannot start: {error}")
        return CANNOT_START
    for name in inherited.unused():
        log.warning("socket not used", {"systemd": name, "why": "server.bind has no such address"})
    for port in ports:
        log.info("starting", {**port.describe(), "service": target})
        for remark in port.remarks():
            log.warning("remark", {"port": port.number, "text": remark})
    read_again = source.read_again if source else None
    gc.collect()
    gc.freeze()  # what the children share is not copied for the sake of reference counts alone
    try:
        bodies = bodies_for(target)
        supervisor = Supervisor(settings, ports, bodies, on_ready, read_again, notifier)
        prepare(supervisor)
        return supervisor.run()
    finally:
        notifier.close()
        for port in ports:
            port.close()
        own = [settings.admin.socket, *(a.path for a in settings.admin.listen if a.is_unix)]
        for path in own:
            remove_stale(path)  # of an admin that was killed at the last moment
