"""What the supervisor waits for: descriptors, and what to do when one is readable."""

from __future__ import annotations

import select
from collections.abc import Callable


class Sources:
    """An epoll set with a function per descriptor."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], None]] = {}

    def add(self, fd: int, call: Callable[[], None]) -> None:
        """From now on call `call` whenever `fd` is readable or at its end."""
        self._calls[fd] = call
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """No more, before `fd` is closed; may be repeated."""
        if self._calls.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def wait(self, timeout_s: float) -> None:
        """Call what has come; at most once for each descriptor, and none that was removed."""
        for fd, _ in self._epoll.poll(timeout_s):
            call = self._calls.get(fd)
            if call is not None:
                call()

    def close(self) -> None:
        self._epoll.close()
