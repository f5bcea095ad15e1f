"""faircall: Python functions as JSON-RPC 2.0 from many processes, fair to every caller.

The repository root is this package: ``shm/layout.py`` is ``faircall.shm.layout``. Nothing is
imported here; a public name loads its module when it is first asked for (PEP 562), so that a child
process loads only what it uses and ``faircall.client`` works where the server does not.
"""

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "AsyncClient",
    "Busy",
    "Client",
    "ConnectionFailed",
    "ConnectionLost",
    "DeadlineExceeded",
    "InvalidAnswer",
    "NotServable",
    "RemoteError",
    "RpcClientError",
    "RpcError",
    "Service",
    "StartError",
    "current_call",
    "pool",
    "running",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .client import AsyncClient as AsyncClient
    from .client import Client as Client
    from .client.errors import AddressError as AddressError
    from .client.errors import Busy as Busy
    from .client.errors import ConnectionFailed as ConnectionFailed
    from .client.errors import ConnectionLost as ConnectionLost
    from .client.errors import DeadlineExceeded as DeadlineExceeded
    from .client.errors import InvalidAnswer as InvalidAnswer
    from .client.errors import RemoteError as RemoteError
    from .client.errors import RpcClientError as RpcClientError
    from .server.embed.host import StartError as StartError
    from .server.embed.pool import pool as pool
    from .server.embed.running import running as running
    from .server.embed.target import NotServable as NotServable
    from .workers.context import current_call as current_call
    from .workers.errors import RpcError as RpcError
    from .workers.service import Service as Service

_HOMES = {
    "AddressError": "client.errors",
    "AsyncClient": "client",
    "Busy": "client.errors",
    "Client": "client",
    "ConnectionFailed": "client.errors",
    "ConnectionLost": "client.errors",
    "DeadlineExceeded": "client.errors",
    "InvalidAnswer": "client.errors",
    "NotServable": "server.embed.target",
    "RemoteError": "client.errors",
    "RpcClientError": "client.errors",
    "RpcError": "workers.errors",
    "Service": "workers.service",
    "StartError": "server.embed.host",
    "current_call": "workers.context",
    "pool": "server.embed.pool",
    "running": "server.embed.running",
}


def __getattr__(name: str) -> object:
    """The public object `name`, from the module where it lives; AttributeError for others."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
