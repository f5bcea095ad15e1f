"""What systemd is told, if it asks: sd_notify(3), one datagram to the socket NOTIFY_SOCKET.

    READY=1        every child is ready; and after each reload, however it ended
    RELOADING=1    settings are read again; with MONOTONIC_USEC, as Type=notify-reload wants it
    STOPPING=1     the server leaves, drains or stops
    STATUS=...     the line that `systemctl status` shows
    WATCHDOG=1     at half of WATCHDOG_USEC, while the supervisor turns and each janitor beats

Nothing here ever waits or fails: a manager that is gone is not our concern. One that is slow, and
whose socket takes no more, is told later that we are ready, reload or stop, in this order; statuses
and signs of life it then goes without.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING

from ...shm.states import Life, Phase

if TYPE_CHECKING:
    from ..port import Port

US = 1_000
STATUS_NS = 5_000_000_000  # between two status lines
SILENT_NS = 5_000_000_000  # a janitor beats every second
TICK_NS = 400_000_000  # how often `tick` is called
KEPT = 64  # messages for a slow manager


class Notifier:
    """`address` is a path, or "@" and an abstract name; without one nothing is sent.

    `watchdog_us`: what systemd allows between two signs of life; 0 = it does not look.
    """

    def __init__(self, address: str = "", watchdog_us: int = 0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        self._watchdog_ns = watchdog_us * US
        self._beat_ns = self._told_ns = 0
        self._untold: deque[bytes] = deque(maxlen=KEPT)

    @classmethod
    def of(cls, environ: MutableMapping[str, str], pid: int) -> Notifier:
        """As the environment says; it is taken out of it, for no child is to speak for us."""
        address = environ.pop("NOTIFY_SOCKET", "")
        allowed, owner = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        watched = allowed.isdigit() and owner in ("", str(pid))
        if not address.startswith(("/", "@")):
            return cls()
        return cls(address, int(allowed) if watched else 0)

    def send(self, *lines: str) -> None:
        """One message of several assignments, now or as soon as it is taken."""
        if self._socket is None:
            return
        self._untold.append("\n".join(lines).encode(errors="replace"))
        self._tell(self._socket)

    def _tell(self, to: socket.socket) -> bool:
        """Whether everything is told."""
        while self._untold:
            try:
                to.sendto(self._untold[0], socket.MSG_DONTWAIT, self._address)
            except BlockingIOError:
                return False
            except OSError:
                pass  # nobody is there
            self._untold.popleft()
        return True

    def ready(self, ports: Iterable[Port]) -> None:
        self.send("READY=1", f"STATUS={status_line(ports)}")

    def reloading(self) -> None:
        self.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // US}")

    def stopping(self, phase: Phase) -> None:
        text = "accepting still, not ready" if phase == Phase.LEAVING else "finishing calls"
        self.send("STOPPING=1", f"STATUS={phase.name}: {text}")

    def tick(self, ports: Iterable[Port], now_ns: int, *, running: bool) -> None:
        """A sign of life if it is time and all is well, and how the server does."""
        if self._socket is None or not self._tell(self._socket):
            return
        ports, soon_ns = list(ports), now_ns + TICK_NS
        due = self._watchdog_ns and soon_ns - self._beat_ns >= self._watchdog_ns // 2
        if due and (not running or all(janitor_beats(port, now_ns) for port in ports)):
            self._beat_ns = now_ns
            self.send("WATCHDOG=1")
        if running and now_ns - self._told_ns >= STATUS_NS:
            self._told_ns = now_ns
            self.send(f"STATUS={status_line(ports)}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def janitor_beats(port: Port, now_ns: int) -> bool:
    """Whether the janitor of `port` is ready, and has looked around of late."""
    row = port.shared.row("janitor")
    return row["status"] == Life.READY and now_ns - row["beat_ns"] < SILENT_NS


def status_line(ports: Iterable[Port]) -> str:
    """Of every port where it listens, how many handlers are ready, how many calls wait."""
    return "; ".join(map(_of_port, ports))


def _of_port(port: Port) -> str:
    shared = port.shared
    rows = (shared.row("handler", number) for number in range(shared.geometry.handlers))
    ready = sum(row["status"] == Life.READY and not row["leaving"] for row in rows)
    waiting = shared.table.waiting()
    places = ", ".join(port.addresses())
    wanted = shared.working + shared.express
    return f"{places}: {ready} of {wanted} handlers ready, {waiting} calls waiting"
