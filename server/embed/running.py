"""`running`: a real server for as long as a `with` block lasts.

with faircall.running("myapp:service", handlers=2) as server:
    with server.client() as client:
        client.call("add", 2, 3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any
from urllib.parse import urlsplit

from ...client import AsyncClient, Client
from ...workers.service import Service
from .host import DRAIN_S, Wish
from .hosted import Hosted
from .target import target_of

FREE_PORT = "tcp://127.0.0.1:0"
QUIETER: Mapping[str, Any] = {"log.level": "warning", "shutdown.grace-ms": int(DRAIN_S * 1000)}


class running(Hosted):
    """A server in processes of its own, and where to reach it; `with` and `async with` start it.

    `service` is "module:name", "path/to/file.py:name", or a `Service` that a module holds.
    `handlers`: processes; as many as processors unless told. `bind`: one address or several, a free
    port of 127.0.0.1 unless told. `config`: a TOML file. `settings`: values by their names there,
    as {"ipc.decay-scheduler.period-ms": 1000}. `trust_loopback`: clients of this machine may say
    for whom they call. FAIRCALL_* variables do not count.

    StartError, at the start of the block: the server cannot start, in its own words. NotServable:
    no other process can import the service.
    """

    _what = "the server"

    def __init__(
        self,
        service: Service | str,
        *,
        handlers: int | None = None,
        bind: str | Sequence[str] | None = None,
        config: str | PathLike[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        trust_loopback: bool | None = None,
    ) -> None:
        binds = [bind] if isinstance(bind, str) else list(bind or ())
        said = {"server.bind": binds, "handlers.count": handlers}
        said["identity.trust-loopback"] = trust_loopback
        if not binds and config is None:
            said["server.bind"] = [FREE_PORT]
        wish = Wish(
            target=target_of(service),
            flags=flags_of(said, settings or {}, has_file=config is not None),
            config=fspath(config) if config is not None else "",
        )
        super().__init__(wish)

    @property
    def addresses(self) -> list[str]:
        """Where it listens, in the order of `bind`."""
        return list(self.daemon.addresses)

    @property
    def address(self) -> str:
        """The first of them, as `tcp://127.0.0.1:40123`: what a client takes."""
        return self.daemon.addresses[0]

    @property
    def port(self) -> int:
        """The number of the first TCP port; RuntimeError if it has only Unix sockets."""
        for address in self.daemon.addresses:
            if address.startswith("tcp:"):
                return urlsplit(address).port or 0
        raise RuntimeError("the server listens on no TCP port")

    def client(self, **options: Any) -> Client:
        """A client of it; the options are those of `Client`. The caller closes it."""
        return Client(self.address, **options)

    def async_client(self, **options: Any) -> AsyncClient:
        """The same for asyncio."""
        return AsyncClient(self.address, **options)


def flags_of(
    said: Mapping[str, Any], settings: Mapping[str, Any], *, has_file: bool
) -> dict[str, tuple[Any, str]]:
    """Settings with how the program said them; of two that say the same one, a ValueError.

    A file decides for itself how much it logs and how long it drains.
    """
    flags = {key: (value, "the program") for key, value in settings.items()}
    for key, value in said.items():
        if value is not None and value != []:
            if key in flags:
                raise ValueError(f"{key} is said twice: in settings= and as an argument")
            flags[key] = (value, "the program")
    for key, value in QUIETER.items():
        if not has_file:
            flags.setdefault(key, (value, "the default of an embedded server"))
    return flags
