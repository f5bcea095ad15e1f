"""Every setting of faircall, declared once: kind, unit, bounds, default, meaning and source.

`--help`, `faircall check-config`, docs/configuration.md and validation come out of these
declarations. A field is written with `-` for `_` in its section: `Limits.max_batch` is `max-batch`
under `[limits]`, `FAIRCALL_LIMITS_MAX_BATCH` in the environment. `[limits]` is declared in
`config_limits.py`, the settings of a port, which bear Hadoop's names, in `config_ipc.py`.
`load_settings` (settings/load.py) makes a `Settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..scheduling.units import TimeUnit
from .config_ipc import PortSettings
from .config_limits import DAY_MS, HOUR_MS, Limits
from .settings import derived
from .settings.bind_address import BindAddress
from .settings.declaration import ConfigError, Derived, integer, ms, setting
from .settings.kinds import FLAG, TEXT, choice
from .settings.lists import NAMES
from .settings.places import ADDRESSES, PEERS, PROXIES

__all__ = ["SECTIONS", "ConfigError", "PortSettings", "Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """The processes that run the functions of the service."""

    count: int = integer(
        Derived("the smaller of CPU affinity and cgroup quota", derived.handlers),
        "Handler processes of each port.",
        1,
        1024,
    )
    claim_ahead_us: int = integer(
        200,
        "Expected run time up to which a handler claims several calls at once; 0: one at a time.",
        0,
        1_000_000,
        unit="us",
        live=True,
    )
    startup_timeout_s: int = integer(
        300,
        "Time for importing the service and for its start hooks.",
        1,
        86_400,
        unit="s",
        live=True,
    )
    hang_grace_ms: int = ms(
        1000,
        "How long a call may run past its deadline before its handler is killed and replaced.",
        0,
        HOUR_MS,
        live=True,
    )
    blas_threads: int = integer(
        Derived("processors divided by handlers, at least 1", derived.blas_threads),
        "Threads of numerical libraries in each handler, unless OMP_NUM_THREADS and its like are"
        " set.",
        1,
        1024,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The sockets and the processes that read from them."""

    bind: tuple[BindAddress, ...] = setting(
        ADDRESSES,
        Derived("`tcp://127.0.0.1:P` for each `[ipc.P]` section, or for 8020", derived.bind),
        "Where to listen: tcp://HOST:PORT, unix:/PATH, or unix:/PATH#PORT for the section of PORT.",
    )
    readers: int = integer(
        Derived("1 per 4 handlers, at least 1", derived.readers),
        "Reader processes of each port: they read calls, put them into the queue, write answers.",
        1,
        256,
        hadoop="ipc.server.read.threadpool.size",
    )
    backlog: int = integer(
        256,
        "Connections that may wait to be accepted (the kernel caps it at net.core.somaxconn).",
        1,
        65_535,
        hadoop="ipc.server.listen.queue.size",
    )
    pending_connections: int = integer(
        100,
        "Accepted connections that may wait to be taken up by one reader.",
        1,
        65_535,
        hadoop="ipc.server.read.connection-queue.size",
    )
    max_connections: int = integer(
        0,
        "Connections that a port serves at a time; more are closed at once. 0: no limit but that"
        " of open files.",
        0,
        1_000_000,
        hadoop="ipc.server.max.connections",
    )
    slice_us: int = integer(
        100,
        "Time slice that readers, acceptor and janitor ask the kernel for, so that busy handlers do"
        " not keep them waiting (Linux 6.12 and newer); 0: the kernel's own.",
        0,
        100_000,
        unit="us",
    )
    nap_us: int = integer(
        4000,
        "Longest time for which a reader lets requests and answers gather while every handler is"
        " busy and has enough to do: fewer, fuller passes leave more of the processors to handlers."
        " 0: it looks at once.",
        0,
        100_000,
        unit="us",
    )
    watch_us: int = integer(
        100,
        "Longest time for which a reader watches for the answer of a single short call, instead of"
        " going to sleep (not with only one processor); 0: none.",
        0,
        10_000,
        unit="us",
    )
    busy_http_status: int = setting(
        choice(200, 429, 503), 200, "HTTP status of answers that say that the server is busy."
    )
    allowed_hosts: tuple[str, ...] = setting(
        NAMES,
        Derived(
            "localhost, *.localhost, the names in `bind`, and this host's name where all of its"
            " addresses are bound",
            derived.allowed_hosts,
        ),
        "Host names accepted in HTTP requests, besides IP addresses: the guard against DNS"
        ' rebinding. "*" accepts all.',
    )
    allowed_origins: tuple[str, ...] = setting(
        NAMES,
        (),
        'Web origins whose pages may call (https://app.example.org). "*" accepts all.',
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a caller is taken to be."""

    trusted_peers: tuple[str, ...] = setting(
        PEERS,
        ("uid:self", "uid:0"),
        "Peers that may say for whom they call: uid:NUMBER, uid:self or user:NAME on Unix sockets,"
        " addresses and networks on TCP.",
    )
    trust_loopback: bool = setting(
        FLAG, False, "Also trust every TCP peer on this machine (127.0.0.0/8 and ::1)."
    )
    token_file: str = setting(
        TEXT,
        "",
        "File of bearer tokens, one `TOKEN USER` a line, # before comments; only its owner may have"
        " access. Read again when it changes. Empty: no tokens.",
    )
    require: bool = setting(
        FLAG,
        False,
        "Refuse who is not authenticated: by a Unix socket, a token, or a trusted peer's word.",
    )
    trusted_proxies: tuple[str, ...] = setting(
        PROXIES,
        (),
        "Proxies that may say which address calls (X-Forwarded-For, PROXY protocol): addresses and"
        " networks on TCP; unix, uid:NUMBER or user:NAME on Unix sockets.",
    )
    proxy_protocol: bool = setting(
        FLAG,
        False,
        "Connections of trusted proxies begin with a header of the PROXY protocol, version 1 or 2.",
    )
    group_file: str = setting(
        TEXT,
        "",
        "Groups for GroupIdentityProvider, one `USER GROUP` a line; read again when it changes."
        " Empty: the user's primary Unix group.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Dispatch throttling: no keys yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """What happens at SIGTERM; at SIGINT nothing more is accepted from the start."""

    accept_ms: int = ms(
        5000, "How long to go on accepting while /readyz already fails.", 0, HOUR_MS, live=True
    )
    grace_ms: int = ms(30_000, "How long calls in flight may take to finish.", 0, DAY_MS, live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The log on stderr: one line per event."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        choice("debug", "info", "warning", "error"),
        "info",
        "The least level that is written.",
        live=True,
    )
    format: Literal["text", "json"] = setting(
        choice("text", "json"), "text", "One line of text, or one JSON object, per event."
    )
    slow_rpc: bool = setting(
        FLAG,
        False,
        "Log calls that take far longer than their method's mean.",
        hadoop="ipc.server.log.slow.rpc",
    )
    slow_rpc_threshold_ms: int = ms(
        0,
        "Calls faster than this are never slow.",
        0,
        DAY_MS,
        hadoop="ipc.server.log.slow.rpc.threshold.ms",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """The daemon's own socket, for `faircall stats`."""

    socket: str = setting(
        TEXT,
        Derived(
            "`PORT.sock` in $XDG_RUNTIME_DIR/faircall, /run/faircall or /tmp/faircall-UID",
            derived.admin,
        ),
        "Path of the admin socket.",
        environ="FAIRCALL_ADMIN",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc:
    """Hadoop's `rpc.*` keys."""

    metrics_timeunit: str = setting(
        choice(*TimeUnit.__members__),
        "MILLISECONDS",
        "Unit of the times in `faircall stats`.",
        key="metrics.timeunit",
        hadoop="rpc.metrics.timeunit",
        live=True,
    )


# In the order in which they are worked out: a derived default sees what stands above it.
SECTIONS: Mapping[str, type[Any]] = {
    "handlers": Handlers,
    "server": Server,
    "identity": Identity,
    "limits": Limits,
    "throttle": Throttle,
    "shutdown": Shutdown,
    "log": Log,
    "admin": Admin,
    "rpc": Rpc,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a daemon.

    `ports` maps the port of each section that has an address to its settings, in the order of
    `server.bind`. `origins` says of every absolute key where its value came from; `notes` are
    remarks for the operator on what was read and has no effect.
    """

    handlers: Handlers
    server: Server
    identity: Identity
    limits: Limits
    throttle: Throttle
    shutdown: Shutdown
    log: Log
    admin: Admin
    rpc: Rpc
    ports: Mapping[int, PortSettings]
    origins: Mapping[str, str]
    notes: tuple[str, ...]
