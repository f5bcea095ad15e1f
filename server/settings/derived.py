"""The defaults that are worked out: each function makes one from a draft of the settings."""

from __future__ import annotations

import ipaddress

from ...scheduling import decay, history, multiplexer, response_time
from .bind_address import BindAddress
from .declaration import Because
from .draft import Draft
from .runtime_directory import admin_socket

STANDARD_PORT = 8020
HEADER_ROOM_BYTES = 64 << 10
MOST_HANDLERS = 1024


def handlers(draft: Draft) -> Because:
    processors = draft.machine.processors
    return Because(min(processors.count, MOST_HANDLERS), f"one per processor: {processors.why}")


def express_handlers(draft: Draft) -> Because:
    if draft.is_given("handlers.count"):
        return Because(0, "handlers.count is given: no process more than that")
    if draft.is_hadoops:
        return Because(0, "as Hadoop: every handler takes what the multiplexer draws")
    if draft["handlers.count"] < 2:
        return Because(0, "one handler: its calls run in one process")
    return Because(1, "beside as many handlers as processors")


def readers(draft: Draft) -> Because:
    count: int = draft["handlers"]
    return Because(max(1, count // 4), f"one per 4 handlers, at least one ({count} handlers)")


def blas_threads(draft: Draft) -> Because:
    processors, count = draft.machine.processors.count, draft["handlers"]
    return Because(max(1, processors // count), f"{processors} processors for {count} handlers")


def bind(draft: Draft) -> tuple[BindAddress, ...]:
    ports = draft.sections or (STANDARD_PORT,)
    return tuple(BindAddress(port, host="127.0.0.1", port=port) for port in ports)


def allowed_hosts(draft: Draft) -> tuple[str, ...]:
    """Names only: HTTP requests that name an IP address are always accepted."""
    hosts = [address.host for address in draft["server.bind"] if address.host]
    names = [draft.machine.hostname if _is_any(host) else host for host in hosts]
    return tuple(dict.fromkeys(["localhost", "*.localhost", *filter(_is_name, names)]))


def admin(draft: Draft) -> str:
    bound: BindAddress = draft["server.bind"][0]
    port = bound.section if bound.section is not None else first_section(draft)
    return str(admin_socket(draft.machine.runtime_directory, port, draft.machine.pid))


def first_section(draft: Draft) -> int:
    """The port whose section a Unix socket belongs to unless it says so."""
    addresses: tuple[BindAddress, ...] = draft["server.bind"]
    bound = [address.section for address in addresses if address.section is not None]
    return [*bound, *draft.sections, STANDARD_PORT][0]


def unfinished_bytes(draft: Draft) -> int:
    longest: int = draft["limits.max-message-bytes"]
    return longest + HEADER_ROOM_BYTES


def unfinished_bytes_of_principal(draft: Draft) -> int:
    one: int = draft["limits.max-unfinished-bytes-per-connection"]
    return 4 * one


def unfinished_bytes_of_reader(draft: Draft) -> int:
    one: int = draft["limits.max-unfinished-bytes-per-principal"]
    return 4 * one


def scheduler(draft: Draft) -> Because:
    if draft.queue_of_all_ports:
        why = "Hadoop's rule: only a port's own callqueue.impl brings its scheduler along"
        return Because("DefaultRpcScheduler", why)
    if draft["callqueue.impl"] == "FairCallQueue":
        return Because("DecayRpcScheduler", "because callqueue.impl is FairCallQueue")
    return Because("DefaultRpcScheduler", f"because callqueue.impl is {draft['callqueue.impl']}")


def capacity_of_hadoop(draft: Draft) -> Because:
    size, count = draft["server.handler.queue.size"], draft["handlers.count"]
    return Because(size * count, f"Hadoop's rule: {size} calls for each of {count} handlers")


def capacity_weights(draft: Draft) -> tuple[int, ...]:
    levels: int = draft["scheduler.priority.levels"]
    return (1,) * levels


def multiplexer_weights(draft: Draft) -> tuple[int, ...]:
    return tuple(multiplexer.default_weights(draft["scheduler.priority.levels"]))


def thresholds(draft: Draft) -> tuple[float, ...]:
    return tuple(decay.default_thresholds(draft["scheduler.priority.levels"]))


def response_times(draft: Draft) -> tuple[int, ...]:
    return tuple(response_time.default_thresholds_ms(draft["scheduler.priority.levels"]))


def history_thresholds(draft: Draft) -> tuple[int, ...]:
    length: int = draft["history-scheduler.history-length"]
    return tuple(history.default_thresholds(draft["scheduler.priority.levels"], length))


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_name(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False
