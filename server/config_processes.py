"""The settings of `[handlers]` and `[server]`: the processes of a port and their sockets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .config_limits import DAY_MS, HOUR_MS
from .settings import derived
from .settings.bind_address import BindAddress
from .settings.declaration import Derived, integer, ms, setting
from .settings.kinds import FLAG, NUMBER, choice
from .settings.lists import NAMES
from .settings.places import ADDRESSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """The processes that run the functions of the service."""

    count: int = integer(
        Derived("the smaller of CPU affinity and cgroup quota", derived.handlers),
        "Handler processes of each port.",
        1,
        1023,
    )
    express: int = integer(
        Derived(
            "1 where `handlers.count` is worked out and at least 2, else 0; 0 with a core-site.xml",
            derived.express_handlers,
        ),
        "Handler processes of each port beside these that run short calls only, and only while all"
        " others run longer ones: so short calls do not wait for these, even where they keep every"
        " processor busy. They import the service like any other; their indices follow. Not for the"
        " methods of `[handlers.<group>]`, which has an `express` of its own.",
        0,
        1023,
    )
    express_below_us: int = integer(
        1000,
        "Expected run time up to which calls are short. Those of a method that was never run, and"
        " of methods that serve many calls at once, are not.",
        0,
        60_000_000,
        unit="us",
        live=True,
    )
    claim_ahead_us: int = integer(
        200,
        "Expected run time up to which a handler claims several calls at once; 0: one at a time.",
        0,
        1_000_000,
        unit="us",
        live=True,
    )
    watch_us: int = integer(
        200,
        "Longest time for which a handler that has nothing to do watches for the next call, instead"
        " of going to sleep, while calls come at intervals as short as that (not with only one"
        " processor); 0: none.",
        0,
        10_000,
        unit="us",
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
    nested_calls: Literal["inline", "refuse", "queue"] = setting(
        choice("inline", "refuse", "queue"),
        "inline",
        "What becomes of a call that a function of the service makes to its own server while no"
        " handler is idle, and that could wait for itself: the handler runs it inside the call that"
        " made it; it is refused (-32005, reason `nested`); or it waits in the queue like any"
        " other, until its deadline.",
        live=True,
    )
    niceness: int = integer(
        0,
        "By how much handlers, but for express ones, are nicer than the other processes, which need"
        " a processor only for a moment, and for which every caller waits: 4 shortens a light"
        " caller's longest waits where handlers keep all processors busy. What the service starts"
        " inherits it.",
        0,
        19,
    )
    batch: bool = setting(
        FLAG,
        True,
        "Whether handlers, but for express ones, ask the kernel to treat them as batch work"
        " (SCHED_BATCH): one that is woken takes a processor that is free, or waits for its turn,"
        " and interrupts neither readers nor clients on this machine. `false` is for a machine"
        " whose processors others keep busy. What the service starts inherits it.",
    )
    slice_us: int = integer(
        3000,
        "Time slice that handlers, but for express ones, ask the kernel for (Linux 6.12 and newer):"
        " longer than that of other processes, which are let in at once then when they wake; 0: the"
        " kernel's own. What the service starts inherits it.",
        0,
        100_000,
        unit="us",
    )
    blas_threads: int = integer(
        Derived("processors divided by handlers, at least 1", derived.blas_threads),
        "Threads of numerical libraries in each handler, unless OMP_NUM_THREADS and its like are"
        " set.",
        1,
        1024,
    )
    max_calls: int = integer(
        0,
        "Calls after which a handler is replaced by a new process, which is ready before the old"
        " one stops claiming. 0: no limit.",
        0,
        1 << 53,
        live=True,
    )
    max_age_s: int = integer(
        0,
        "Age at which a handler is replaced, in the same way. 0: no limit.",
        0,
        DAY_MS,
        unit="s",
        live=True,
    )
    max_rss_mib: int = integer(
        0,
        "Memory of its own at which a handler is replaced: what is resident, without files and what"
        " it shares with the other processes. 0: no limit.",
        0,
        1 << 24,
        unit="MiB",
        live=True,
    )
    recycle_jitter: float = setting(
        NUMBER,
        0.1,
        "Part of `max-calls` and `max-age-s` by which each handler's own limits are lowered at"
        " most, by chance, so that not all are due at the same time.",
        least=0.0,
        below=1.0,
        live=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The sockets and the processes that read from them."""

    bind: tuple[BindAddress, ...] = setting(
        ADDRESSES,
        Derived("`tcp://127.0.0.1:P` for each `[ipc.P]` section, or for 8020", derived.bind),
        "Where to listen: tcp://HOST:PORT, unix:/PATH, or unix:/PATH#PORT for the section of PORT;"
        " systemd:NAME and fd://NUMBER are sockets that are open already.",
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
