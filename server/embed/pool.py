"""`pool`: the functions of a service in processes of their own, without any network.

    with faircall.pool("myapp:service", handlers=4) as workers:
        workers.call("resize", image, 64)
        thumbnails = list(workers.map("resize", images, 64))

The daemon is that of `running`, without acceptor and without an address. A connection is one half
of a socketpair, whose other half goes to a reader through the line to the daemon. The host is a
client, not a reader in disguise: a reader takes the queue's lock, and a host cannot promise to keep
that only for microseconds. Its other threads hold the GIL as long as they like, its finalisers and
debuggers run where they like, and every handler would wait with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Self

from ...client import AsyncClient, Client, Future
from ...client.address import Address
from ...workers.service import Service
from .host import Wish
from .hosted import Hosted
from .running import FREE_PORT, flags_of
from .target import target_of

AHEAD_PER_HANDLER = 4  # calls of `map` that are under way at a time


class pool(Hosted):
    """Workers for the calls of this program; `with` and `async with` start and end them.

    `service`, `handlers`, `config`, `settings`: as those of `running`. `timeout`: seconds for each
    call that says nothing else; None leaves it to the settings. `connections`: how many it may
    have to the readers at once. Threads may share one, and a process that is forked may go on
    using it; `acall` is for the event loop of `async with`.

    A call fails as those of a `Client` do: RemoteError (code -32000 and type and message of what
    the function raised, or what an RpcError chose), Busy, DeadlineExceeded; RemoteError -32053 if
    its worker died, which is replaced. StartError, NotServable: as `running`.
    """

    _what = "the pool"

    def __init__(
        self,
        service: Service | str,
        *,
        handlers: int | None = None,
        config: str | PathLike[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        connections: int = 1,
    ) -> None:
        said = {"handlers.count": handlers, "server.bind": [FREE_PORT]}  # which is not opened
        wish = Wish(
            target=target_of(service),
            flags=flags_of(said, settings or {}, has_file=config is not None),
            config=fspath(config) if config is not None else "",
            connections=True,
        )
        super().__init__(wish)
        self._options: dict[str, Any] = {"timeout": timeout, "connections": connections}
        self._client: Client | None = None
        self._async_client: AsyncClient | None = None
        self._handlers = handlers or 0

    # -- calling -----------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        /,
        *args: Any,
        timeout: float | None = None,
        idempotent: bool = False,
        **kwargs: Any,
    ) -> Any:
        """The result of `method`; its parameters, `timeout` and `idempotent` as `Client.call`."""
        return self.client.call(method, *args, timeout=timeout, idempotent=idempotent, **kwargs)

    def submit(
        self,
        method: str,
        /,
        *args: Any,
        timeout: float | None = None,
        idempotent: bool = False,
        **kwargs: Any,
    ) -> Future:
        """The same without waiting: `result()` of what it returns does."""
        return self.client.submit(method, *args, timeout=timeout, idempotent=idempotent, **kwargs)

    def map(
        self,
        method: str,
        items: Iterable[Any],
        /,
        *args: Any,
        timeout: float | None = None,
        idempotent: bool = False,
        ahead: int | None = None,
    ) -> Iterator[Any]:
        """The results of `method(item, *args)`, in the order of `items`, as they are asked for.

        `ahead`: how many calls are under way at a time, four for each handler unless told; so
        `items` may be longer than the queue, or endless. The first call that fails ends it, and
        what was ahead of it is cancelled.
        """
        client, most = self.client, ahead or self._ahead()
        return _map(
            client, most, method, items, args, {"timeout": timeout, "idempotent": idempotent}
        )

    async def acall(
        self,
        method: str,
        /,
        *args: Any,
        timeout: float | None = None,
        idempotent: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As `call`, for tasks of the event loop that entered `async with`."""
        if self._async_client is None:
            raise RuntimeError("acall is for `async with faircall.pool(...)`")
        client = self._async_client
        return await client.call(method, *args, timeout=timeout, idempotent=idempotent, **kwargs)

    @property
    def client(self) -> Client:
        """The client that makes the calls; RuntimeError while the pool does not run."""
        if self._client is None:
            raise RuntimeError("the pool does not run: use it inside its `with` block")
        return self._client

    def _ahead(self) -> int:
        if not self._handlers:
            handlers = self.stats()["ports"][0]["handlers"]
            self._handlers = sum(not handler["express"] for handler in handlers)
        return AHEAD_PER_HANDLER * self._handlers

    # -- start and end -----------------------------------------------------------------------------

    def stop(self) -> None:
        super().stop()
        if self._client is not None:
            self._client.close()

    def close(self) -> None:
        """End the workers: calls under way have a second. Nothing is left after two."""
        self.stop()

    def _begin(self) -> None:
        self._client = Client(self._address(), **self._options)

    def _address(self) -> Address:
        return Address(name=f"the pool of {self._wish.target}", dial=self.daemon.connect)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._async_client = AsyncClient(self._address(), **self._options)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, traceback)
        if self._async_client is not None:
            await self._async_client.close()
        self.stop()


def _map(
    client: Client,
    most: int,
    method: str,
    items: Iterable[Any],
    args: tuple[Any, ...],
    how: dict[str, Any],
) -> Iterator[Any]:
    under_way: deque[Future] = deque()
    try:
        for item in items:
            under_way.append(client.submit(method, item, *args, **how))
            if len(under_way) >= most:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for future in under_way:
            future.cancel()
