"""What the processes of one `[ipc.<port>]` server share, made by the supervisor before any of them.

A port is a server of its own: segment, listening sockets, acceptor, readers, handlers, queue. Its
children inherit all of it by the fork; nothing is created later, and nothing has a name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..scheduling import capacity
from ..shm.layout import LANES, LARGE_PAGE, MAX_LEVELS, MOST_TURNS, SMALL_PAGE, Geometry
from ..shm.policy import QueuePolicy
from ..shm.segment import SHM_FOLDER, SegmentError
from ..shm.shared import Shared
from .acceptor.handoff import Handoff
from .acceptor.inherited import Inherited
from .acceptor.listeners import close_all, open_listeners
from .groups import groups_of
from .supervisor.failures import CannotStart
from .throttle import follow_settings

if TYPE_CHECKING:
    from .config import PortSettings, Settings

FIFO, HISTORY = "LinkedBlockingQueue", "HistoryRpcScheduler"
LEAST_SLOTS = 256  # per reader: with back-off off, calls that wait for room have slots, too
SPARE_HANDLERS = 1  # a successor is ready before who it replaces goes
MOST_LIMITERS, SPARE_LIMITERS = 1 << 16, 64
UNLIMITED = 1 << 32  # calls of one principal: a full queue is refused as such, whoever filled it
MOST_SMALL, LEAST_SMALL = 5 / 13, 1 / 8  # of the payload lie in 4 KiB pages: 20 of 52 MiB


class Port:
    """`number` is the section's, as in `[ipc.8020]`; `ipc` are its settings, `settings` all."""

    def __init__(
        self, settings: Settings, ipc: PortSettings, inherited: Inherited | None = None
    ) -> None:
        """CannotStart if an address is taken or the memory is not there.

        Listening sockets that are among the `inherited` ones are taken from there.
        """
        self.number = ipc.port
        self.settings = settings
        self.ipc = ipc
        self.created_ns = time.monotonic_ns()
        self.listeners = open_listeners(
            ipc.addresses, settings.server.backlog, settings.limits.keepalive_s, inherited
        )
        self._addresses = [listener.address for listener in self.listeners]
        try:
            geometry, policy = geometry_of(settings, ipc), policy_of(settings, ipc)
            self.shared = Shared(geometry, policy, spares=SPARE_HANDLERS)
            follow_settings(self.shared, settings, self.created_ns)
        except (SegmentError, ValueError, OSError) as error:
            close_all(self.listeners)
            raise CannotStart(f"port {self.number}: {error}") from error
        self.handoffs = [Handoff() for _ in range(settings.server.readers)]

    def refresh(self, settings: Settings) -> None:
        """From now on this process goes by `settings`: those of this port, and all."""
        self.settings, self.ipc = settings, settings.ports[self.number]

    def room(self) -> int:
        """The largest `callqueue.total-capacity` that the segment has slots for, in every group
        that has no capacity of its own."""
        geometry, groups = self.shared.geometry, groups_of(self.settings)
        slots = geometry.slots - geometry.handlers - sum(group.capacity for group in groups)
        return slots // max(1, sum(not group.capacity for group in groups))

    def methods(self) -> list[str]:
        """The names of those that its handlers serve, once these are ready."""
        methods = self.shared.names.methods
        return [methods.name(row) for row in methods.used_rows()]

    def addresses(self) -> list[str]:
        """Where it listens, as `tcp://127.0.0.1:8020`, with real port numbers; children, who have
        not got the sockets, know it as well."""
        return self._addresses

    def stop_listening(self) -> None:
        """Close and remove the listening sockets; may be repeated."""
        close_all(self.listeners)
        self.listeners = []

    def close(self) -> None:
        """Give back every descriptor: for programs that go on after the server."""
        self.stop_listening()
        for handoff in self.handoffs:
            handoff.close()
        self.shared.doorbells.close()

    def describe(self) -> dict[str, Any]:
        """What is active, and why that many: the fields of the one line at the start."""
        ipc, origins = self.ipc, self.settings.origins
        policy, geometry = policy_of(self.settings, ipc), self.shared.geometry
        segment = self.shared.segment
        return {
            "port": self.number,
            "queue": ipc.callqueue.impl,
            "scheduler": ipc.scheduler.impl,
            "levels": policy.levels,
            "weights": policy.weights,
            "capacity": policy.capacities,
            "in_turn": policy.in_turn,
            "backoff": ipc.callqueue.backoff_enable,
            "readers": geometry.readers,
            "readers_from": origin(origins, "server.readers"),
            "handlers": self.shared.working,
            "handlers_from": origin(origins, "handlers.count"),
            **({"express": self.shared.express} if self.shared.express else {}),
            **self._described_groups(),
            "segment_mib": round(segment.layout.total_bytes / 2**20, 1),
            "memory": segment.backing,
        }

    def _described_groups(self) -> dict[str, Any]:
        groups = groups_of(self.settings)
        return {"groups": [f"{g.name}:{g.count}" for g in groups]} if len(groups) > 1 else {}

    def remarks(self) -> list[str]:
        """What the operator should know about this port and may want to change."""
        remarks = []
        if self.shared.segment.backing != SHM_FOLDER:
            remarks.append(f"{SHM_FOLDER} is too small for the segment: it lies in a memfd")
        if self.settings.throttle.precise_dispatcher_flow_control:
            remarks.append(
                "throttle.precise-dispatcher-flow-control changes nothing: every call is charged"
                " before it is dispatched, so dispatching is always precise"
            )
        return remarks


