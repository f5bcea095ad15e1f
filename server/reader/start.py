"""The start of a reader process: what it needs, taken from the settings of its port.

Its channel may bring others later: the supervisor's settings, pickled, the last of which count; and
orders to cancel calls.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import pickle
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...shm import states
from ..costs import cost_rules
from ..groups import groups_of
from ..port import service_users
from ..settings import processors
from ..settings.trusted_peers import trusted_peers, trusted_proxies
from ..standing import level_rules
from ..supervisor.failures import CannotStart
from ..wire.limits import WireLimits
from .backoff import BackOffRules
from .caller_rules import CallerRules
from .cancel_order import CancelOrder, answer_of
from .client_limits import ClientLimits
from .lanes import ReservedCalls
from .pair_file import FileUnusable, PairFile
from .providers import provider_of
from .reader import Reader
from .settings import LiveSettings, ReaderSettings
from .staging import AdmissionLimits
from .timeouts import Timeouts
from .waiting import WaitLimits

if TYPE_CHECKING:
    from ..config import PortSettings, Settings
    from ..port import Port

log = logging.getLogger("faircall.reader")

MS = 1_000_000
LONGEST_MESSAGE = 1 << 20  # bytes
DECAY = "DecayRpcScheduler"


def run_reader(
    port: Port, number: int, report: Callable[[str], None], channel: socket.socket | None = None
) -> int:
    """The life of a reader process, after the fork: its exit status."""
    row = port.shared.row("reader", number)
    row.enter()
    reader = reader_of(port, number)  # imports the operator's identity provider
    if channel:
        take_settings_from(channel, port, reader)
    row["status"] = states.Life.READY
    report("ready")
    log.debug("reader ready", {"index": number, "pid": os.getpid()})
    reader.run()
    return 0


def take_settings_from(channel: socket.socket, port: Port, reader: Reader) -> None:
    """From now on the supervisor may tell `reader` of `port` what to go by."""
    channel.setblocking(False)
    reader.watch(channel.fileno(), functools.partial(_hear, reader, port, channel))


def _hear(reader: Reader, port: Port, channel: socket.socket) -> None:
    """The supervisor says what to go by from now on, what to cancel, or nothing more."""
    try:
        message = channel.recv(LONGEST_MESSAGE)
    except BlockingIOError:
        return
    except OSError:
        message = b""
    if not message:
        reader.unwatch(channel.fileno())
        return
    told: Settings | CancelOrder = pickle.loads(message)  # the supervisor's own
    if isinstance(told, CancelOrder):
        found = reader.cancel(told)
        with contextlib.suppress(OSError):  # who does not listen will not have it counted
            channel.send(answer_of(told, found))
        return
    port.refresh(told)
    reader.configure(live_settings(port))


def reader_of(port: Port, number: int, clock: Callable[[], int] = time.monotonic_ns) -> Reader:
    """Reader `number` of `port`."""
    settings = port.settings
    identity = settings.identity
    own = ReaderSettings(
        live=live_settings(port),
        trusted=trusted_peers(identity.trusted_peers, loopback=identity.trust_loopback),
        wire_limits=_wire_limits(settings),
        rules=caller_rules(settings, port.ipc),
        costs=cost_rules(port.ipc),
        identities=settings.limits.identities,
        waiting=_wait_limits(settings),
        groups=groups_of(settings),
    )
    return Reader(port.shared, number, port.handoffs[number].far, own, clock)


def live_settings(port: Port) -> LiveSettings:
    """What readers of `port` go by at present."""
    settings = port.settings
    return LiveSettings(
        limits=_client_limits(settings),
        admission_limits=_admission_limits(settings),
        timeouts=_timeouts(settings),
        backoff_rules=backoff_rules(port),
        reserved=_reserved(port.ipc),
        service_users=frozenset(service_users(port.ipc)),
        grace_ns=settings.shutdown.grace_ms * MS,
        level_rules=level_rules(port.ipc),
    )


def _reserved(ipc: PortSettings) -> ReservedCalls:
    scheduler = ipc.scheduler
    return ReservedCalls(frozenset(scheduler.reserved_methods), frozenset(scheduler.reserved_users))


def _wait_limits(settings: Settings) -> WaitLimits:
    """Only with a second processor does a watched call go on meanwhile."""
    watch_us = settings.server.watch_us if processors.available().count > 1 else 0
    return WaitLimits(settings.server.nap_us * 1000, watch_us * 1000)


def caller_rules(settings: Settings, ipc: PortSettings) -> CallerRules:
    """CannotStart if a file or the operator's own provider is unusable."""
    identity, name = settings.identity, ipc.scheduler.identity_provider
    asks_groups = name == "GroupIdentityProvider"
    groups = _pairs("group-file", identity.group_file) if asks_groups else None
    return CallerRules(
        proxies=trusted_proxies(identity.trusted_proxies),
        proxy_protocol=identity.proxy_protocol,
        tokens=_pairs("token-file", identity.token_file, secret=True),
        required=identity.require,
        provider=provider_of(name, hadoop_rules=ipc.hadoop_rules, groups=groups),
        newcomer_calls=ipc.callqueue.newcomer_calls,
    )


