"""Every setting of faircall, declared once: kind, unit, bounds, default, meaning and source.

`--help`, `faircall check-config`, docs/configuration.md and validation come out of these
declarations. A field is written with `-` for `_` in its section: `Limits.max_batch` is `max-batch`
under `[limits]`, `FAIRCALL_LIMITS_MAX_BATCH` in the environment. `[limits]` is declared in
`config_limits.py`, `[handlers]` and `[server]` in `config_processes.py`, `[handlers.<group>]` in
`config_groups.py`, `[throttle]` in `config_throttle.py`, `[alarms]` in `config_alarms.py`, the
settings of a port, which bear Hadoop's names, in `config_ipc.py`.
`load_settings` (settings/load.py) makes a `Settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..scheduling.units import TimeUnit
from .config_alarms import Alarms
from .config_groups import HandlerGroup
from .config_ipc import PortSettings
from .config_limits import DAY_MS, HOUR_MS, Limits
from .config_processes import Handlers, Server
from .config_throttle import Throttle
from .set_rates import SetRates
from .settings import derived
from .settings.bind_address import BindAddress
from .settings.declaration import ConfigError, Derived, ms, setting
from .settings.kinds import FLAG, TEXT, choice
from .settings.places import HTTP_ADDRESSES, PEERS, PROXIES

__all__ = ["SECTIONS", "ConfigError", "PortSettings", "Settings"]


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
    """The daemon's own socket, for `faircall stats`, and its HTTP listener."""

    socket: str = setting(
        TEXT,
        Derived(
            "`PORT.sock` in $XDG_RUNTIME_DIR/faircall, /run/faircall or /tmp/faircall-UID",
            derived.admin,
        ),
        "Path of the admin socket.",
        environ="FAIRCALL_ADMIN",
    )
    listen: tuple[BindAddress, ...] = setting(
        HTTP_ADDRESSES,
        (),
        "Where the page for operators, /metrics, /livez and /readyz are served over HTTP: HOST:PORT"
        " or unix:/PATH."
        " 127.0.0.1:9464 is what Prometheus would look for. Empty: nowhere.",
    )
    token_file: str = setting(
        TEXT,
        "",
        "File of bearer tokens for `listen`, one `TOKEN USER` a line, as identity.token-file."
        " Asked for at every address but loopback and Unix sockets, and needed to listen there.",
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
    "alarms": Alarms,
    "rpc": Rpc,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a daemon.

    `ports` maps the port of each section that has an address to its settings, in the order of
    `server.bind`; `groups` are those of the groups of handlers, in the order of the file. `origins`
    says of every absolute key where its value came from; `notes` are remarks for the operator on
    what was read and has no effect. `set_rates` were set while the daemon ran.
    """

    handlers: Handlers
    server: Server
    identity: Identity
    limits: Limits
    throttle: Throttle
    shutdown: Shutdown
    log: Log
    admin: Admin
    alarms: Alarms
    rpc: Rpc
    ports: Mapping[int, PortSettings]
    origins: Mapping[str, str]
    notes: tuple[str, ...]
    set_rates: SetRates = field(default_factory=SetRates)
    groups: Mapping[str, HandlerGroup] = field(default_factory=dict)