def open_ports(settings: Settings, inherited: Inherited | None = None) -> list[Port]:
    """Every port of the daemon; CannotStart, and then none is open."""
    ports: list[Port] = []
    try:
        for ipc in settings.ports.values():
            ports.append(Port(settings, ipc, inherited))
    except BaseException:
        for port in ports:
            port.close()
        raise
    return ports


def policy_of(settings: Settings, ipc: PortSettings) -> QueuePolicy:
    """The queue's policy; plain FIFO is one level in order of arrival."""
    queue, total = ipc.callqueue, ipc.callqueue.total_capacity
    claim_ahead_ns = settings.handlers.claim_ahead_us * 1000
    short_ns = settings.handlers.express_below_us * 1000
    held_share = thousandths(settings.throttle.max_held_share)
    share = queue.max_principal_share
    max_principal = max(1, int(share * total)) if share < 1 else UNLIMITED
    first, *totals = capacities_of(settings, ipc)
    if queue.impl == FIFO:
        return QueuePolicy(
            weights=(1,),
            capacities=(first,),
            in_turn=False,
            claim_ahead_ns=claim_ahead_ns,
            short_ns=short_ns,
            max_principal=max_principal,
            backoff=queue.backoff_enable,
            held_share=held_share,
            group_capacities=tuple((each,) for each in totals),
        )
    levels = ipc.scheduler.priority_levels
    return QueuePolicy(
        weights=queue.multiplexer_weights,
        capacities=tuple(capacity.split(first, levels, queue.capacity_weights)),
        in_turn=queue.in_turn,
        scan_from_cursor=queue.scan == "cursor",
        claim_ahead_ns=claim_ahead_ns,
        short_ns=short_ns,
        max_principal=max_principal,
        backoff=queue.backoff_enable,
        lane_shares=lane_shares(ipc),
        held_share=held_share,
        long_ns=queue.long_call_ms * 1_000_000,
        group_capacities=tuple(
            tuple(capacity.split(each, levels, queue.capacity_weights)) for each in totals
        ),
    )


def capacities_of(settings: Settings, ipc: PortSettings) -> list[int]:
    """How many calls may wait in each group of handlers."""
    return [group.capacity or ipc.callqueue.total_capacity for group in groups_of(settings)]


def lane_shares(ipc: PortSettings) -> tuple[int, int]:
    """Of service users' and of reserved calls, in thousandths; 0: there are none, or no bound."""
    scheduler, share = ipc.scheduler, ipc.scheduler.service_users_max_share
    service = thousandths(share) if service_users(ipc) and share < 1 else 0
    reserves = scheduler.reserved_methods or scheduler.reserved_users
    return service, thousandths(scheduler.reserved_max_share) if reserves else 0


def service_users(ipc: PortSettings) -> tuple[str, ...]:
    """Those of the scheduler in force."""
    if ipc.scheduler.impl == HISTORY:
        return ipc.history_scheduler.service_users
    return ipc.decay_scheduler.service_users


def thousandths(share: float) -> int:
    return max(1, round(share * 1000))


def geometry_of(settings: Settings, ipc: PortSettings) -> Geometry:
    """How large the segment is; ValueError if that is too large for the layout.

    Every reader has as many slots as calls can wait in all, and as run meanwhile. There are as many
    turns, as far as the layout allows: so each waiting call of one caller has a turn of its own,
    and none of them stands beside those who come later. Each group of handlers has its places in
    the queue, for successors, and for payload.
    """
    limits, groups = settings.limits, groups_of(settings)
    express = [group.express + SPARE_HANDLERS if group.express else 0 for group in groups]
    places = [group.count + SPARE_HANDLERS + express[n] for n, group in enumerate(groups)]
    calls = sum(capacities_of(settings, ipc)) + sum(places)
    slots = max(LEAST_SLOTS, 1 << (calls - 1).bit_length())
    payload_bytes = limits.segment_payload_bytes * len(groups)
    small, large = pages_of(payload_bytes, limits.max_message_bytes)
    return Geometry(
        readers=settings.server.readers,
        handlers=sum(places),
        slots=slots,
        levels=MAX_LEVELS - LANES,  # a reload may configure any number
        turns=min(slots, MOST_TURNS),
        identities=limits.identities,
        methods=limits.methods,
        limiters=limiter_rows(settings),
        watched=limits.watched_users,
        small_pages=small,
        large_pages=large,
        group_handlers=tuple(places) if len(places) > 1 else (),
        group_express=tuple(express) if any(express) else (),
    )


def limiter_rows(settings: Settings) -> int:
    """Of callers, of methods, of what callers without a row of their own share, and of whatever a
    line is about; services are no more than methods. Each reader's, if they have budgets each."""
    throttle = settings.throttle
    named = len(throttle.rates) + len(settings.set_rates.lines)
    rows = throttle.max_callers + 3 * settings.limits.methods + named + SPARE_LIMITERS
    return min(MOST_LIMITERS, rows * owners(settings))


def owners(settings: Settings) -> int:
    """How many processes have budgets of their own."""
    return settings.server.readers if settings.throttle.scope == "per_process" else 1


def pages_of(payload_bytes: int, longest_bytes: int) -> tuple[int, int]:
    """How many pages of 4 KiB and of 64 KiB share `payload_bytes`.

    The large ones hold the longest request and the longest answer at a time, if that leaves an
    eighth of the payload for the small ones.
    """
    most, least = int(payload_bytes * MOST_SMALL), int(payload_bytes * LEAST_SMALL)
    small = max(least, min(most, payload_bytes - 2 * longest_bytes)) // SMALL_PAGE
    return small, (payload_bytes - small * SMALL_PAGE) // LARGE_PAGE


def origin(origins: Mapping[str, str], key: str) -> str:
    """Where the value of `key` came from, or the reason of a default."""
    return origins.get(key, "").removeprefix("default: ")
