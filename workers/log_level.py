"""A process's log level follows the supervisor's, which a reload may change."""

from __future__ import annotations

import logging

from ..shm.shared import Shared


class LogLevel:
    """`follow` now and then: once a second and more often will do."""

    def __init__(self, shared: Shared) -> None:
        self._logged = shared.logged
        self._seen = self._logged.get()

    def follow(self) -> None:
        """Take over a level that was stored since the last time; leave what user code has set."""
        level = self._logged.get()
        if level != self._seen:
            self._seen = level
            logging.getLogger().setLevel(level)
