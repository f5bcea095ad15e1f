"""What `running` and `pool` have in common: a daemon for as long as a block lasts."""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Self

from .host import Daemon, Wish


class Hosted:
    """Started once; `with` and `async with` start and end it."""

    _what: ClassVar[str]  # "the server", in what is said of it

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._daemon: Daemon | None = None

    @property
    def daemon(self) -> Daemon:
        """Its process; RuntimeError if there is none."""
        if self._daemon is None:
            raise RuntimeError(f"{self._what} does not run: use it inside its `with` block")
        return self._daemon

    @property
    def pid(self) -> int:
        """The process number of its supervisor."""
        return self.daemon.pid

    def stats(self) -> dict[str, Any]:
        """What `faircall stats --json` prints."""
        from ..admin.client import fetch_stats

        return fetch_stats(self.daemon.admin)

    def start(self) -> Self:
        """Start it and wait until it is ready; StartError."""
        self._launch().wait_ready()
        self._begin()
        return self

    def stop(self) -> None:
        """Stop it: calls under way have a second. Nothing is left after two. May be repeated."""
        if self._daemon is not None:
            self._daemon.stop()

    def _begin(self) -> None:
        """It is ready."""

    def _launch(self) -> Daemon:
        if self._daemon is not None:
            name = type(self).__name__
            raise RuntimeError(f"{self._what} was started already: make another `{name}(...)`")
        self._daemon = Daemon(self._wish)
        return self._daemon

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await self._launch().wait_ready_async()
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.daemon.stop_async()
