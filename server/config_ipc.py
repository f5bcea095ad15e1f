"""The settings of one port, `[ipc.<port>]` over `[ipc]`; part of the declarations of `config.py`.

The keys are Hadoop's (Fair Call Queue guide, CommonConfigurationKeys, DecayRpcScheduler), those
without a `hadoop` are our own. Hadoop's rules hold for a port that sets `callqueue.impl`, and for
every port of a core-site.xml: then `hadoop_default` stands where it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .config_schedulers import INT_MOST, DecayScheduler, HistoryScheduler, WeightedCost
from .settings import derived
from .settings.bind_address import BindAddress
from .settings.declaration import Derived, integer, ms, setting
from .settings.kinds import FLAG, NUMBER, choice, implementation
from .settings.lists import INTEGERS, NAMES

MOST_LEVELS = 14  # the shared segment holds 16, two of them for lanes

QUEUES = implementation(
    "FairCallQueue",
    "LinkedBlockingQueue",
    aliases={"ArrayBlockingQueue": "LinkedBlockingQueue"},
    plugin=False,
    why_no_plugin="the queue lies in shared memory, where no class of one's own can work;"
    " scheduler.impl takes one",
)
SCHEDULERS = implementation(
    "DecayRpcScheduler",
    "HistoryRpcScheduler",
    "DefaultRpcScheduler",
    aliases={"HistoryBasedScheduler": "HistoryRpcScheduler"},
    plugin=True,
)
IDENTITY_PROVIDERS = implementation(
    "UserIdentityProvider",
    "CallerContextIdentityProvider",
    "AddressIdentityProvider",
    "UserMethodIdentityProvider",
    "GroupIdentityProvider",
    aliases={
        "user": "UserIdentityProvider",
        "context": "CallerContextIdentityProvider",
        "address": "AddressIdentityProvider",
        "user+method": "UserMethodIdentityProvider",
        "group": "GroupIdentityProvider",
    },
    plugin=True,
)
COST_PROVIDERS = implementation(
    "DefaultCostProvider", "WeightedTimeCostProvider", aliases={}, plugin=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQueue:
    """The queue between readers and handlers."""

    impl: str = setting(
        QUEUES,
        "FairCallQueue",
        "A queue for each priority level, or one first-in, first-out queue.",
        key="callqueue.impl",
        hadoop="callqueue.impl",
        hadoop_default="LinkedBlockingQueue",
        live=True,
    )
    handler_queue_size: int = integer(
        100,
        "Under Hadoop's rules: waiting calls for each handler.",
        1,
        1_000_000,
        key="server.handler.queue.size",
        hadoop="server.handler.queue.size",
        live=True,
    )
    total_capacity: int = integer(
        4096,
        "Calls that may wait, on all levels together.",
        1,
        1 << 20,
        key="callqueue.total-capacity",
        hadoop_default=Derived(
            "server.handler.queue.size times handlers", derived.capacity_of_hadoop
        ),
        live=True,
    )
    capacity_weights: tuple[int, ...] = setting(
        INTEGERS,
        Derived("equal weights", derived.capacity_weights),
        "How the capacity is split among the levels.",
        key="callqueue.capacity.weights",
        hadoop="callqueue.capacity.weights",
        least=1,
        most=INT_MOST,
        live=True,
    )
    overflow_trigger_failover: bool = setting(
        FLAG,
        False,
        "Tell a caller who is refused, by the full queue or by back-off, to go to another server.",
        key="callqueue.overflow.trigger.failover",
        hadoop="callqueue.overflow.trigger.failover",
        live=True,
    )
    max_principal_share: float = setting(
        NUMBER,
        0.25,
        "Share of the capacity that one principal's waiting calls may hold, in each group of"
        " handlers.",
        key="callqueue.max-principal-share",
        above=0,
        most=1,
        hadoop_default=1.0,
        live=True,
    )
    in_turn: bool = setting(
        FLAG,
        True,
        "Within a level serve the callers in turn instead of their calls in order of arrival.",
        key="callqueue.in-turn",
        hadoop_default=False,
        live=True,
    )
    newcomer_calls: int = integer(
        20,
        "Calls after which a new name has a row of its own (the next sweep gives it one, too);"
        " until then it shares the account of who brought it. 0: a row at once.",
        0,
        1_000_000,
        key="callqueue.newcomer-calls",
        hadoop_default=0,
    )
    long_call_ms: int = ms(
        500,
        "Calls of methods that are expected to take as long leave one handler of their group to"
        " briefer calls, or to other callers, as long as such calls wait or were served within the"
        " last ten seconds. 0: they take all that are free.",
        0,
        86_400_000,
        key="callqueue.long-call-ms",
        hadoop_default=0,
        live=True,
    )
    max_wait_ms: int = ms(
        0,
        "With back-off, refuse a call whose expected wait is longer; 0: no limit.",
        0,
        86_400_000,
        key="callqueue.max-wait-ms",
        live=True,
    )
    multiplexer_weights: tuple[int, ...] = setting(
        INTEGERS,
        Derived("descending by a factor of 2 (`8,4,2,1`)", derived.multiplexer_weights),
        "Draws of each level in a round.",
        key="faircallqueue.multiplexer.weights",
        hadoop="faircallqueue.multiplexer.weights",
        least=1,
        most=INT_MOST,
        live=True,
    )
    scan: Literal["top", "cursor"] = setting(
        choice("top", "cursor"),
        "top",
        "Where a draw looks for a call when its level has none: from level 0 down (Hadoop 3), or on"
        " from its level (HADOOP-9640).",
        key="callqueue.scan",
        live=True,
    )
    backoff_enable: bool = setting(
        FLAG,
        True,
        "Refuse a call when its queue is full, instead of reading no more from its connection.",
        key="backoff.enable",
        hadoop="backoff.enable",
        hadoop_default=False,
        any_true=True,
        live=True,
    )
    backoff_form: Literal["keep-alive", "disconnect"] = setting(
        choice("keep-alive", "disconnect"),
        "keep-alive",
        "disconnect: as Hadoop, close the connection of a call that the last level, a response time"
        " or the fail-over refuses, once its other calls are answered.",
        key="backoff.form",
        live=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """What gives a caller's calls their level."""

    impl: str = setting(
        SCHEDULERS,
        Derived("DecayRpcScheduler for FairCallQueue, else DefaultRpcScheduler", derived.scheduler),
        "By decayed cost, by the last calls (HADOOP-9640), level 0 for all, or what a class of"
        " yours says.",
        key="scheduler.impl",
        hadoop="scheduler.impl",
        live=True,
    )
    priority_levels: int = integer(
        4,
        "Priority levels; level 0 is served most.",
        1,
        MOST_LEVELS,
        key="scheduler.priority.levels",
        hadoop="scheduler.priority.levels",
        old_names=("faircallqueue.priority-levels",),
        live=True,
    )
    service_users_max_share: float = setting(
        NUMBER,
        0.5,
        "Service users go before all levels, but get at most this share of the draws while others"
        " wait. 1: no bound; they are level 0, as in Hadoop.",
        key="scheduler.service-users.max-share",
        above=0,
        most=1,
        hadoop_default=1.0,
        live=True,
    )
    reserved_methods: tuple[str, ...] = setting(
        NAMES,
        (),
        "Methods (heartbeats) whose calls go before all levels, as by HADOOP-9640.",
        key="scheduler.reserved.methods",
        live=True,
    )
    reserved_users: tuple[str, ...] = setting(
        NAMES,
        (),
        "Users whose calls go before all levels.",
        key="scheduler.reserved.users",
        live=True,
    )
    reserved_max_share: float = setting(
        NUMBER,
        0.1,
        "Share of the draws that reserved calls get at most while others wait.",
        key="scheduler.reserved.max-share",
        above=0,
        most=1,
        live=True,
    )
    identity_provider: str = setting(
        IDENTITY_PROVIDERS,
        "UserIdentityProvider",
        "Who is charged for a call: the user, its context (below the user), the client's address,"
        " user and method, the user's group, or what a function of yours says. In short: user,"
        " context, address, user+method, group.",
        key="identity-provider.impl",
        hadoop="identity-provider.impl",
    )
    cost_provider: str = setting(
        COST_PROVIDERS,
        "DefaultCostProvider",
        "What a call costs: 1, or the weighted times of its phases.",
        key="cost-provider.impl",
        hadoop="cost-provider.impl",
    )


# In the order in which they are worked out: a derived default sees what stands above it.
GROUPS: Mapping[str, type[Any]] = {
    "callqueue": CallQueue,
    "scheduler": Scheduler,
    "decay_scheduler": DecayScheduler,
    "weighted_cost": WeightedCost,
    "history_scheduler": HistoryScheduler,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSettings:
    """The server of one `[ipc.<port>]` section; `port` is the section's, `addresses` where it is.

    `hadoop_rules`: the port sets `callqueue.impl`, or the file is a core-site.xml.
    """

    port: int
    addresses: tuple[BindAddress, ...]
    hadoop_rules: bool
    callqueue: CallQueue
    scheduler: Scheduler
    decay_scheduler: DecayScheduler
    weighted_cost: WeightedCost
    history_scheduler: HistoryScheduler