def _pairs(key: str, path: str, *, secret: bool = False) -> PairFile | None:
    try:
        return PairFile(path, secret=secret) if path else None
    except FileUnusable as error:
        raise CannotStart(f"identity.{key}: {error}") from None


def backoff_rules(port: Port) -> BackOffRules:
    """When, and in which form, the readers of `port` refuse calls."""
    queue, decay = port.ipc.callqueue, port.ipc.decay_scheduler
    return BackOffRules(
        by_response_time=decay.backoff_responsetime_enable and port.ipc.scheduler.impl == DECAY,
        max_wait_ms=queue.max_wait_ms or None,
        period_ms=decay.period_ms,
        started_ns=port.created_ns,
        failover=queue.overflow_trigger_failover,
        disconnects=queue.backoff_form == "disconnect",
        charge_refused=decay.charge_refused,
    )


def _wire_limits(settings: Settings) -> WireLimits:
    return WireLimits(
        max_message_bytes=settings.limits.max_message_bytes,
        max_header_bytes=settings.limits.max_header_bytes,
        allowed_hosts=settings.server.allowed_hosts,
        allowed_origins=settings.server.allowed_origins,
        busy_http_status=settings.server.busy_http_status,
    )


def _client_limits(settings: Settings) -> ClientLimits:
    limits = settings.limits
    return ClientLimits(
        calls_per_pass=limits.calls_per_pass,
        bytes_per_pass=limits.bytes_per_pass,
        max_in_flight=limits.max_in_flight_per_connection,
        http_pipelining=limits.http_pipelining,
        unsent_high_water_bytes=limits.unsent_high_water_bytes,
        max_unsent_bytes=limits.unsent_high_water_bytes + 4 * limits.max_message_bytes,
        max_unfinished_of_connection=limits.max_unfinished_bytes_per_connection,
        max_unfinished_of_caller=limits.max_unfinished_bytes_per_principal,
        max_unfinished_of_reader=limits.max_unfinished_bytes_per_reader,
    )


def _admission_limits(settings: Settings) -> AdmissionLimits:
    limits = settings.limits
    return AdmissionLimits(
        max_message_bytes=limits.max_message_bytes,
        frame_only_above_bytes=limits.frame_only_above_bytes,
        max_batch=limits.max_batch,
        max_depth=limits.max_depth,
        max_id_bytes=limits.max_id_bytes,
        default_timeout_ns=limits.default_timeout_ms * MS,
        max_timeout_ns=limits.max_timeout_ms * MS,
        nested_calls=settings.handlers.nested_calls,
    )


def _timeouts(settings: Settings) -> Timeouts:
    limits = settings.limits
    return Timeouts(
        first_byte_ns=limits.first_byte_timeout_ms * MS,
        header_ns=limits.header_timeout_ms * MS,
        message_ns=limits.message_timeout_ms * MS,
        idle_ns=limits.idle_timeout_ms * MS,
        send_ns=limits.send_timeout_ms * MS,
    )
