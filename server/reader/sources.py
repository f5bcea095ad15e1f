"""The descriptors of one reader, in two sets: those that end a nap, and those that can wait.

A *patient* connection's last answer took many times as long as a nap, for the queue is long: its
next request may lie for a few milliseconds. All others, the bell and the hand-off are *prompt*.
"""

from __future__ import annotations

import select

Events = list[tuple[int, int]]  # (descriptor, what epoll says of it)


class Sources:
    """Two epolls; a third one sleeps on both, only while there are patient connections; a fourth
    one on nothing but what is listened to."""

    def __init__(self) -> None:
        self.prompt, self.patient, self._both, self._own = (select.epoll() for _ in range(4))
        for one in (self.prompt, self.patient):
            self._both.register(one.fileno(), select.EPOLLIN)
        self.patients = 0  # descriptors in `patient`

    def listen(self, fd: int) -> None:
        """`fd` is read from whenever it has something: a bell, a hand-off."""
        self.prompt.register(fd, select.EPOLLIN)
        self._own.register(fd, select.EPOLLIN)

    def ignore(self, fd: int) -> None:
        """The end of `listen`."""
        self.prompt.unregister(fd)
        self._own.unregister(fd)

    def poll(self, timeout_s: float) -> Events:
        """What any of them says, within `timeout_s`."""
        if not self.patients:
            return self.prompt.poll(timeout_s)
        if timeout_s:
            self._both.poll(timeout_s)
        return self.prompt.poll(0) + self.patient.poll(0)

    def nap(self, timeout_s: float) -> Events:
        """What the prompt ones say within `timeout_s`, then what the patient ones do."""
        return self.prompt.poll(timeout_s) + self.patient.poll(0)

    def rest(self, timeout_s: float) -> Events:
        """What any of them says, after `timeout_s`, which no connection cuts short."""
        self._own.poll(timeout_s)
        return self.prompt.poll(0) + self.patient.poll(0)

    def close(self) -> None:
        """Give back the descriptors."""
        for one in (self._both, self._own, self.prompt, self.patient):
            one.close()
